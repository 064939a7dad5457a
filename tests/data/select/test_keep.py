from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ropewalk.data.config import Keep
from ropewalk.data.select.keep import (
    keep_probability,
    keep_sentence,
    kept_counts,
    uncertain,
    verdict_of,
)
from ropewalk.data.select.rates import PassRate
from ropewalk.records.errors import InputError

bands = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda b: Keep(low=min(b) / 20, high=max(b) / 20))


def test_the_band_of_16_samples_is_2_to_14() -> None:
    """As recomputed: a prompt of true rate 0.05 passes with probability 0.19, one of 0.1 with 0.49."""
    keep = Keep()
    assert list(kept_counts(keep, 16)) == list(range(2, 15))
    assert keep_probability(keep, 16, 0.05) == pytest.approx(0.19, abs=5e-3)
    assert keep_probability(keep, 16, 0.1) == pytest.approx(0.49, abs=5e-3)
    assert keep_probability(keep, 16, 0.5) > 0.999
    assert keep_sentence(keep, 16) == (
        "a band of [0.1, 0.9] keeps 2 to 14 passes of 16; a prompt of true rate 0.05 is kept with probability 0.19, "
        "one of 0.1 with 0.49"
    )


@given(bands, st.integers(1, 40))
def test_a_count_is_kept_exactly_if_its_share_is_in_the_band(keep: Keep, samples: int) -> None:
    """In exact arithmetic: 0.1 of 10 is 1, whatever a float says."""
    low, high = Fraction(str(keep.low)), Fraction(str(keep.high))
    right = [k for k in range(samples + 1) if low <= Fraction(k, samples) <= high]
    assert list(kept_counts(keep, samples)) == right
    for k in range(samples + 1):
        verdict = verdict_of(keep, PassRate("p", "", k, samples))
        share = Fraction(k, samples)
        assert verdict == ("too_hard" if share < low else "too_easy" if share > high else "kept")


@given(bands, st.integers(1, 9), st.integers(0, 10))
def test_the_chance_to_be_kept_is_counted_out_over_all_outcomes(keep: Keep, samples: int, tenths: int) -> None:
    p, total = tenths / 10, 0.0
    for outcome in product((0, 1), repeat=samples):
        if sum(outcome) in kept_counts(keep, samples):
            total += p ** sum(outcome) * (1 - p) ** (samples - sum(outcome))
    assert keep_probability(keep, samples, p) == pytest.approx(total, abs=1e-12)


@given(st.integers(1, 30), st.integers(0, 20))
def test_a_symmetric_band_treats_both_ends_alike(samples: int, rate: int) -> None:
    keep = Keep(low=0.2, high=0.8)
    assert keep_probability(keep, samples, rate / 20) == pytest.approx(keep_probability(keep, samples, 1 - rate / 20))


def test_the_table_falls_to_both_sides_and_all_or_nothing_at_the_ends() -> None:
    table = {n / 40: keep_probability(Keep(), 16, n / 40) for n in range(41)}
    assert table[0.0] == table[1.0] == 0 and table[0.5] == max(table.values())
    rising = [chance for rate, chance in table.items() if rate <= 0.5]
    assert rising == sorted(rising)
    assert all(keep_probability(Keep(low=0, high=1), 7, rate) == pytest.approx(1) for rate in table)


def test_what_cannot_be_told_is_said() -> None:
    keep = Keep(least_judged=4)
    assert verdict_of(keep, PassRate("p", "", 2, 3, 9)) == "unjudged"
    assert verdict_of(Keep(), PassRate("p", "", 0, 0, 4)) == "unjudged"
    assert uncertain(Keep(), PassRate("p", "", 2, 16)) and not uncertain(Keep(), PassRate("p", "", 40, 80))
    assert not uncertain(Keep(), PassRate("p", "", 0, 0))
    assert "keeps no prompt of 2 samples" in keep_sentence(Keep(low=0.6, high=0.9), 2)
    with pytest.raises(InputError, match="at least one sample"):
        kept_counts(Keep(), 0)
    with pytest.raises(InputError, match="between 0 and 1"):
        keep_probability(Keep(), 4, 1.5)
    with pytest.raises(ValidationError, match="is above high"):
        Keep(low=0.6, high=0.5)
