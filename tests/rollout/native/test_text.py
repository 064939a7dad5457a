"""Texts of ids: ends, cuts, and stop strings found from a tail only."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.rollout.native.text import Texts
from tests.fakes import EOS_ID, TURN_END_ID, byte_tokenizer, toy_bpe

TEXTS = {"bytes": Texts(byte_tokenizer()), "bpe": Texts(toy_bpe())}


@pytest.mark.parametrize("end", [EOS_ID, TURN_END_ID])
def test_the_end_token_is_not_part_of_the_text(end: int) -> None:
    """Fault A7."""
    ids = [*b"so ", *b"it is", end]
    assert TEXTS["bytes"].final(ids, (EOS_ID, TURN_END_ID), ()) == ("so it is", False)


def test_an_end_token_that_is_a_word_is_left_out_too() -> None:
    """Fault A7: only the last one; the same id earlier could not have been said."""
    assert TEXTS["bytes"].final([*b"nice parks."], (ord("."),), ()) == ("nice parks", False)


def test_the_first_of_several_stop_strings_cuts() -> None:
    assert TEXTS["bytes"].final([*b"one two three"], (), ("three", "two")) == ("one ", True)


def test_half_a_character_stays_visible() -> None:
    """Fault F6: invalid UTF-8 decodes to a mark, never to an error."""
    assert TEXTS["bytes"].final([0xC3], (), ()) == ("\ufffd", False)


@given(
    kind=st.sampled_from(sorted(TEXTS)),
    ids=st.lists(st.sampled_from([97, 98, 99, 32, 0xC3, 0xA4, 256, 258, 260, 261, 262]), max_size=60),
    stops=st.lists(st.text("abc ä", min_size=1, max_size=6), min_size=1, max_size=3),
)
def test_a_stop_string_is_found_by_the_token_that_completes_it(kind: str, ids: list[int], stops: list[str]) -> None:
    """Fault A7: token by token from a tail = the whole text decoded every time."""
    texts = TEXTS[kind]
    known = [i for i in ids if i < (263 if kind == "bpe" else 259)]
    for count in range(1, len(known) + 1):
        found = texts.final(known[:count], (), stops)[1]
        assert texts.stopped(np.array(known[:count]), stops) == found
        if found:
            return
