"""Group advantages depend on (group id, rewards of valid rows); whitening on the whole batch's moments."""

import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.algorithms.advantages import Moments, group_advantages, moments, whitened
from ropewalk.algorithms.config import GRPO, KLNone, KLReward, MaskUnfinished
from ropewalk.algorithms.credit import credit_metrics, group_credit

REWARDS = [1.0, 0.0, 5.0, 5.0, 5.0, 2.0]
GROUPS = [7, 7, 3, 3, 3, 9]


def advantages(rewards: list[float], groups: list[int], valid: list[bool] | None = None, **how: str) -> list[float]:
    found = group_advantages(
        torch.tensor(rewards, dtype=torch.float64),
        torch.tensor(groups),
        torch.tensor([True] * len(rewards) if valid is None else valid, dtype=torch.bool),
        **{"baseline": "mean", "scale": "none", **how},  # type: ignore[arg-type]
    )
    return [float(value) for value in found]


def test_groups_are_centred_and_scaled_by_their_own_statistics() -> None:
    """Fault E1: A ±0.5 (±0.7071 scaled), B and the singleton C 0."""
    assert advantages(REWARDS, GROUPS) == [0.5, -0.5, 0, 0, 0, 0]
    assert advantages(REWARDS, GROUPS, scale="std") == pytest.approx([0.70711, -0.70711, 0, 0, 0, 0], abs=1e-5)
    assert advantages(REWARDS, GROUPS, baseline="leave_one_out") == [1, -1, 0, 0, 0, 0]


@pytest.mark.parametrize("scale", ["none", "std"])
def test_equal_rewards_give_exactly_nothing(scale: str) -> None:
    """Fault E1: 0.1 repeated, whose mean is not 0.1 in floating point."""
    assert advantages([0.1] * 7, [4] * 7, scale=scale) == [0.0] * 7


@given(st.permutations(range(6)), st.lists(st.booleans(), min_size=6, max_size=6), st.sampled_from(["none", "std"]))
def test_order_and_dropped_members_of_other_groups_do_not_matter(
    order: list[int], keep: list[bool], scale: str
) -> None:
    """Fault E1: only (group id, rewards) count, and an invalid row is as good as absent."""
    rewards, groups = [REWARDS[i] + i % 2 for i in order], [GROUPS[i] for i in order]
    kept = [keep[i] for i in order]
    found = advantages([r if k else math.nan for r, k in zip(rewards, kept, strict=True)], groups, kept, scale=scale)
    for place in range(6):
        if not kept[place]:
            assert found[place] == 0
            continue
        members = [j for j in range(6) if kept[j] and groups[j] == groups[place]]
        alone = advantages([rewards[j] for j in members], [0] * len(members), scale=scale)
        assert found[place] == pytest.approx(alone[members.index(place)], abs=1e-12)


@pytest.mark.parametrize("missing", [math.nan, math.inf, 0.0])
def test_a_row_without_a_score_biases_nobody(missing: float) -> None:
    """Fault E3: rewards [1, none, 0] give +0.5, nothing, −0.5; a group of none trains nothing."""
    assert advantages([1.0, missing, 0.0], [1, 1, 1], [True, False, True]) == [0.5, 0.0, -0.5]
    assert advantages([missing, missing], [1, 1], [False, False], scale="std") == [0.0, 0.0]


def columns(rewards: list[float], **more: torch.Tensor) -> dict[str, torch.Tensor]:
    rows = len(rewards)
    return {
        "row_T": torch.arange(rows * 3) // 3,
        "policy_mask": torch.tensor([False, True, True] * rows),
        "rewards": torch.tensor(rewards),
        "group": torch.zeros(rows, dtype=torch.int64),
        "valid": torch.ones(rows, dtype=torch.bool),
        "rollout_logprobs": torch.full((rows * 3,), -1.0),
        **more,
    }


def test_every_trained_token_of_a_row_carries_the_rows_advantage() -> None:
    """Fault E4, D6: rewards live on rows, the mask only decides which tokens train."""
    found = columns([1.0, 0.0])
    credit = group_credit(GRPO(scale="none", kl=KLNone()), found)
    assert credit["advantages"].tolist() == [0, 0.5, 0.5, 0, -0.5, -0.5]
    found["policy_mask"][2] = False
    assert group_credit(GRPO(scale="none", kl=KLNone()), found)["advantages"].tolist() == [0, 0.5, 0, 0, -0.5, -0.5]


def test_masked_unfinished_rows_take_no_part_in_the_baseline() -> None:
    """Fault A3: as if never sampled."""
    found = columns([1.0, 0.0, 9.0], finished=torch.tensor([True, True, False]))
    credit = group_credit(GRPO(scale="none", kl=KLNone(), unfinished=MaskUnfinished()), found)
    assert credit["advantages"][[1, 4, 7]].tolist() == [0.5, -0.5, 0]


def test_a_kl_in_the_reward_is_charged_before_the_baseline() -> None:
    """Fault Q5: r − β Σ_t k(t) per row."""
    found = columns([1.0, 1.0], reference_logprobs=torch.tensor([math.nan, -1, -1, math.nan, -2, -3]))
    cfg = GRPO(scale="none", kl=KLReward(coefficient=0.1))
    assert group_credit(cfg, found)["advantages"][[1, 4]].tolist() == pytest.approx([0.15, -0.15])
    stronger = group_credit(cfg, found, kl_coefficient=0.2)
    assert stronger["advantages"][[1, 4]].tolist() == pytest.approx([0.3, -0.3])


def test_the_share_of_groups_without_signal_is_counted_by_group() -> None:
    found = columns(REWARDS, group=torch.tensor(GROUPS))
    metrics = credit_metrics(GRPO(kl=KLNone()), found)
    assert metrics["groups_without_signal"].value == pytest.approx(2 / 3)
    assert metrics["groups_without_signal"].count == 3


def test_the_own_sample_in_the_mean_scales_by_n_minus_1_over_n() -> None:
    """math-notes: leave-one-out does not scale."""
    draw = random.Random(1)
    rewards = [draw.gauss(0, 1) for _ in range(5)]
    whole, others = (advantages(rewards, [0] * 5, baseline=name) for name in ("mean", "leave_one_out"))
    assert whole == pytest.approx([a * 4 / 5 for a in others])
    assert others[0] == pytest.approx(rewards[0] - sum(rewards[1:]) / 4)


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5])
def test_dividing_by_the_std_maximises_arcsin_of_the_root_of_the_success_rate(rate: float) -> None:
    """math-notes: Σ p becomes Σ 2·arcsin √p, so prompts do not count the same."""
    n = 2000
    hits = round(n * rate)
    found = advantages([1.0] * hits + [0.0] * (n - hits), [0] * n, scale="std")
    # A Bernoulli policy with logit θ: ∇log π is 1 − p at a success and −p at a failure.
    gradient = rate * found[0] * (1 - rate) - (1 - rate) * found[-1] * rate
    step = 1e-5
    logit = math.log(rate / (1 - rate))
    objective = [2 * math.asin(math.sqrt(1 / (1 + math.exp(-(logit + move))))) for move in (step, -step)]
    assert gradient == pytest.approx((objective[0] - objective[1]) / (2 * step), rel=1e-3)
    assert found[0] - found[-1] == pytest.approx(1 / math.sqrt(rate * (1 - rate)), rel=1e-3)


@pytest.mark.parametrize("size", [2, 4, 16])
def test_the_largest_advantage_of_a_group(size: int) -> None:
    """math-notes: √(n−1) with the population std; with n − 1 in the std it is (n−1)/√n."""
    found = advantages([1.0] + [0.0] * (size - 1), [0] * size, scale="std")
    assert found[0] == pytest.approx((size - 1) / math.sqrt(size), rel=1e-4)


@given(st.floats(0.1, 10), st.floats(-5, 5))
def test_an_affine_change_of_a_domains_reward_changes_nothing_after_the_std(scale: float, shift: float) -> None:
    """math-notes: a z-score per domain before GRPO has no effect on a single-component reward."""
    rewards = [0.0, 1.0, 0.5, 0.25]
    moved = [scale * r + shift for r in rewards]
    assert advantages(moved, [0] * 4, scale="std") == pytest.approx(
        advantages(rewards, [0] * 4, scale="std"), rel=1e-3, abs=1e-9
    )


def test_whitening_uses_the_whole_batch_whatever_the_shards() -> None:
    """Fault D4: shards [1, 1] and [−1, −1] give ±0.866; a third, empty shard changes nothing."""
    shards = [torch.tensor([1.0, 1.0]), torch.tensor([-1.0, -1.0]), torch.tensor([])]
    masks = [torch.ones(len(shard), dtype=torch.bool) for shard in shards]
    whole = moments(torch.cat(shards), torch.cat(masks))
    parts = [moments(shard, mask) for shard, mask in zip(shards, masks, strict=True)]
    merged = parts[0].merge(parts[2]).merge(parts[1])
    assert merged == whole == Moments(4, 0, 4)
    assert parts[2].merge(parts[2]) == Moments(0, 0, 0)
    found = [whitened(shard, mask, merged).tolist() for shard, mask in zip(shards, masks, strict=True)]
    assert found[0] == pytest.approx([0.8660254] * 2) and found[1] == pytest.approx([-0.8660254] * 2) and not found[2]


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=12), st.integers(0, 12))
def test_moments_merge_exactly_over_any_split(values: list[float], cut: int) -> None:
    """Fault D4."""

    def part(some: list[float]) -> Moments:
        return moments(torch.tensor(some, dtype=torch.float64), torch.ones(len(some), dtype=torch.bool))

    whole, merged = part(values), part(values[:cut]).merge(part(values[cut:]))
    assert merged.count == whole.count
    assert merged.mean == pytest.approx(whole.mean, abs=1e-9)
    assert merged.squares == pytest.approx(whole.squares, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("values", [[0.3], [2.0, 2.0], []])
def test_whitening_without_spread_gives_zero(values: list[float]) -> None:
    tensor, mask = torch.tensor(values), torch.ones(len(values), dtype=torch.bool)
    assert not whitened(tensor, mask, moments(tensor, mask)).any()


def test_whitening_ignores_masked_positions() -> None:
    """Fault C4."""
    tensor, mask = torch.tensor([math.nan, 1.0, 3.0]), torch.tensor([False, True, True])
    assert whitened(tensor, mask, moments(tensor, mask)).tolist() == pytest.approx([0, -0.70711, 0.70711], abs=1e-5)
