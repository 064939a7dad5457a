"""The optimiser step: the only place that divides.

Always true: each named loss term is divided once, by its own count over the whole step (all micro-batches, all dp
ranks), so the gradient does not depend on how the batch was cut. Every rank takes the same collectives in the same
order, a rank without rows included.

    whole batch ─ split_dp ─▶ this rank's rows ─ counts ─▶ sum over ranks ─▶ divisors
      each micro-batch: outputs ─▶ objective.terms ─▶ Σ terms / divisor ─▶ backward
      sum gradients over ranks ─▶ finite? ─▶ norm ─▶ clip ─▶ AdamW at the scheduled rate
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ropewalk.algorithms.objectives import Objective
from ropewalk.models.packed import token_batch
from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.metric import Metric, Metrics, merge
from ropewalk.records.packed import Array, Ints, PackedBatch
from ropewalk.records.sample import SamplingRecord
from ropewalk.training.outputs import columns_of, network_outputs
from ropewalk.training.packing import micro_batches, split_dp
from ropewalk.training.packing import minibatches as deal
from ropewalk.training.state import TrainState


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one optimiser step did."""

    metrics: Metrics
    """Partial values of this rank; merged over ranks and steps they are those of the whole."""
    empty: bool
    """Nothing was trained: every count was zero, and no parameter or moment was touched."""
    logprobs_T: Array | None
    """Policy log-probs before the update in the batch's token order, 0 at other tokens and at other ranks' rows."""


@dataclass(slots=True)
class _Backward:
    """Sums gathered over this rank's micro-batches; the gradients stand on the parameters."""

    counts: Mapping[str, float]
    divisors: Mapping[str, float]
    metrics: list[Metrics] = field(default_factory=list)
    sums: dict[str, Tensor] = field(default_factory=dict)
    logprobs_T: Array | None = None

    @property
    def empty(self) -> bool:
        return not any(self.divisors.values())


def optimiser_step(
    state: TrainState, batch: PackedBatch, objective: Objective, *, sampling: SamplingRecord | None = None
) -> StepResult:
    """One AdamW update on the whole batch, of which this rank takes its share.

    Raises `RunStopped`, naming the first bad tensor, before the update when a loss or gradient is not finite. A step
    in which nothing trains changes no weight, but the schedule moves on.
    """
    done = _backward(state, batch, objective, sampling)
    metrics: dict[str, Metric] = {"empty_step": Metric.mean(float(done.empty), 1.0)}
    if not done.empty:
        metrics |= _update(state, done)
    state.step += 1
    for parameter in state.trained.values():
        parameter.grad = None
    return StepResult(merge([*done.metrics, metrics]), done.empty, done.logprobs_T)


def gradients(
    state: TrainState, batch: PackedBatch, objective: Objective, *, sampling: SamplingRecord | None = None
) -> dict[str, Tensor]:
    """The gradient that `optimiser_step` would clip and apply, by parameter name; nothing is updated."""
    done = _backward(state, batch, objective, sampling)
    _reduce(state, done)
    found: dict[str, Tensor] = {}
    for name, parameter in state.trained.items():
        found[name] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        parameter.grad = None
    return found


def train_batch(
    state: TrainState,
    batch: PackedBatch,
    objective: Objective,
    *,
    sampling: SamplingRecord | None = None,
    epochs: int = 1,
    minibatches: int = 1,
    seed: Sequence[int] = (0,),
) -> Metrics:
    """`epochs` passes over a fresh batch, each in `minibatches` optimiser steps; metrics of all of them.

    The first step is on-policy: its ratio is exactly 1 whatever was recorded. Later steps compare with
    `old_logprobs`: without minibatches those of the first step, otherwise the batch must bring them. Minibatches are
    dealt from `seed` (run seed, iteration) and the epoch, alike on every rank.
    """
    if minibatches > 1 and _has_ratio(batch, objective) and "old_logprobs" not in batch.token_columns:
        raise InputError(
            f"{minibatches} minibatches need the column old_logprobs, or later ones would train off-policy with "
            "ratio 1: score the batch with the policy first, or use one minibatch"
        )
    found: list[Metrics] = []
    for epoch in range(epochs):
        for rows in _dealt(batch, minibatches, np.random.default_rng([*seed, epoch])):
            part = batch if minibatches == 1 else batch.select(rows)
            result = optimiser_step(state, part if found else _on_policy(part), objective, sampling=sampling)
            gaps = {} if found or result.logprobs_T is None else _gaps(state, part, result.logprobs_T)
            if not found and minibatches == 1 and result.logprobs_T is not None:
                batch = batch.with_columns(tokens={"old_logprobs": result.logprobs_T})
            found.append({**result.metrics, **gaps})
    return merge(found)


def _gaps(state: TrainState, batch: PackedBatch, logprobs_T: Array) -> Metrics:
    """Largest |trainer − recorded| log-prob over this rank's policy tokens, before any update; 0 but for round-off.

    `engine_logprob_gap` compares with what the engine sampled from, `old_logprob_gap` with the column old_logprobs:
    the logarithm of the first step's ratio had it been computed from that column.
    """
    mine_T = np.zeros(batch.tokens, np.bool_)
    mine_T[_share(state, batch)[1]] = True
    mine_T &= batch.token_columns["policy_mask"].astype(np.bool_)
    found: dict[str, Metric] = {}
    for name, column in (("engine_logprob_gap", "rollout_logprobs"), ("old_logprob_gap", "old_logprobs")):
        recorded_T = batch.token_columns.get(column)
        if recorded_T is not None:
            gaps_T = np.abs(logprobs_T[mine_T].astype(np.float64) - recorded_T[mine_T].astype(np.float64))
            gaps_T = np.nan_to_num(gaps_T, nan=np.inf, posinf=np.inf)
            found[name] = Metric.max(float(gaps_T.max(initial=0.0)))
    return found


def _dealt(batch: PackedBatch, count: int, generator: np.random.Generator) -> list[Ints]:
    return [np.arange(batch.rows, dtype=np.int64)] if count == 1 else deal(batch, count, generator)


def _has_ratio(batch: PackedBatch, objective: Objective) -> bool:
    return "logprobs" in objective.outputs and "advantages" in batch.token_columns


def _on_policy(batch: PackedBatch) -> PackedBatch:
    kept = {name: column for name, column in batch.token_columns.items() if name != "old_logprobs"}
    return PackedBatch(batch.tokens_T, batch.segments_S3, kept, batch.row_columns)


def _backward(
    state: TrainState, batch: PackedBatch, objective: Objective, sampling: SamplingRecord | None
) -> _Backward:
    share, places = _share(state, batch)
    counts = objective.counts(columns_of(share, state.device))
    done = _Backward(counts, state.group.sum_counts(counts))
    if done.empty:
        return done
    if "logprobs" in objective.outputs:
        done.logprobs_T = np.zeros(batch.tokens, np.float32)
    parts = micro_batches(share, state.token_budget)
    for part_rows in parts:
        part = share if len(parts) == 1 else share.select(part_rows)
        logprobs = _backward_part(state, part, objective, sampling, done)
        if done.logprobs_T is not None and logprobs is not None:
            where = places if part is share else places[share.positions_of(part_rows)]
            done.logprobs_T[where] = logprobs.detach().float().cpu().numpy()
    return done


def _share(state: TrainState, batch: PackedBatch) -> tuple[PackedBatch, Ints]:
    """This rank's rows, and where their tokens lie in the batch."""
    if state.group.size == 1:
        return batch, np.arange(batch.tokens, dtype=np.int64)
    rows = split_dp(batch, state.group.size)[state.group.rank]
    return batch.select(rows), batch.positions_of(rows)


def _backward_part(
    state: TrainState,
    part: PackedBatch,
    objective: Objective,
    sampling: SamplingRecord | None,
    done: _Backward,
) -> Tensor | None:
    outputs = network_outputs(
        state.network,
        token_batch(part, state.device),
        objective.outputs,
        sampling=sampling,
        precision=state.precision,
    )
    terms, metrics = objective.terms(outputs, columns_of(part, state.device))
    done.metrics.append(metrics)
    losses = [term / done.divisors[name] for name, term in terms.items() if done.divisors[name]]
    for name, term in terms.items():
        done.sums[name] = done.sums[name] + term.detach() if name in done.sums else term.detach()
    if losses:
        loss = torch.stack(losses).sum()
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
    return outputs.get("logprobs")


def _reduce(state: TrainState, done: _Backward) -> Tensor:
    """Sum gradients over the ranks; returns the loss terms' sums over all ranks, in order of the counts' names."""
    for parameter in state.trained.values():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    zero = torch.zeros((), device=state.device)
    totals = torch.stack([done.sums.get(name, zero).float() for name in sorted(done.counts)])
    state.group.all_reduce_flat([*(p.grad for p in state.trained.values() if p.grad is not None), totals])
    return totals


def _update(state: TrainState, done: _Backward) -> dict[str, Metric]:
    own = {name: value.detach() for name, value in done.sums.items()}
    totals = _reduce(state, done)
    grads = [parameter.grad for parameter in state.trained.values() if parameter.grad is not None]
    norm_tensor = torch.nn.utils.get_total_norm(grads)
    names = sorted(done.counts)
    numbers = torch.cat(
        [totals, norm_tensor.reshape(1).float(), *(own[name].reshape(1).float() for name in sorted(own))]
    )
    *sums, norm = numbers[: len(names) + 1].tolist()
    _check_finite(state, dict(zip(names, sums, strict=True)), norm)
    clip = state.optimizer.clip_norm
    if clip is not None and norm > clip:
        torch._foreach_mul_(grads, clip / norm)
    rate = state.lr
    state.update()
    local = dict(zip(sorted(own), numbers[len(names) + 1 :].tolist(), strict=True))
    losses = {f"loss_{name}": Metric.mean(local.get(name, 0.0), done.counts[name]) for name in names}
    return {**losses, "grad_norm": Metric.mean(norm, 1.0), "lr": Metric.mean(rate, 1.0)}


def _check_finite(state: TrainState, sums: Mapping[str, float], norm: float) -> None:
    for name, value in sums.items():
        if not math.isfinite(value):
            raise RunStopped(
                f"loss term {name!r} is {value} at optimiser step {state.step}, nothing was updated: look at the "
                "rewards and log-probs of this batch, or lower the learning rate and resume"
            )
    if math.isfinite(norm):
        return
    for name, parameter in state.trained.items():
        if parameter.grad is not None and not bool(torch.isfinite(parameter.grad).all()):
            raise RunStopped(
                f"the gradient of {name} is not finite at optimiser step {state.step}, nothing was updated: lower the "
                "learning rate or switch bf16 off and resume"
            )
    raise RunStopped(f"the gradient norm overflows at optimiser step {state.step}: lower the learning rate and resume")
