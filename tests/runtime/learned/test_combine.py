"""Many scores to one: by hand, whatever the order of the members, and one member is itself."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ropewalk.runtime.learned.combine import over_members, over_steps, sigmoid, spread
from ropewalk.runtime.learned.config import Mean, MeanMinusStd, Min

RULES = [Mean(), Min(kind="min"), MeanMinusStd(kind="mean_minus_std", k=0.7)]
FINITE = st.floats(-1e6, 1e6)


def test_by_hand() -> None:
    scores = np.array([[1.0, 3.0], [2.0, 2.0], [-1.0, 5.0]])
    assert over_members(scores, Mean()).tolist() == [2.0, 2.0, 2.0]
    assert over_members(scores, Min(kind="min")).tolist() == [1.0, 2.0, -1.0]
    assert over_members(scores, MeanMinusStd(kind="mean_minus_std", k=2.0)).tolist() == [0.0, 2.0, -4.0]
    assert spread(scores).tolist() == [1.0, 0.0, 3.0]


@example([0.0, -0.0])
@given(st.lists(FINITE, min_size=2, max_size=4))
def test_the_order_of_the_members_changes_no_bit(scores: list[float]) -> None:
    for how in RULES:
        found = {over_members(np.array([order]), how)[0].tobytes() for order in itertools.permutations(scores)}
        assert len(found) == 1


@given(st.lists(FINITE, min_size=1, max_size=8))
def test_one_member_is_itself(scores: list[float]) -> None:
    column = np.array(scores)[:, None]
    for how in RULES:
        assert np.array_equal(over_members(column, how), np.array(scores))
    assert not spread(column).any()


@given(st.lists(FINITE, min_size=1, max_size=5), st.floats(0, 3))
def test_doubt_never_raises_a_reward_and_min_is_the_lowest(scores: list[float], k: float) -> None:
    one = np.array([scores])
    doubted = over_members(one, MeanMinusStd(kind="mean_minus_std", k=k))[0]
    assert doubted <= over_members(one, Mean())[0]
    assert over_members(one, Min(kind="min"))[0] == min(scores)


def test_no_weight_on_doubt_is_the_mean() -> None:
    scores = np.random.default_rng(0).normal(size=(20, 3))
    assert np.array_equal(
        over_members(scores, MeanMinusStd(kind="mean_minus_std", k=0.0)), over_members(scores, Mean())
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_steps_are_combined_as_loops_do(values: list[float]) -> None:
    lowest, product, total = math.inf, 1.0, 0.0
    for value in values:
        lowest, product, total = min(lowest, value), product * value, total + value
    given_values = np.array(values)
    assert over_steps(given_values, "min") == lowest
    assert over_steps(given_values, "product") == pytest.approx(product, abs=1e-12)
    assert over_steps(given_values, "mean") == pytest.approx(total / len(values), abs=1e-12)
    assert over_steps(given_values, "last") == values[-1]


def test_sigmoid_never_overflows() -> None:
    with np.errstate(all="raise", under="ignore"):
        found = sigmoid(np.array([-1e4, -1.0, 0.0, 1.0, 1e4]))
    assert found[[0, 2, 4]].tolist() == [0.0, 0.5, 1.0]
    assert found[1] + found[3] == pytest.approx(1.0, abs=1e-15)
