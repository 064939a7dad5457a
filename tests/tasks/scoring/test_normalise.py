"""Normalisation: statistics that no order changes, domains apart, and nothing divided by no spread."""

import json
import math
import random

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from ropewalk.algorithms.advantages import group_advantages
from ropewalk.records.errors import InputError
from ropewalk.records.score import Abstain, Outcome, Score
from ropewalk.tasks.scoring.compose import About, Composed, compose, observe
from ropewalk.tasks.scoring.config import Component, Gate, InitialMean, Raw, Reward, ZScore

numbers = st.floats(-100, 100, width=32)
judged = st.one_of(numbers.map(Score), st.just(Abstain()))
drawn = st.lists(st.tuples(st.sampled_from(["", "maths", "code"]), judged, judged), min_size=1, max_size=16)
RUNNING, BATCH = ZScore(), ZScore(estimate="batch")
BOTH = Reward(components={"a": Component(normalise=RUNNING), "b": Component(normalise=BATCH, weight=-2.0)})

Drawn = list[tuple[str, Outcome, Outcome]]


def made(config: Reward, rows: Drawn, statistics: object = None) -> Composed:
    about = [About(domain) for domain, _, _ in rows]
    return compose(config, [{"a": a, "b": b} for _, a, b in rows], statistics or {}, about)  # type: ignore[arg-type]


def of(kind: Raw | InitialMean | ZScore, *scores: float, domain: str = "") -> list[float]:
    config = Reward(components={"a": Component(normalise=kind)})
    return made(config, [(domain, Score(value), Abstain()) for value in scores]).reward_R.tolist()


@given(drawn, st.randoms())
def test_the_order_of_rows_changes_neither_statistics_nor_rewards(rows: Drawn, chance: random.Random) -> None:
    order = list(range(len(rows)))
    chance.shuffle(order)
    one, other = made(BOTH, rows), made(BOTH, [rows[i] for i in order])
    assert one.reward_R[order].tolist() == other.reward_R.tolist()
    assert one.valid_R[order].tolist() == other.valid_R.tolist()
    assert one.statistics == other.statistics


@given(drawn, st.integers(0, 16))
def test_statistics_of_two_halves_are_those_of_the_whole(rows: Drawn, cut: int) -> None:
    whole = made(BOTH, rows).statistics["a"]
    halves = made(BOTH, rows[cut:], made(BOTH, rows[:cut]).statistics).statistics["a"]
    assert whole.keys() == halves.keys()
    for domain, moments in whole.items():
        for name, value in moments.items():
            assert halves[domain][name] == pytest.approx(value, rel=1e-9, abs=1e-9)


@given(drawn, drawn)
def test_statistics_survive_a_file(first: Drawn, then: Drawn) -> None:
    """A resumed run goes on as one never stopped."""
    kept = made(BOTH, first).statistics
    stored = json.loads(json.dumps(kept))
    straight, resumed = made(BOTH, then, kept), made(BOTH, then, stored)
    assert straight.reward_R.tolist() == resumed.reward_R.tolist()
    assert (straight.statistics, straight.records) == (resumed.statistics, resumed.records)
    assert stored == kept


@given(drawn, st.floats(0.5, 4), numbers)
def test_a_z_score_knows_neither_the_scale_nor_the_origin_of_its_scorer(
    rows: Drawn, scale: float, shift: float
) -> None:
    def moved(outcome: Outcome) -> Outcome:
        return Score(outcome.value * scale + shift) if isinstance(outcome, Score) else outcome

    spreads = [s.spread for found in made(BOTH, rows).scales.values() for s in found.values()]
    assume(all(spread == 0 or spread > 1e-3 for spread in spreads))
    there = made(BOTH, [(domain, moved(a), moved(b)) for domain, a, b in rows])
    assert there.reward_R == pytest.approx(made(BOTH, rows).reward_R, abs=1e-4)


def test_a_rare_success_is_clipped() -> None:
    """One success in a hundred stands 9.9 standard deviations above the mean."""
    scores = [1.0] + [0.0] * 99
    assert of(ZScore(clip=100), *scores)[0] == pytest.approx(9.9)
    assert of(ZScore(), *scores)[0] == 5.0
    config = Reward(components={"a": Component(normalise=ZScore())})
    found = made(config, [("", Score(value), Abstain()) for value in scores])
    assert found.metrics["score/a/clipped"].value == 0.01


@pytest.mark.parametrize("kind", [RUNNING, BATCH])
@pytest.mark.parametrize("scores", [[7.0], [0.1] * 3, [-1e30] * 7, [1e-300] * 5, [1.0, 1.0 + 1e-12]])
def test_one_score_and_equal_ones_give_zero(kind: ZScore, scores: list[float]) -> None:
    """Fault E1 for domains: no NaN, no division by rounding."""
    assert of(kind, *scores) == [0.0] * len(scores)


def test_domains_do_not_mix() -> None:
    """The numbers of one say nothing of another's, whichever estimate."""
    for kind in (RUNNING, BATCH):
        config = Reward(components={"a": Component(normalise=kind)})
        easy: Drawn = [("easy", Score(value), Abstain()) for value in (1.0, 0.0, 1.0)]
        hard: Drawn = [("hard", Score(value), Abstain()) for value in (0.0, -50.0)]
        both = made(config, [easy[0], hard[0], *easy[1:], hard[1]])
        assert both.reward_R[[0, 2, 3]].tolist() == made(config, easy).reward_R.tolist()
        assert both.reward_R[[1, 4]].tolist() == made(config, hard).reward_R.tolist()
        assert both.metrics["reward/domain/easy"].count == 3


def test_running_and_batch_differ_once_there_is_a_past() -> None:
    config = Reward(components={"a": Component(normalise=RUNNING), "b": Component(normalise=BATCH)})
    past = made(config, [("", Score(0), Score(0)), ("", Score(2), Score(2))])
    assert past.records[1]["components"]["a"] == past.records[1]["components"]["b"]  # type: ignore[index, call-overload]
    assert past.statistics == {"a": {"": {"count": 2.0, "mean": 1.0, "squares": 2.0}}}
    later = made(config, [("", Score(10), Score(10)), ("", Score(12), Score(12))], past.statistics)
    running, batch = (later.scales[name][""] for name in "ab")
    assert (running.shift, batch.shift) == (6.0, 11.0)
    assert running.spread == pytest.approx(np.std([0, 2, 10, 12], ddof=1))
    assert batch.spread == pytest.approx(math.sqrt(2))


@given(st.lists(st.lists(numbers, min_size=4, max_size=4), min_size=2, max_size=5))
def test_a_z_score_by_domain_does_nothing_to_one_component_under_a_group_spread(groups: list[list[float]]) -> None:
    """Affine within a domain, and the samples of a prompt are of one: normalise components before they are summed."""
    rows: Drawn = [("ab"[n % 2], Score(v), Abstain()) for n, group in enumerate(groups) for v in group]
    kept, normalised = (Reward(components={"a": Component(normalise=kind)}) for kind in (Raw(), ZScore(clip=1e9)))
    assume(all(np.std(group) > 0.1 or np.std(group) == 0 for group in groups))
    group_R = torch.arange(len(groups)).repeat_interleave(4)

    def advantages(config: Reward) -> torch.Tensor:
        rewards_R = torch.tensor(made(config, rows).reward_R, dtype=torch.float64)
        valid_R = torch.ones(len(rows), dtype=torch.bool)
        return group_advantages(rewards_R, group_R, valid_R, baseline="mean", scale="std")

    torch.testing.assert_close(advantages(normalised), advantages(kept), atol=2e-3, rtol=2e-3)


def test_only_scores_that_count_are_taken_in() -> None:
    """What stands behind a closed gate, and what abstained, moves no statistics."""
    gated = Reward(components={"a": Component(normalise=RUNNING, gates=(Gate(on="b"),))})
    rows: Drawn = [
        ("", Score(1), Score(1)),
        ("", Score(99), Score(0)),
        ("", Abstain(), Score(1)),
        ("", Score(3), Score(1)),
    ]
    found = made(gated, rows)
    assert found.statistics["a"][""] == {"count": 2.0, "mean": 2.0, "squares": 2.0}
    assert observe(gated, [{"a": a, "b": b} for _, a, b in rows], {}) == found.statistics


@pytest.mark.parametrize(
    ("kind", "shown"), [(Raw(clip=2.0), [2.0, -1.0, -2.0]), (InitialMean(samples=3, clip=2.0), [2.0, 0.0, -2.0])]
)
def test_every_normalisation_can_clip(kind: Raw | InitialMean, shown: list[float]) -> None:
    assert of(kind, 5.0, -1.0, -7.0) == shown


def test_statistics_of_another_kind_are_begun_anew() -> None:
    """A replay may normalise otherwise than the run whose statistics it takes up."""
    scores: Drawn = [("sum", Score(4), Abstain()), ("sum", Score(6), Abstain())]
    mean, z = (Reward(components={"a": Component(normalise=kind)}) for kind in (InitialMean(samples=2), RUNNING))
    assert made(z, scores, made(mean, scores).statistics).statistics == made(z, scores).statistics
    assert made(mean, scores, made(z, scores).statistics).statistics == made(mean, scores).statistics


def test_scores_beyond_all_bounds_are_a_sentence() -> None:
    with pytest.raises(InputError, match=r"component 'a'.*too large"):
        of(RUNNING, 1e200, -1e200)
    with pytest.raises(InputError, match="a reward of 1e\\+200 is too large"):
        of(Raw(), 1e200)
