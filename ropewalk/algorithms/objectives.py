"""What a train call minimises: named terms as *sums* with coefficient and sign applied, and each term's own count.

The training step adds sums and counts over micro-batches and ranks and divides once. Micro-batches never cut a
row (a pair, for pairs), so any split gives the same value and gradient. Nothing outside the trained tokens of
trained rows can change a term, a count, a metric or a gradient.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from torch import Tensor

from ropewalk.algorithms.config import (
    GRPO,
    PPO,
    SFT,
    KeepUnfinished,
    ProcessRewardModel,
    Reduction,
    RewardModel,
    SharedCritic,
    Unfinished,
)
from ropewalk.algorithms.kl import kl_estimate
from ropewalk.algorithms.masked import Columns, in_rows, judged_rows, masked_sum, means, rows_in, select, trained_tokens
from ropewalk.algorithms.policy_loss import clipped_policy_terms, policy_metrics
from ropewalk.algorithms.preference_loss import bradley_terry_terms, pair_metrics, pairs_of
from ropewalk.algorithms.process_loss import step_metrics, step_terms
from ropewalk.algorithms.reduction import count, token_weights
from ropewalk.algorithms.supervised_loss import nll_terms
from ropewalk.algorithms.value_loss import value_metrics, value_terms
from ropewalk.records.errors import InputError
from ropewalk.records.metric import Metrics

Outputs: TypeAlias = Mapping[str, Tensor]
"""What the network computed: `logprobs`, `entropy`, `values`, `token_scores` (T,), `scores` over rows (R,)."""
Terms: TypeAlias = dict[str, Tensor]


class Objective(Protocol):
    """A loss that knows its parts, not its divisor."""

    @property
    def outputs(self) -> frozenset[str]:
        """What the network must compute: a subset of logprobs, entropy, values, scores, token_scores."""
        ...

    def counts(self, columns: Columns) -> dict[str, float]:
        """This part's share of each term's divisor, from masks and ids only."""
        ...

    def terms(self, outputs: Outputs, columns: Columns) -> tuple[Terms, Metrics]:
        """Each term's sum over this part, to be minimised once divided, and partial metrics."""
        ...


@dataclass(frozen=True)
class _Reducer:
    """Trained tokens of a part and the sums over them."""

    mask_T: Tensor
    weights_T: Tensor

    @staticmethod
    def of(columns: Columns, reduction: Reduction, unfinished: Unfinished, *, like_T: Tensor) -> "_Reducer":
        mask_T, rows = trained_tokens(columns, unfinished), rows_in(columns)
        return _Reducer(mask_T, token_weights(reduction, columns["row_T"], mask_T, rows, dtype=like_T.dtype))

    def keep(self, values_T: Tensor) -> Tensor:
        return select(values_T, self.mask_T)

    def sum(self, terms_T: Tensor) -> Tensor:
        return masked_sum(self.weights_T * terms_T, self.mask_T)


def _token_count(columns: Columns, reduction: Reduction, unfinished: Unfinished) -> float:
    return count(reduction, columns["row_T"], trained_tokens(columns, unfinished), rows_in(columns))


@dataclass(frozen=True)
class ActorObjective:
    """Terms `policy`, `kl` where the KL is a loss, `entropy` where it has a coefficient."""

    cfg: PPO | GRPO

    @property
    def outputs(self) -> frozenset[str]:
        return frozenset({"logprobs", "entropy"} if self.cfg.entropy_coefficient else {"logprobs"})

    @property
    def names(self) -> tuple[str, ...]:
        kl = ("kl",) if self.cfg.kl.place == "loss" else ()
        return ("policy", *kl, *(("entropy",) if self.cfg.entropy_coefficient else ()))

    def counts(self, columns: Columns) -> dict[str, float]:
        return dict.fromkeys(self.names, _token_count(columns, self.cfg.reduction, self.cfg.unfinished))

    def terms(self, outputs: Outputs, columns: Columns) -> tuple[Terms, Metrics]:
        cfg = self.cfg
        over = _Reducer.of(columns, cfg.reduction, cfg.unfinished, like_T=outputs["logprobs"])
        logprobs_T = over.keep(outputs["logprobs"])
        policy = clipped_policy_terms(
            logprobs_T,
            over.keep(columns["old_logprobs"]) if "old_logprobs" in columns else None,
            over.keep(columns["advantages"]),
            clip_low=cfg.clip_low,
            clip_high=cfg.clip_high,
        )
        terms = {"policy": over.sum(policy.loss_T)}
        metrics = dict(policy_metrics(policy, over.mask_T))
        if cfg.kl.place == "loss":
            kl_T = kl_estimate(cfg.kl.estimator, logprobs_T, over.keep(columns["reference_logprobs"]))
            terms["kl"] = cfg.kl.coefficient * over.sum(kl_T)
            metrics |= means({f"reference_kl_{cfg.kl.estimator}": kl_T}, over.mask_T)
        if cfg.entropy_coefficient:
            entropy_T = over.keep(outputs["entropy"])
            terms["entropy"] = -cfg.entropy_coefficient * over.sum(entropy_T)
            metrics |= means({"entropy": entropy_T}, over.mask_T)
        return terms, metrics


@dataclass(frozen=True)
class CriticObjective:
    """Term `value`. Reads the columns `values` (before the update) and `returns`."""

    cfg: PPO
    coefficient: float = 1.0

    @property
    def outputs(self) -> frozenset[str]:
        return frozenset({"values"})

    def counts(self, columns: Columns) -> dict[str, float]:
        return {"value": _token_count(columns, self.cfg.reduction, self.cfg.unfinished)}

    def terms(self, outputs: Outputs, columns: Columns) -> tuple[Terms, Metrics]:
        over = _Reducer.of(columns, self.cfg.reduction, self.cfg.unfinished, like_T=outputs["values"])
        values_T, returns_T = over.keep(outputs["values"]), over.keep(columns["returns"])
        value = value_terms(values_T, over.keep(columns["values"]), returns_T, self.cfg.value_clip)
        metrics = value_metrics(value, values_T, returns_T, over.mask_T)
        return {"value": self.coefficient * over.sum(value.loss_T)}, metrics


@dataclass(frozen=True)
class JointObjective:
    """Actor and critic on one backbone: the terms of both."""

    actor: ActorObjective
    critic: CriticObjective

    @property
    def outputs(self) -> frozenset[str]:
        return self.actor.outputs | self.critic.outputs

    def counts(self, columns: Columns) -> dict[str, float]:
        return {**self.actor.counts(columns), **self.critic.counts(columns)}

    def terms(self, outputs: Outputs, columns: Columns) -> tuple[Terms, Metrics]:
        (ours, shown), (theirs, seen) = self.actor.terms(outputs, columns), self.critic.terms(outputs, columns)
        return {**ours, **theirs}, {**shown, **seen}


@dataclass(frozen=True)
class SFTObjective:
    """Term `nll` over the tokens of `policy_mask`."""

    cfg: SFT

    @property
    def outputs(self) -> frozenset[str]:
        return frozenset({"logprobs"})

    def counts(self, columns: Columns) -> dict[str, float]:
        return {"nll": _token_count(columns, self.cfg.reduction, KeepUnfinished())}

    def terms(self, outputs: Outputs, columns: Columns) -> tuple[Terms, Metrics]:
        over = _Reducer.of(columns, self.cfg.reduction, KeepUnfinished(), like_T=outputs["logprobs"])
        nll_T = nll_terms(over.keep(outputs["logprobs"]))
        return {"nll": over.sum(nll_T)}, means({"nll_per_token": nll_T}, over.mask_T)


@dataclass(frozen=True)
class PairwiseObjective:
    """Term `pairs`: Bradley–Terry over rows paired by `unit` and `chosen`."""

    @property
    def outputs(self) -> frozenset[str]:
        return frozenset({"scores"})

    def counts(self, columns: Columns) -> dict[str, float]:
        return {"pairs": float(len(pairs_of(columns["unit"], columns["chosen"], judged_rows(columns)).chosen_N))}

    def terms(self, outputs: Outputs, columns: Columns) -> tuple[Terms, Metrics]:
        pairs = pairs_of(columns["unit"], columns["chosen"], judged_rows(columns))
        terms_N = bradley_terry_terms(outputs["scores"], pairs)
        return {"pairs": terms_N.sum()}, pair_metrics(outputs["scores"], pairs)


@dataclass(frozen=True)
class ProcessObjective:
    """Term `steps`: cross-entropy at the tokens of `step_end`, towards `step_label`."""

    @property
    def outputs(self) -> frozenset[str]:
        return frozenset({"token_scores"})

    def counts(self, columns: Columns) -> dict[str, float]:
        return {"steps": float(_step_ends(columns).sum())}

    def terms(self, outputs: Outputs, columns: Columns) -> tuple[Terms, Metrics]:
        ends_T = _step_ends(columns)
        scores_T, labels_T = select(outputs["token_scores"], ends_T), select(columns["step_label"], ends_T)
        metrics = step_metrics(scores_T, labels_T, ends_T)
        return {"steps": masked_sum(step_terms(scores_T, labels_T), ends_T)}, metrics


def _step_ends(columns: Columns) -> Tensor:
    return in_rows(judged_rows(columns), columns) & columns["step_end"].bool()


def actor_objective(cfg: PPO | GRPO) -> ActorObjective:
    """The actor's loss of PPO (separate critic) or GRPO."""
    return ActorObjective(cfg)


def critic_objective(cfg: PPO) -> CriticObjective:
    """The loss of a critic that is a model of its own."""
    return CriticObjective(cfg)


def joint_objective(cfg: PPO) -> JointObjective:
    """Actor and critic in one loss, for a value head on the actor's backbone."""
    if not isinstance(cfg.critic, SharedCritic):
        raise InputError('a joint loss needs critic.kind = "shared"')
    return JointObjective(ActorObjective(cfg), CriticObjective(cfg, cfg.critic.coefficient))


def sft_objective(cfg: SFT) -> SFTObjective:
    """Imitation of the tokens under `policy_mask`."""
    return SFTObjective(cfg)


def process_objective(cfg: ProcessRewardModel) -> ProcessObjective:
    """The process reward model's loss; its settings shape the steps, not the loss."""
    return ProcessObjective()


def pairwise_objective(cfg: RewardModel) -> PairwiseObjective:
    """The reward model's loss; its settings shape the steps, not the loss."""
    return PairwiseObjective()
