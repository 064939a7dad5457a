"""The filter by pass rate, as counts, and what it says of true rates.

A band [low, high] of a rate measured on n samples is a range of counts; of [0.1, 0.9] and n = 16 that is 2 to 14. A
prompt of true rate p passes it with probability Σ C(n, k) pᵏ(1 − p)ⁿ⁻ᵏ over these k: 0.19 for p = 0.05, 0.49 for 0.1.
"""

import math
from fractions import Fraction
from typing import Literal, TypeAlias

from ropewalk.data.config import Keep
from ropewalk.data.select.rates import PassRate
from ropewalk.records.errors import InputError

Verdict: TypeAlias = Literal["kept", "too_hard", "too_easy", "unjudged"]


def kept_counts(keep: Keep, samples: int) -> range:
    """The counts k of `samples` with low ≤ k/samples ≤ high, in exact arithmetic; it may be empty."""
    if samples < 1:
        raise InputError(f"a pass rate needs at least one sample, not {samples}")
    low, high = Fraction(str(keep.low)), Fraction(str(keep.high))
    return range(math.ceil(low * samples), math.floor(high * samples) + 1)


def keep_probability(keep: Keep, samples: int, true_rate: float) -> float:
    """The chance that a prompt of this true pass rate is kept."""
    if not 0 <= true_rate <= 1:
        raise InputError(f"a true pass rate lies between 0 and 1, not at {true_rate}")
    p, q = true_rate, 1 - true_rate
    return math.fsum(math.comb(samples, k) * p**k * q ** (samples - k) for k in kept_counts(keep, samples))


def keep_sentence(keep: Keep, samples: int) -> str:
    """The filter in words."""
    counts = kept_counts(keep, samples)
    if not counts:
        return f"a band of [{keep.low:g}, {keep.high:g}] keeps no prompt of {samples} samples: draw more of each"
    edge = keep_probability(keep, samples, keep.low)
    outside = keep_probability(keep, samples, keep.low / 2)
    return (
        f"a band of [{keep.low:g}, {keep.high:g}] keeps {counts[0]} to {counts[-1]} passes of {samples}; a prompt of "
        f"true rate {keep.low / 2:g} is kept with probability {outside:.2f}, one of {keep.low:g} with {edge:.2f}"
    )


def verdict_of(keep: Keep, rate: PassRate) -> Verdict:
    """What the filter says of a prompt, by its own number of judged samples."""
    if rate.judged < keep.least_judged:
        return "unjudged"
    counts = kept_counts(keep, rate.judged)
    if rate.passed in counts:
        return "kept"
    # An empty range still begins and ends somewhere: below its start is too hard, all else too easy.
    return "too_hard" if rate.passed < counts.start else "too_easy"


def uncertain(keep: Keep, rate: PassRate) -> bool:
    """Whether the 95 % interval of a prompt lies on both sides of an edge of the band: more samples might tell."""
    estimate = rate.rate
    return estimate is not None and any(estimate.low < edge < estimate.high for edge in (keep.low, keep.high))
