"""Invariances of every objective: any split gives the whole, and masked positions may hold anything."""

import random
from collections.abc import Mapping, Sequence

import pytest
import torch
from torch import Tensor

from ropewalk.algorithms.config import (
    GRPO,
    PPO,
    SFT,
    ClipValue,
    ConstantReduction,
    KLLoss,
    KLNone,
    MaskUnfinished,
    Reduction,
    RewardModel,
    SequenceReduction,
    SharedCritic,
    TokenReduction,
)
from ropewalk.algorithms.credit import credit_metrics, gae_credit, group_credit
from ropewalk.algorithms.objectives import (
    Objective,
    actor_objective,
    critic_objective,
    joint_objective,
    pairwise_objective,
    sft_objective,
)
from ropewalk.algorithms.value_loss import explained_variance
from ropewalk.records.errors import InputError
from ropewalk.records.metric import Metric, Metrics, merge
from tests.algorithms.batches import GARBAGE, Row, by_row, columns, random_rows

REDUCTIONS: tuple[Reduction, ...] = (TokenReduction(), SequenceReduction(), ConstantReduction(length_tokens=7))
LIVE_COLUMN = {"logprobs": "logprobs", "entropy": "entropy", "values": "values_now"}


def ppo(reduction: Reduction) -> PPO:
    return PPO(
        reduction=reduction,
        kl=KLLoss(coefficient=0.3),
        entropy_coefficient=0.1,
        value_clip=ClipValue(range=0.1),
        critic=SharedCritic(),
        unfinished=MaskUnfinished(),
    )


def objectives(reduction: Reduction) -> list[Objective]:
    cfg = ppo(reduction)
    grpo = GRPO(reduction=reduction, kl=KLLoss(estimator="k2"), entropy_coefficient=0.1)
    return [
        actor_objective(cfg),
        critic_objective(cfg),
        joint_objective(cfg),
        actor_objective(grpo),
        sft_objective(SFT(reduction=reduction)),
    ]


ALL = [pytest.param(o, id=f"{type(o).__name__}-{r.kind}-{n}") for r in REDUCTIONS for n, o in enumerate(objectives(r))]


def with_credit(rows: list[Row], cfg: PPO) -> list[Row]:
    """Credit is computed once over the whole iteration; the rows then carry it."""
    found = columns(rows)
    credit = {name: by_row(column, found) for name, column in gae_credit(cfg, found).items()}
    for number, row in enumerate(rows):
        row.extra = {name: values[number] for name, values in credit.items()}
    return rows


class Outcome:
    """A loss over parts: sums added, counts added, divided once; the gradient per row and output."""

    def __init__(self, objective: Objective, parts: Sequence[tuple[Sequence[int], Mapping[str, Tensor]]]) -> None:
        counts: dict[str, float] = {}
        for _, found in parts:
            for name, part in objective.counts(found).items():
                counts[name] = counts.get(name, 0.0) + part
        self.counts = counts
        self.losses = dict.fromkeys(counts, 0.0)
        self.gradient: dict[tuple[str, int], list[float]] = {}
        seen: list[Metrics] = []
        for numbers, found in parts:
            outputs = {n: found[LIVE_COLUMN[n]].clone().requires_grad_() for n in objective.outputs}
            terms, metrics = objective.terms(outputs, found)
            seen.append(metrics)
            total = torch.zeros((), dtype=torch.float64)
            for name, term in terms.items():
                part = term / counts[name] if counts[name] else term * 0
                self.losses[name] += part.item()
                total = total + part
            total.backward()  # type: ignore[no-untyped-call]
            for name, output in outputs.items():
                assert output.grad is not None and output.grad.isfinite().all()
                assert not output.grad[~found["policy_mask"]].any()
                for number, values in zip(numbers, by_row(output.grad, found), strict=True):
                    self.gradient[name, number] = values
        self.metrics = merge(seen)

    def same_as(self, other: "Outcome", tolerance: float = 1e-12) -> None:
        assert self.counts == other.counts
        assert self.losses == pytest.approx(other.losses, abs=tolerance)
        assert self.gradient.keys() == other.gradient.keys()
        for key, values in self.gradient.items():
            assert values == pytest.approx(other.gradient[key], abs=tolerance), key
        assert self.metrics.keys() == other.metrics.keys()
        for name, metric in self.metrics.items():
            theirs = other.metrics[name]
            assert metric.kind == theirs.kind
            assert metric.total == pytest.approx(theirs.total, abs=1e-9, nan_ok=False), name
            assert metric.kind != "mean" or metric.count == theirs.count


def whole(objective: Objective, rows: Sequence[Row], **how: object) -> Outcome:
    return Outcome(objective, [(range(len(rows)), columns(rows, **how))])  # type: ignore[arg-type]


@pytest.mark.parametrize("objective", ALL)
@pytest.mark.parametrize("sizes", [(1,), (2,), (5,), (1, 0, 3, 2)])
def test_any_split_gives_the_value_gradient_and_metrics_of_the_whole(
    objective: Objective, sizes: Sequence[int]
) -> None:
    """Fault A1, P1: micro-batches of any sizes, an empty one and a fully masked row included, in any order."""
    rows = with_credit(random_rows(3, count=11), ppo(TokenReduction()))
    order = list(range(len(rows)))
    random.Random(5).shuffle(order)
    parts = []
    for turn in range(100):
        size = sizes[turn % len(sizes)]
        if not order:
            break
        taken, order = order[:size], order[size:]
        parts.append((taken, columns([rows[n] for n in taken], seed=turn)))
    Outcome(objective, parts).same_as(whole(objective, rows))


@pytest.mark.parametrize("objective", ALL)
@pytest.mark.parametrize("garbage", GARBAGE)
def test_masked_positions_may_hold_anything(objective: Objective, garbage: float) -> None:
    """Fault C4, P3: loss, metrics and gradient are those of a batch with zeros there."""
    rows = with_credit(random_rows(8), ppo(TokenReduction()))
    whole(objective, rows, garbage=(garbage,)).same_as(whole(objective, rows, garbage=(0.0,)), 0.0)


@pytest.mark.parametrize("cfg", [PPO(), GRPO(), GRPO(kl=KLNone(), scale="none")], ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("garbage", GARBAGE)
def test_credit_is_blind_to_masked_positions(cfg: PPO | GRPO, garbage: float) -> None:
    """Fault C4, D1: every column the credit reads, rewards of rows without an outcome included."""
    rows = random_rows(9)
    credit = gae_credit if isinstance(cfg, PPO) else group_credit
    found, clean = columns(rows, garbage=(garbage,)), columns(rows, garbage=(0.0,))
    for name, column in credit(cfg, clean).items():  # type: ignore[arg-type]
        assert torch.equal(credit(cfg, found)[name], column)  # type: ignore[arg-type]
    assert credit_metrics(cfg, found) == credit_metrics(cfg, clean)


def test_a_part_with_nothing_to_train_contributes_nothing() -> None:
    """Fault A1, A3, A8: an empty micro-batch and an all-masked batch: loss 0, zero gradient, no NaN, counts 0."""
    rows = with_credit(random_rows(4, count=3), ppo(TokenReduction()))
    for row in rows:
        row.valid = False
    for reduction in REDUCTIONS:
        for objective in objectives(reduction):
            for part in (rows, []):
                nothing = whole(objective, part)
                assert set(nothing.counts.values()) == {0.0}
                assert set(nothing.losses.values()) == {0.0}
                assert not any(any(values) for values in nothing.gradient.values())


def nll_columns(lengths: Sequence[int]) -> dict[str, Tensor]:
    row_T = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths, dtype=torch.int64))
    return {"row_T": row_T, "policy_mask": torch.ones(len(row_T), dtype=torch.bool)}


def test_token_mean_over_micro_batches_is_the_mean_over_tokens() -> None:
    """Fault A1: one token of loss 4 and three of loss 1 give 1.75, not 2.5."""
    objective = sft_objective(SFT())
    parts = [(nll_columns([1]), [-4.0]), (nll_columns([3]), [-1.0] * 3), (nll_columns([]), [])]
    sums = [objective.terms({"logprobs": torch.tensor(values)}, found)[0]["nll"] for found, values in parts]
    count = sum(objective.counts(found)["nll"] for found, _ in parts)
    assert float(sum(sums)) / count == 1.75


def unfinished_rows(lengths: Sequence[int], finished: Sequence[bool]) -> dict[str, Tensor]:
    found = nll_columns(lengths)
    tokens = len(found["row_T"])
    return {
        **found,
        "finished": torch.tensor(finished),
        "valid": torch.ones(len(lengths), dtype=torch.bool),
        "advantages": -torch.ones(tokens),
    }


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda r: r.kind)
def test_masked_unfinished_rows_leave_numerator_and_denominator(reduction: Reduction) -> None:
    """Fault A3: as if physically removed; the token mean of losses 1 stays 1 (not 2/5)."""
    objective = actor_objective(PPO(kl=KLNone(), unfinished=MaskUnfinished(), reduction=reduction))
    masked, removed = unfinished_rows([2, 3], [True, False]), unfinished_rows([2], [True])
    losses = []
    for found in (masked, removed):
        logprobs_T = torch.full((len(found["row_T"]),), -0.7, requires_grad=True)
        terms, _ = objective.terms({"logprobs": logprobs_T}, found)
        loss = terms["policy"] / objective.counts(found)["policy"]
        loss.backward()  # type: ignore[no-untyped-call]
        assert logprobs_T.grad is not None
        losses.append((loss.item(), logprobs_T.grad[:2].tolist()))
    assert losses[0] == losses[1]
    assert reduction.kind != "token" or losses[0][0] == pytest.approx(1.0)


@pytest.mark.parametrize("padding", [0, 2])
def test_constant_reduction_divides_by_sequences_times_the_configured_length(padding: int) -> None:
    """Fault A4: sums 3 and 1, length 8: 0.25 whatever the width; and over separate micro-batches."""
    objective = sft_objective(SFT(reduction=ConstantReduction(length_tokens=8)))
    found = nll_columns([3 + padding, 1 + padding])
    wide = torch.tensor([1.0, 1, 1, *[0] * padding, 1, *[0] * padding])
    found["policy_mask"] = wide > 0
    terms, _ = objective.terms({"logprobs": -wide}, found)
    assert terms["nll"].item() / objective.counts(found)["nll"] == 0.25


def test_rows_with_zero_advantage_stay_in_the_denominator() -> None:
    """Fault E1: a group without signal dilutes, it does not vanish."""
    found = unfinished_rows([2, 2], [True, True])
    found["advantages"] = torch.tensor([1.0, 1.0, 0.0, 0.0])
    for reduction in REDUCTIONS:
        objective = actor_objective(GRPO(kl=KLNone(), reduction=reduction))
        terms, _ = objective.terms({"logprobs": torch.zeros(4)}, found)
        wanted = {"token": -2 / 4, "sequence": -1 / 2, "constant": -2 / 14}[reduction.kind]
        assert terms["policy"].item() / objective.counts(found)["policy"] == pytest.approx(wanted)


def test_the_ratio_is_exactly_one_on_policy_and_real_otherwise() -> None:
    """Fault K4: without old log-probs the ratio is 1 with the policy gradient; with them it is what it is."""
    found = unfinished_rows([2, 1], [True, True])
    found["advantages"] = torch.tensor([0.5, -1.0, 2.0])
    logprobs_T = torch.tensor([-1.0, -0.3, -2.0], requires_grad=True)
    objective = actor_objective(GRPO(kl=KLNone(), reduction=TokenReduction()))
    terms, metrics = objective.terms({"logprobs": logprobs_T}, found)
    terms["policy"].backward()  # type: ignore[no-untyped-call]
    assert logprobs_T.grad is not None and torch.equal(logprobs_T.grad, -found["advantages"])
    assert metrics["ratio_max"].value == metrics["ratio_min"].value == metrics["ratio"].value == 1.0
    assert metrics["approximate_kl"].value == metrics["clip_fraction"].value == 0.0
    found["old_logprobs"] = torch.tensor([-1.0, -1.3, -1.0])
    _, metrics = objective.terms({"logprobs": logprobs_T}, found)
    assert metrics["ratio_max"].value == pytest.approx(2.718282, rel=1e-5)
    assert metrics["ratio_min"].value == pytest.approx(0.367879, rel=1e-5)


def test_the_clip_takes_the_gradient_and_says_how_often() -> None:
    """Fault P1: 2 of 8 tokens clipped in one part and 2 of 2 in another are 0.4. For A < 0 a large ratio is free."""
    objective = actor_objective(GRPO(kl=KLNone(), clip_low=0.2, clip_high=0.3))
    high, low = torch.log(torch.tensor(1.4)), torch.log(torch.tensor(0.7))

    def part(logprobs: list[Tensor | float], advantages: list[float]) -> tuple[Tensor, Metric]:
        found = unfinished_rows([len(logprobs)], [True])
        found |= {"advantages": torch.tensor(advantages), "old_logprobs": torch.zeros(len(logprobs))}
        live = torch.tensor([float(value) for value in logprobs], requires_grad=True)
        terms, metrics = objective.terms({"logprobs": live}, found)
        terms["policy"].backward()  # type: ignore[no-untyped-call]
        assert live.grad is not None
        return live.grad != 0, metrics["clip_fraction"]

    moved, first = part([high, high, low, low, 0.0, 0.0, 0.0, 0.0], [1, -1, 1, -1, 1, 1, 1, 1])
    assert moved.tolist() == [False, True, True, False, True, True, True, True]
    _, second = part([high, low], [1, -1])
    assert first.merge(second).value == pytest.approx(0.4)


def test_explained_variance_follows_from_mergeable_sums() -> None:
    rows = with_credit(random_rows(2, count=8), ppo(TokenReduction()))
    objective = critic_objective(PPO())
    metrics = whole(objective, rows).metrics
    pairs = [(r, v) for row in rows if row.valid for r, v in zip(row.extra["returns"], row.tokens["values_now"])]  # noqa: B905
    returns, values = torch.tensor(pairs, dtype=torch.float64).T
    wanted = 1 - (returns - values).var(correction=0) / returns.var(correction=0)
    assert explained_variance(metrics) == pytest.approx(wanted.item())
    perfect = {**metrics, "value_error": Metric.mean(0, 1), "value_error_squared": Metric.mean(0, 1)}
    assert explained_variance(perfect) == 1.0


def test_a_joint_loss_needs_a_shared_critic() -> None:
    with pytest.raises(InputError, match="shared"):
        joint_objective(PPO())


@pytest.mark.parametrize("cut", [1, 2, 4])
def test_pairs_split_between_micro_batches_give_the_whole(cut: int) -> None:
    """Fault A1: as long as no pair is cut."""
    objective = pairwise_objective(RewardModel())
    scores_R = torch.randn(10, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = {
        "unit": torch.arange(10) // 2,
        "chosen": torch.tensor([True, False, False, True, True] * 2),
        "valid": torch.ones(10, dtype=torch.bool),
    }
    found["chosen"] = torch.tensor([True, False, False, True, True, False, False, True, True, False])
    whole_terms, whole_metrics = objective.terms({"scores": scores_R}, found)
    total, count, seen = 0.0, 0.0, []
    for start in range(0, 10, 2 * cut):
        part = {name: column[start : start + 2 * cut] for name, column in found.items()}
        terms, metrics = objective.terms({"scores": scores_R[start : start + 2 * cut]}, part)
        total, count = total + terms["pairs"].item(), count + objective.counts(part)["pairs"]
        seen.append(metrics)
    assert count == objective.counts(found)["pairs"] == 5
    assert total == pytest.approx(whole_terms["pairs"].item())
    assert {n: m.value for n, m in merge(seen).items()} == pytest.approx({n: m.value for n, m in whole_metrics.items()})
