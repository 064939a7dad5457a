import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.tasks.scoring.rules.length import Length
from tests.tasks.samples import sample
from tests.tasks.scoring.rules.asked import asked, scored


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))
def test_a_length_is_kept_from_its_lower_to_its_upper_bound(count: int, low: int, high: int) -> None:
    for unit, text in (("words", " ".join(["wort"] * count)), ("characters", "x" * count)):
        if low > high:
            with pytest.raises(InputError, match="above its upper bound"):
                Length(unit, low, high)  # type: ignore[arg-type]
            continue
        assert scored(Length(unit, low, high), text) == (low <= count <= high)  # type: ignore[arg-type]
        assert scored(Length(unit), text, length={"low": low, "high": high}) == (low <= count <= high)  # type: ignore[arg-type]
        assert scored(Length(unit, high + 1), text, length={"high": high}) == (count <= high), "the data go before"  # type: ignore[arg-type]


def test_tokens_are_those_that_were_sampled() -> None:
    assert Length("tokens", 0).measure(sample("a b c")) == sample("a b c").completion_tokens == 1


@pytest.mark.parametrize(
    ("own", "fault"),
    [
        ({"low": 3, "high": 2}, "a lower bound 3 above its upper bound 2"),
        ({"low": -1}, "no whole number from 0: -1"),
        ({"high": True}, "no whole number from 0: True"),
        ({"high": 2.5}, "no whole number"),
        ({"most": 2}, "is not {low, high}"),
        (7, "is not {low, high}"),
    ],
)
def test_broken_bounds_of_a_row_are_named(own: object, fault: str) -> None:
    """Fault G10: found when data are read, never rewarded."""
    said = Length().info_fault(asked(length=own))
    assert said is not None and fault in said
    with pytest.raises(InputError, match="prompt p"):
        scored(Length(), "x", length=own)


def test_no_bound_at_all() -> None:
    assert Length().info_fault(asked()) == "has no info.length and there is no bound"
    assert Length(low=1).info_fault(asked()) is None
    with pytest.raises(InputError, match="needs a bound"):
        scored(Length(), "x")
