"""95 % intervals of what was measured. Every function owns its generator, so a number never depends on another."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ropewalk.records.errors import InputError

Numbers = Sequence[float] | npt.NDArray[np.floating] | npt.NDArray[np.integer] | npt.NDArray[np.bool_]

Z_95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""

# Two-sided 95 % quantiles of Student's t where the expansion below is off by more than 1e-3.
_SMALL_T = {1: 12.706205, 2: 4.302653, 3: 3.182446, 4: 2.776445, 5: 2.570582, 6: 2.446912}

_DRAWN_AT_ONCE = 1_000_000
"""Numbers that the bootstrap holds at a time."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval, from `count` observations."""

    value: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] (n = {self.count})"


def wilson(successes: float, count: int) -> Estimate:
    """Share with Wilson's score interval: (p + z²/2n ± z·√(p(1−p)/n + z²/4n²)) / (1 + z²/n).

    Successes may be parts (half a win for a tie): a value in [0, 1] varies by at most p(1−p), so the interval holds.
    """
    if count < 1 or not 0 <= successes <= count:
        raise InputError(f"a share needs 0 <= successes <= count and count >= 1, got {successes} of {count}")
    share, z2 = successes / count, Z_95**2
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = Z_95 / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    return Estimate(share, max(0.0, centre - half), min(1.0, centre + half), count)


def t_quantile(freedom: int) -> float:
    """Two-sided 95 % quantile of Student's t (Cornish-Fisher expansion, exact to 1e-3)."""
    if freedom in _SMALL_T:
        return _SMALL_T[freedom]
    z = Z_95
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def mean_interval(values: Numbers) -> Estimate:
    """Mean with Student's t interval; unbounded for a single value."""
    numbers = _numbers(values)
    mean = float(numbers.mean())
    if len(numbers) == 1:
        return Estimate(mean, -math.inf, math.inf, 1)
    half = t_quantile(len(numbers) - 1) * float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    return Estimate(mean, mean - half, mean + half, len(numbers))


def bootstrap_mean(values: Numbers, *, resamples: int = 2000, seed: int = 0) -> Estimate:
    """Mean with the percentile interval over `resamples` draws with replacement."""
    numbers = _numbers(values)
    means = [numbers[drawn].mean(axis=1) for drawn in _draws(len(numbers), resamples, seed)]
    low, high = np.quantile(np.concatenate(means), (0.025, 0.975))
    return Estimate(float(numbers.mean()), float(low), float(high), len(numbers))


def bootstrap_ratio(numerators: Numbers, denominators: Numbers, *, resamples: int = 2000, seed: int = 0) -> Estimate:
    """Σ numerators / Σ denominators (a mean per token of rows) with the percentile interval over drawn rows."""
    above, below = _numbers(numerators), _numbers(denominators)
    if len(above) != len(below) or (below <= 0).any():
        raise InputError("a ratio of sums needs a positive denominator for every numerator")
    ratios = [above[drawn].sum(axis=1) / below[drawn].sum(axis=1) for drawn in _draws(len(above), resamples, seed)]
    low, high = np.quantile(np.concatenate(ratios), (0.025, 0.975))
    return Estimate(float(above.sum() / below.sum()), float(low), float(high), len(above))


def _draws(count: int, resamples: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    """Row numbers drawn with replacement, some resamples at a time."""
    generator = np.random.Generator(np.random.Philox(key=seed))
    at_once = max(1, _DRAWN_AT_ONCE // count)
    for done in range(0, resamples, at_once):
        yield generator.integers(0, count, (min(at_once, resamples - done), count))


def paired_difference(before: Numbers, after: Numbers) -> Estimate:
    """Mean of after − before over the same rows, with its t interval."""
    first, second = _numbers(before), _numbers(after)
    if len(first) != len(second):
        raise InputError(f"a paired difference needs the same rows on both sides, got {len(first)} and {len(second)}")
    return mean_interval(second - first)


def correlation(left: Numbers, right: Numbers, *, kind: Literal["pearson", "spearman"] = "pearson") -> Estimate:
    """Correlation with Fisher's interval tanh(atanh r ± z·se), se² = 1/(n−3); for ranks (1 + r²/2)/(n−3).

    NaN within [−1, 1] where a side is constant, unbounded below four rows. (Bonett & Wright 2000 for ranks.)
    """
    first, second = _numbers(left), _numbers(right)
    count = len(first)
    if count != len(second):
        raise InputError(f"a correlation needs pairs of values, got {count} and {len(second)}")
    if kind == "spearman":
        first, second = ranks(first), ranks(second)
    first, second = first - first.mean(), second - second.mean()
    scale = math.sqrt(float(first @ first) * float(second @ second))
    if scale == 0:
        return Estimate(math.nan, -1.0, 1.0, count)
    value = max(-1.0, min(1.0, float(first @ second) / scale))
    if count < 4 or abs(value) == 1:
        return Estimate(value, *((value, value) if count >= 4 else (-1.0, 1.0)), count)
    half = Z_95 * math.sqrt((1 + value**2 / 2 if kind == "spearman" else 1.0) / (count - 3))
    return Estimate(value, math.tanh(math.atanh(value) - half), math.tanh(math.atanh(value) + half), count)


def ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Ranks from 1, ties sharing the mean of their places."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: npt.NDArray[np.float64] = (last - (counts - 1) / 2)[place]
    return shared


def _numbers(values: Numbers) -> npt.NDArray[np.float64]:
    numbers = np.asarray(values, np.float64)
    if numbers.ndim != 1 or not len(numbers):
        raise InputError("an interval needs at least one value")
    if not np.isfinite(numbers).all():
        raise InputError("an interval needs finite values: leave out what failed or abstained, and count it")
    return numbers
