"""What is known at sight is what the grammar says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.tasks.scoring.maths.limits import Unreadable
from ropewalk.tasks.scoring.maths.read import read, read_again, read_slowly
from ropewalk.tasks.scoring.maths.values import Answer

SIMPLE = r"(-)?(\\?\$)?(-)?([0-9]{1,3}(,[0-9]{3})+|[0-9]{1,9})(\.[0-9]{1,5})?(/[0-9]{1,5})?(\\?%)?\.?"
FRACTION = r"-?\\[dt]?frac\{-?[0-9]{1,5}\}\{[0-9]{1,5}\}"


def _or_none(reader: object, text: str) -> Answer | None:
    try:
        return reader(text, "english")  # type: ignore[operator, no-any-return]
    except Unreadable:
        return None


@given(st.from_regex(SIMPLE, fullmatch=True) | st.from_regex(FRACTION, fullmatch=True))
def test_plain_numbers_are_read_as_the_grammar_reads_them(text: str) -> None:
    text = text.translate({ord(digit): digit for digit in "0123456789"})
    quick, slow = _or_none(read, text), _or_none(read_slowly, text)
    assert quick == slow
    assert quick is None or read_again(text) == quick


@pytest.mark.parametrize("text", ["\\frac{1}{0}", "1/0", "-$-5", "1,2345", "1.5/2"])
def test_the_same_at_the_edges(text: str) -> None:
    assert _or_none(read, text) == _or_none(read_slowly, text)
