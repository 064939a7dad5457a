"""Every objective against its oracle: value and gradient to 1e-6 in float64, on ragged batches full of garbage."""

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence

import pytest
import torch
from torch import Tensor

from ropewalk.algorithms.advantages import STD_EPS
from ropewalk.algorithms.config import (
    GRPO,
    KL,
    PPO,
    SFT,
    ClipValue,
    ConstantReduction,
    KeepUnfinished,
    KLLoss,
    KLNone,
    KLReward,
    MaskUnfinished,
    NoValueClip,
    PenaliseUnfinished,
    Reduction,
    RewardModel,
    SequenceReduction,
    SharedCritic,
    TokenReduction,
    Unfinished,
)
from ropewalk.algorithms.credit import gae_credit, group_credit
from ropewalk.algorithms.objectives import (
    Objective,
    actor_objective,
    critic_objective,
    joint_objective,
    pairwise_objective,
    sft_objective,
)
from tests.algorithms.batches import Row, by_row, columns, random_rows
from tests.oracle import grpo as slow_grpo
from tests.oracle import ppo as slow_ppo
from tests.oracle import supervised as slow
from tests.oracle.kl import estimate
from tests.oracle.reductions import reduce

REDUCTIONS: tuple[Reduction, ...] = (TokenReduction(), SequenceReduction(), ConstantReduction(length_tokens=7))
KLS: tuple[KL, ...] = (
    KLNone(),
    *(KLReward(coefficient=0.3, estimator=name) for name in ("k1", "k2", "k3")),
    *(KLLoss(coefficient=0.3, estimator=name) for name in ("k2", "k3")),
)
UNFINISHED: tuple[Unfinished, ...] = (KeepUnfinished(), PenaliseUnfinished(score=-2.0), MaskUnfinished())

Live = dict[str, list[list[float]]]
LENGTH = 7


def kept_rows(rows: Sequence[Row], unfinished: Unfinished) -> list[int]:
    return [n for n, row in enumerate(rows) if row.valid and (row.finished or unfinished.kind != "mask")]


def score(row: Row, unfinished: Unfinished) -> float:
    return unfinished.score if unfinished.kind == "penalty" and not row.finished else row.reward


def slow_advantages(cfg: PPO | GRPO, rows: Sequence[Row], *, old: bool) -> tuple[Live, Live]:
    """(advantages, returns) per row, empty for rows that do not train."""
    policy = "old_logprobs" if old else "rollout_logprobs"
    estimator = cfg.kl.estimator if cfg.kl.place == "reward" else None
    beta = cfg.kl.coefficient if cfg.kl.place == "reward" else 0.0
    kept = [n for n in kept_rows(rows, cfg.unfinished) if isinstance(cfg, GRPO) or rows[n].length]
    rewards = {}
    for n in kept:
        tokens = rows[n].tokens
        if not rows[n].length:
            rewards[n] = [score(rows[n], cfg.unfinished)]
            continue
        rewards[n] = slow_ppo.token_rewards(
            score(rows[n], cfg.unfinished), tokens[policy], tokens["reference_logprobs"], beta=beta, estimator=estimator
        )
    advantages: list[list[float]] = [[] for _ in rows]
    returns: list[list[float]] = [[] for _ in rows]
    if isinstance(cfg, GRPO):
        for group in {rows[n].group for n in kept}:
            members = [n for n in kept if rows[n].group == group]
            found = slow_grpo.advantages(
                [sum(rewards[n]) for n in members], baseline=cfg.baseline, scale=cfg.scale, eps=STD_EPS
            )
            for n, advantage in zip(members, found, strict=True):
                advantages[n] = [advantage] * rows[n].length
        return {"advantages": advantages}, {}
    for n in kept:
        advantages[n] = slow_ppo.gae(rewards[n], rows[n].tokens["values"], cfg.gamma, cfg.lam)
        returns[n] = [a + v for a, v in zip(advantages[n], rows[n].tokens["values"], strict=True)]
    if cfg.whiten == "tokens":
        for n, row in zip(kept, slow_ppo.whiten([advantages[n] for n in kept]), strict=True):
            advantages[n] = row
    return {"advantages": advantages}, {"returns": returns}


def slow_loss(
    cfg: PPO | GRPO, rows: Sequence[Row], credit: Live, live: Live, *, frozen_old: Live | None, parts: str
) -> float:
    """The loss as a function of the live numbers; without old log-probs they are the live ones, frozen."""
    terms: list[list[float]] = []
    for n in kept_rows(rows, cfg.unfinished):
        row = rows[n]
        old = row.tokens["old_logprobs"] if frozen_old is None else frozen_old["logprobs"][n]
        found = []
        for t in range(row.length):
            logprob, term = live["logprobs"][n][t], 0.0
            if "actor" in parts:
                advantage = credit["advantages"][n][t]
                term += slow_ppo.clipped(logprob, old[t], advantage, cfg.clip_low, cfg.clip_high)
                if cfg.kl.place == "loss":
                    reference = row.tokens["reference_logprobs"][t]
                    term += cfg.kl.coefficient * estimate(cfg.kl.estimator, logprob, reference)
                term -= cfg.entropy_coefficient * live["entropy"][n][t]
            if "critic" in parts:
                assert isinstance(cfg, PPO)
                weight = cfg.critic.coefficient if cfg.critic.kind == "shared" else 1.0
                clip = cfg.value_clip.range if cfg.value_clip.kind == "clip" else None
                now, before = live["values_now"][n][t], row.tokens["values"][t]
                term += weight * slow_ppo.value(now, before, credit["returns"][n][t], clip)
            found.append(term)
        terms.append(found)
    return reduce(cfg.reduction.kind, terms, LENGTH)


CORNER = math.nan


def slow_gradient(loss: Callable[[Live], float], live: Live) -> Live:
    """Central differences in every live number; NaN at a corner of a clip, where the two sides disagree."""
    step, middle = 1e-7, loss(live)
    found: Live = {name: [[0.0] * len(row) for row in rows] for name, rows in live.items()}
    for name, rows in live.items():
        for n, row in enumerate(rows):
            for t, here in enumerate(row):
                row[t] = here + step
                above = loss(live)
                row[t] = here - step
                below = loss(live)
                row[t] = here
                bend = (above - 2 * middle + below) / step
                found[name][n][t] = CORNER if abs(bend) > 2e-6 else (above - below) / (2 * step)
    corners = sum(math.isnan(slope) for rows in found.values() for row in rows for slope in row)
    assert corners <= 2
    return found


def fast_loss(objective: Objective, outputs: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> Tensor:
    terms, _ = objective.terms(outputs, found)
    counts = objective.counts(found)
    assert terms.keys() == counts.keys()
    return torch.stack([term / max(counts[name], 1.0) for name, term in terms.items()]).sum()


def live_outputs(found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    names = {"logprobs": "logprobs", "entropy": "entropy", "values": "values_now"}
    return {name: found[column].clone().requires_grad_() for name, column in names.items()}


def assert_equal(found: Sequence[Sequence[float]], wanted: Sequence[Sequence[float]], tolerance: float = 1e-6) -> None:
    for ours, theirs in zip(found, wanted, strict=True):
        assert len(ours) == len(theirs)
        smooth = [(a, b) for a, b in zip(ours, theirs, strict=True) if not math.isnan(b)]
        assert [a for a, _ in smooth] == pytest.approx([b for _, b in smooth], abs=tolerance, rel=1e-6)


def check(cfg: PPO | GRPO, seed: int, *, old: bool) -> None:
    rows = random_rows(seed)
    found = columns(rows, seed=seed, old=old)
    parts = "actor" if isinstance(cfg, GRPO) else "actor critic" if cfg.critic.kind == "shared" else "actor | critic"
    credit = group_credit(cfg, found) if isinstance(cfg, GRPO) else gae_credit(cfg, found)
    ours = {name: by_row(column, found) for name, column in credit.items()}
    advantages, returns = slow_advantages(cfg, rows, old=old)
    wanted = {**advantages, **returns}
    for name, expected in wanted.items():
        padded = [row or [0.0] * rows[n].length for n, row in enumerate(expected)]
        assert_equal(ours[name], padded, 1e-9)
        assert not credit[name][~found["policy_mask"]].any()
    found |= credit
    live = {name: [list(row.tokens[name]) for row in rows] for name in ("logprobs", "entropy", "values_now")}
    frozen = None if old else {"logprobs": [list(row) for row in live["logprobs"]]}
    for part in parts.split(" | "):
        objective: Objective
        if part == "critic":
            assert isinstance(cfg, PPO)
            objective = critic_objective(cfg)
        elif part == "actor critic":
            assert isinstance(cfg, PPO)
            objective = joint_objective(cfg)
        else:
            objective = actor_objective(cfg)

        def loss(live: Live, part: str = part) -> float:
            return slow_loss(cfg, rows, wanted, live, frozen_old=frozen, parts=part)

        outputs = live_outputs(found)
        fast = fast_loss(objective, outputs, found)
        assert fast.item() == pytest.approx(loss(live), abs=1e-9)
        fast.backward()  # type: ignore[no-untyped-call]
        gradient = slow_gradient(loss, live)
        for name, column in (("logprobs", "logprobs"), ("entropy", "entropy"), ("values", "values_now")):
            grad = outputs[name].grad
            here = torch.zeros_like(outputs[name]) if grad is None else grad
            assert_equal(by_row(here, found), gradient[column])
            assert not here[~found["policy_mask"]].any()


PPO_GRID = [
    PPO(
        reduction=reduction,
        kl=kl,
        unfinished=unfinished,
        gamma=gamma,
        lam=lam,
        clip_low=0.2,
        clip_high=0.3,
        whiten=whiten,
        critic=critic,
        value_clip=value_clip,
        entropy_coefficient=entropy,
    )
    for reduction, kl, unfinished, (gamma, lam, whiten), critic, value_clip, entropy in itertools.product(
        REDUCTIONS,
        KLS,
        UNFINISHED,
        ((1.0, 0.95, "tokens"), (0.9, 0.8, "none")),
        (None, SharedCritic(coefficient=0.4)),
        (NoValueClip(), ClipValue(range=0.1)),
        (0.0, 0.05),
    )
    for critic in [critic or PPO().critic]
]
GRPO_GRID = [
    GRPO(
        reduction=reduction,
        kl=kl,
        unfinished=unfinished,
        baseline=baseline,
        scale=scale,
        clip_low=0.2,
        clip_high=0.3,
        entropy_coefficient=entropy,
    )
    for reduction, kl, unfinished, baseline, scale, entropy in itertools.product(
        REDUCTIONS, KLS, UNFINISHED, ("mean", "leave_one_out"), ("none", "std"), (0.0, 0.05)
    )
]


def test_ppo_equals_its_oracle_on_a_sample_of_the_grid(grid_seed: int) -> None:
    draw = random.Random(grid_seed)
    for cfg in draw.sample(PPO_GRID, 40):
        check(cfg, draw.randrange(10**6), old=draw.random() < 0.7)


def test_grpo_equals_its_oracle_on_a_sample_of_the_grid(grid_seed: int) -> None:
    draw = random.Random(grid_seed)
    for cfg in draw.sample(GRPO_GRID, 40):
        check(cfg, draw.randrange(10**6), old=draw.random() < 0.7)


@pytest.mark.slow
@pytest.mark.parametrize("old", [True, False])
def test_ppo_and_grpo_equal_their_oracles_on_the_whole_grid(old: bool) -> None:
    for seed, cfg in enumerate([*PPO_GRID, *GRPO_GRID]):
        check(cfg, seed, old=old)


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda r: r.kind)
@pytest.mark.parametrize("seed", range(3))
def test_sft_equals_its_oracle(reduction: Reduction, seed: int) -> None:
    rows = random_rows(seed)
    found = columns(rows, seed=seed)
    outputs = live_outputs(found)
    loss = fast_loss(sft_objective(SFT(reduction=reduction)), outputs, found)
    live = {"logprobs": [list(row.tokens["logprobs"]) for row in rows]}

    def slow_sft(live: Live) -> float:
        kept = [slow.nll(x) for x, row in zip(live["logprobs"], rows, strict=True) if row.valid]
        return reduce(reduction.kind, kept, LENGTH)

    assert loss.item() == pytest.approx(slow_sft(live), abs=1e-9)
    loss.backward()  # type: ignore[no-untyped-call]
    assert outputs["logprobs"].grad is not None
    assert_equal(by_row(outputs["logprobs"].grad, found), slow_gradient(slow_sft, live)["logprobs"])


def pair_columns(scores: Sequence[tuple[float, float]], seed: int) -> tuple[dict[str, Tensor], Tensor]:
    """Pairs with shuffled rows; the last pair has an invalid row with a garbage score."""
    draw = random.Random(seed)
    rows = [(number, True, good, True) for number, (good, _) in enumerate(scores)]
    rows += [(number, False, bad, True) for number, (_, bad) in enumerate(scores)]
    rows += [(len(scores), True, 0.3, True), (len(scores), False, float("nan"), False)]
    draw.shuffle(rows)
    unit, chosen, score_R, valid = zip(*rows, strict=True)
    found = {
        "unit": torch.tensor(unit) * 7 + 5,
        "chosen": torch.tensor(chosen),
        "valid": torch.tensor(valid),
        "row_T": torch.arange(len(rows)),
    }
    return found, torch.tensor(score_R, dtype=torch.float64)


@pytest.mark.parametrize("seed", range(4))
def test_bradley_terry_equals_its_oracle(seed: int) -> None:
    draw = random.Random(seed)
    scores = [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(draw.randint(1, 6))]
    found, score_R = pair_columns(scores, seed)
    score_R.requires_grad_()
    loss = fast_loss(pairwise_objective(RewardModel()), {"scores": score_R}, found)
    assert loss.item() == pytest.approx(slow.bradley_terry(scores), abs=1e-9)
    loss.backward()  # type: ignore[no-untyped-call]
    assert score_R.grad is not None
    for row in range(len(score_R)):
        pair = (int(found["unit"][row]) - 5) // 7
        wanted = 0.0
        if pair < len(scores):
            side = 0 if bool(found["chosen"][row]) else 1
            ends = []
            for move in (1e-5, -1e-5):
                moved = [list(p) for p in scores]
                moved[pair][side] += move
                ends.append(slow.bradley_terry([(a, b) for a, b in moved]))
            wanted = (ends[0] - ends[1]) / 2e-5
        assert float(score_R.grad[row]) == pytest.approx(wanted, abs=1e-6)
