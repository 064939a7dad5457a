import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.data.intervals import (
    bootstrap_mean,
    bootstrap_ratio,
    correlation,
    mean_interval,
    paired_difference,
    ranks,
    t_quantile,
    wilson,
)
from ropewalk.records.errors import InputError


@pytest.mark.parametrize(
    ("successes", "count", "low", "high"),
    [(0, 10, 0.0, 0.27753), (10, 10, 0.72247, 1.0), (5, 10, 0.23659, 0.76341), (81, 263, 0.25529, 0.36622)],
)
def test_wilson_against_published_values(successes: int, count: int, low: float, high: float) -> None:
    """The last row is Newcombe 1998, table I (0.2553 to 0.3662)."""
    found = wilson(successes, count)
    assert found.value == successes / count
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)


@given(st.integers(1, 500), st.data())
def test_wilson_is_symmetric_and_holds_its_share(count: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, count))
    found, other = wilson(successes, count), wilson(count - successes, count)
    assert 0 <= found.low <= found.value <= found.high <= 1 or found.value in (0.0, 1.0)
    assert (1 - other.high, 1 - other.low) == pytest.approx((found.low, found.high))


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [
        (1, 12.7062),
        (2, 4.3027),
        (3, 3.1824),
        (4, 2.7764),
        (5, 2.5706),
        (6, 2.4469),
        (7, 2.3646),
        (9, 2.2622),
        (30, 2.0423),
        (1000, 1.9623),
    ],
)
def test_t_quantiles_against_tables(freedom: int, quantile: float) -> None:
    assert t_quantile(freedom) == pytest.approx(quantile, abs=1e-3)


def test_mean_intervals_cover_as_often_as_they_say() -> None:
    generator = np.random.Generator(np.random.Philox(key=3))
    draws = generator.normal(2.0, 3.0, (1500, 8))
    for interval, expected in ((mean_interval, 0.95), (bootstrap_mean, 0.90)):
        rows = draws if interval is mean_interval else draws[:300]
        covered = sum(found.low <= 2.0 <= found.high for found in map(interval, rows)) / len(rows)
        assert covered == pytest.approx(expected, abs=0.05), interval.__name__


def test_a_mean_by_hand() -> None:
    found = mean_interval([1.0, 2.0, 3.0])
    half = 4.302653 * 1.0 / math.sqrt(3)
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0 - half, 2.0 + half))
    assert mean_interval([4.0]).low == -math.inf
    assert mean_interval([True, False]).value == 0.5
    assert bootstrap_mean([3.0] * 5) == mean_interval([3.0] * 5)
    assert str(found) == "2.000 [-0.484, 4.484] (n = 3)"


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2, max_size=20))
def test_a_paired_difference_is_the_mean_of_differences_and_turns_around(rows: list[tuple[int, int]]) -> None:
    before, after = [float(a) for a, _ in rows], [float(b) for _, b in rows]
    found, back = paired_difference(before, after), paired_difference(after, before)
    assert found.value == pytest.approx(np.mean(after) - np.mean(before))
    assert (found.low, found.high) == pytest.approx((-back.high, -back.low))


def test_pairing_takes_out_what_the_rows_share() -> None:
    generator = np.random.Generator(np.random.Philox(key=1))
    hardness = generator.normal(0, 10, 50)
    found = paired_difference(hardness, hardness + 1 + generator.normal(0, 0.1, 50))
    alone = mean_interval(hardness)
    assert found.low > 0 and found.high - found.low < 0.02 * (alone.high - alone.low)


numbers = st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), min_size=5, max_size=30)


@given(numbers)
def test_correlation_agrees_with_numpy_and_ignores_scale(rows: list[tuple[int, int]]) -> None:
    left, right = (np.array(side, float) for side in zip(*rows, strict=True))
    found = correlation(left, right)
    if left.std() == 0 or right.std() == 0:
        assert math.isnan(found.value) and (found.low, found.high) == (-1, 1)
        return
    assert found.value == pytest.approx(np.corrcoef(left, right)[0, 1], abs=1e-9)
    assert -1 <= found.low <= found.value <= found.high <= 1
    assert correlation(3 * left + 1, -right).value == pytest.approx(-found.value, abs=1e-9)
    by_rank = correlation(left, right, kind="spearman")
    assert by_rank.value == pytest.approx(correlation(left**3, right, kind="spearman").value)
    assert by_rank.value == pytest.approx(correlation(ranks(left), ranks(right)).value)


def test_ranks_share_ties() -> None:
    assert ranks(np.array([10.0, 30.0, 10.0, 20.0])).tolist() == [1.5, 4.0, 1.5, 3.0]


def test_correlation_by_hand() -> None:
    """Fisher: atanh(0.8) = 1.0986, half width 1.96/√(5−3) = 1.3859."""
    found = correlation([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])
    assert (found.value, found.low, found.high) == pytest.approx(
        (0.8, math.tanh(-0.28729), math.tanh(2.48452)), abs=1e-4
    )
    assert correlation([1, 2, 3, 4], [2, 4, 6, 8]).low == 1.0


def test_a_ratio_of_equal_denominators_is_a_mean() -> None:
    """Σa/Σb: of rows of 4 tokens each it is the mean per row over 4, interval included; of others it is not."""
    values = np.random.default_rng(0).normal(size=50)
    ratio, mean = bootstrap_ratio(values, np.full(50, 4.0)), bootstrap_mean(values / 4)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((mean.value, mean.low, mean.high))
    assert bootstrap_ratio([1.0, 9.0], [1.0, 3.0]).value == 2.5
    with pytest.raises(InputError, match="denominator"):
        bootstrap_ratio([1.0], [0.0])


def test_what_has_no_interval_is_refused() -> None:
    for wrong in ([], [1.0, math.nan], [math.inf]):
        with pytest.raises(InputError):
            mean_interval(wrong)
    for call in (lambda: wilson(3, 2), lambda: wilson(0, 0), lambda: paired_difference([1], [1, 2])):
        with pytest.raises(InputError):
            call()
    with pytest.raises(InputError, match="pairs of values"):
        correlation([1.0], [1.0, 2.0])
