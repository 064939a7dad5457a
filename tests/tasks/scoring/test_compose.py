"""Composition: weighted sums of outcomes, with abstentions skipped and failures never turned into numbers."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.config.load import load
from ropewalk.records.errors import InputError
from ropewalk.records.score import Abstain, Failed, Outcome, Score
from ropewalk.tasks.scoring.compose import Composed, compose, observe
from ropewalk.tasks.scoring.config import Component, InitialMean, Reward

values = st.floats(-100, 100, width=32)
outcomes = st.one_of(
    values.map(Score), st.just(Abstain()), st.sampled_from(["timeout", "crashed", "unparsable"]).map(Failed)
)
rows_of_two = st.lists(st.fixed_dictionaries({"a": outcomes, "b": outcomes}), min_size=1, max_size=12)
WEIGHTED = Reward(components={"a": Component(weight=2.0), "b": Component(weight=-0.5)})


def composed(config: Reward, outcomes_: list[Outcome | float]) -> Composed:
    rows = [{"a": o if isinstance(o, Score | Abstain | Failed) else Score(o)} for o in outcomes_]
    return compose(config, rows, {})


def test_a_missing_score_is_excluded_and_leaves_its_siblings_alone() -> None:
    """Fault E3: rewards [1, None, 0] stay 1, excluded, 0."""
    result = composed(Reward(), [1.0, Abstain(), 0.0])
    assert result.reward_R.tolist() == [1.0, 0.0, 0.0]
    assert result.valid_R.tolist() == [True, False, True]
    assert result.records[1] == {"components": {"a": {"outcome": "abstained"}}, "reward": None}
    assert result.metrics["reward"].value == 0.5
    assert result.metrics["score/a/abstained"].value == pytest.approx(1 / 3)
    assert result.metrics["reward/invalid"].value == pytest.approx(1 / 3)


def test_a_group_of_abstentions_trains_nothing() -> None:
    """Fault E3: all None: no row is valid, and nothing is NaN."""
    result = composed(Reward(), [Abstain()] * 3)
    assert not result.valid_R.any()
    assert np.isfinite(result.reward_R).all()


@given(rows_of_two)
def test_the_reward_is_the_weighted_sum_of_what_was_scored(rows: list[dict[str, Outcome]]) -> None:
    """Fault E3: abstentions are skipped, a failure makes its row invalid."""
    result = compose(WEIGHTED, rows, {})
    for row, reward, valid, record in zip(rows, result.reward_R, result.valid_R, result.records, strict=True):
        scored = {name: o.value for name, o in row.items() if isinstance(o, Score)}
        failed = any(isinstance(o, Failed) for o in row.values())
        assert valid == (bool(scored) and not failed)
        if valid:
            assert reward == np.float32(2.0 * scored.get("a", 0.0) - 0.5 * scored.get("b", 0.0))
            assert record["reward"] == pytest.approx(float(reward), rel=1e-6, abs=1e-6)
        else:
            assert (reward, record["reward"]) == (0.0, None)


@given(rows_of_two, st.randoms())
def test_rows_do_not_depend_on_their_order(rows: list[dict[str, Outcome]], random: object) -> None:
    config = Reward(components={"a": Component(normalise=InitialMean(samples=4)), "b": Component(weight=3.0)})
    order = list(range(len(rows)))
    random.shuffle(order)  # type: ignore[attr-defined]
    one, other = compose(config, rows, {}), compose(config, [rows[i] for i in order], {})
    assert one.reward_R[order].tolist() == other.reward_R.tolist()
    assert one.valid_R[order].tolist() == other.valid_R.tolist()
    assert one.statistics == other.statistics


def test_each_component_is_recorded_raw_normalised_and_weighted() -> None:
    config = Reward(components={"rm": Component(weight=2.0, normalise=InitialMean(samples=2)), "rule": Component()})
    rows: list[dict[str, Outcome]] = [{"rm": Score(5), "rule": Score(1)}, {"rm": Score(7), "rule": Abstain("no rule")}]
    result = compose(config, rows, {})
    assert result.reward_R.tolist() == [-1.0, 2.0]
    assert result.records[0]["components"] == {
        "rm": {"raw": 5.0, "normalised": -1.0, "weighted": -2.0},
        "rule": {"raw": 1.0, "normalised": 1.0, "weighted": 1.0},
    }
    assert result.records[1]["components"]["rule"] == {"outcome": "abstained: no rule"}  # type: ignore[index, call-overload]
    assert json.loads(json.dumps(result.records)) == result.records


def test_the_initial_mean_freezes_and_survives_a_file() -> None:
    config = Reward(components={"a": Component(normalise=InitialMean(samples=3))})
    first = composed(config, [1.0, Abstain()])
    second = compose(config, [{"a": Score(2)}, {"a": Score(3)}, {"a": Score(6)}], first.statistics)
    assert first.statistics == {"a": {"sum": 1.0, "count": 1.0}}
    assert second.statistics == {"a": {"sum": 12.0, "count": 4.0}}
    assert second.reward_R.tolist() == [-1.0, 0.0, 3.0]
    stored = json.loads(json.dumps(second.statistics))
    third = compose(config, [{"a": Score(100)}], stored)
    assert third.statistics == second.statistics == stored
    assert third.reward_R.tolist() == [97.0]


def test_statistics_can_be_frozen_on_the_initial_policy() -> None:
    config = Reward(components={"a": Component(normalise=InitialMean(samples=2)), "b": Component()})
    frozen = observe(config, [{"a": Score(4)}, {"a": Score(6)}], {})
    result = compose(config, [{"a": Score(6), "b": Score(0)}], frozen)
    assert (result.reward_R.tolist(), result.statistics) == ([1.0], frozen)
    assert observe(config, [], {}) == {"a": {"sum": 0.0, "count": 0.0}}


def test_the_statistics_handed_in_are_not_changed() -> None:
    config = Reward(components={"a": Component(normalise=InitialMean(samples=9))})
    before = {"a": {"sum": 1.0, "count": 1.0}}
    compose(config, [{"a": Score(3)}], before)
    assert before == {"a": {"sum": 1.0, "count": 1.0}}


def test_only_named_components_count_and_the_rest_is_measured() -> None:
    rows: list[dict[str, Outcome]] = [
        {"rm": Score(1), "truth": Score(-3)},
        {"rm": Score(2), "truth": Failed("crashed")},
    ]
    result = compose(Reward(components={"rm": Component()}), rows, {})
    assert result.reward_R.tolist() == [1.0, 2.0]
    assert result.metrics["score/truth"].value == -3.0
    assert result.metrics["score/truth/failed_crashed"].value == 0.5
    everything = compose(Reward(), rows, {})
    assert everything.reward_R.tolist() == [1.0, 2.0]
    assert everything.valid_R.tolist() == [True, True]


def test_a_component_that_nobody_scored_is_named() -> None:
    with pytest.raises(InputError, match=r"'rm' was scored by nobody: there are truth"):
        compose(Reward(components={"rm": Component()}), [{"truth": Score(1)}], {})


def test_a_recipe_can_say_all_of_it() -> None:
    config = load(
        Reward,
        {
            "components": {"rm": {"weight": 0.5, "normalise": {"kind": "initial_mean", "samples": 64}}, "format": {}},
        },
    )
    assert config.components == {
        "rm": Component(weight=0.5, normalise=InitialMean(samples=64)),
        "format": Component(),
    }
