import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.records.metric import Metric, merge

parts = st.lists(st.lists(st.integers(-1000, 1000), min_size=1, max_size=5), min_size=1, max_size=5)


@given(parts)
def test_merging_any_split_gives_the_value_of_the_whole(split: list[list[int]]) -> None:
    whole = [value for part in split for value in part]
    merged = merge(
        {"mean": Metric.mean(sum(p), len(p)), "max": Metric.max(max(p)), "min": Metric.min(min(p))} for p in split
    )
    assert merged["mean"].value == sum(whole) / len(whole)
    assert (merged["max"].value, merged["min"].value) == (max(whole), min(whole))


def test_a_mean_over_nothing_is_nan_and_changes_nothing() -> None:
    assert math.isnan(Metric.mean(0, 0).value)
    assert Metric.mean(0, 0).merge(Metric.mean(6, 3)).value == 2


@given(st.permutations([1.0, 2.0, math.nan]))
def test_an_extremum_over_something_unknown_is_unknown_in_any_order(values: list[float]) -> None:
    merged = merge({"max": Metric.max(value), "min": Metric.min(value)} for value in values)
    assert math.isnan(merged["max"].value) and math.isnan(merged["min"].value)


def test_kinds_do_not_mix() -> None:
    with pytest.raises(InputError, match="mean and max cannot be merged"):
        Metric.mean(1, 1).merge(Metric.max(1))
