"""Completions in steps: text and ids agree, nothing is lost, and a step's value is a share with its interval."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.data.intervals import wilson
from ropewalk.data.steps import StepValue, separators, step_ends, steps_of, text_of_steps
from ropewalk.records.errors import InputError
from tests.fakes import EOS_ID, byte_tokenizer, toy_bpe

BYTES, BPE = byte_tokenizer(), toy_bpe()
TEXTS = st.lists(st.sampled_from(["a", "b", "ab", "c a", "\n", "\n\n", " ", "é", "数", "|"]), max_size=24).map("".join)
SEPARATORS = st.sampled_from(["\n\n", "\n", "|", "ab", "数"])


def decoded(ids: Sequence[int]) -> str:
    return str(BPE.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))


@pytest.mark.parametrize(
    ("text", "ended", "steps"),
    [
        ("A\n\nB\n\nC", True, ["A", "B", "C"]),
        ("A\n\nB\n\nC", False, ["A", "B"]),
        ("A\n\n\n\nB", True, ["A", "\n\nB"]),
        ("\n\nA\n\nB", True, ["\n\nA", "B"]),
        ("A\n\nB\n\n", True, ["A", "B\n\n"]),
        ("A\n\nB\n\n \n", True, ["A", "B\n\n \n"]),
        ("A", True, ["A"]),
        ("A", False, ["A"]),
        ("", False, [""]),
        ("\n\n\n\n", True, ["\n\n\n\n"]),
        ("A\n\nB\n", False, ["A"]),
        ("A\n\n\n\n\n\nB", True, ["A", "\n\n\n\nB"]),
    ],
)
def test_cut_by_hand(text: str, ended: bool, steps: list[str]) -> None:
    assert steps_of(text, "\n\n", ended=ended) == steps


@pytest.mark.parametrize(
    ("text", "ended", "steps"),
    [
        ("|x|y", True, ["|x", "y"]),
        ("x||y|", True, ["x", "|y|"]),
        ("x|||", True, ["x|||"]),
        ("x|||", False, ["x"]),
        ("x| |", True, ["x| |"]),
        ("||", True, ["||"]),
    ],
)
def test_separators_alone_are_no_step(text: str, ended: bool, steps: list[str]) -> None:
    assert steps_of(text, "|", ended=ended) == steps


@given(TEXTS, SEPARATORS)
def test_the_steps_of_a_finished_text_give_it_back_to_the_letter(text: str, separator: str) -> None:
    steps = steps_of(text, separator, ended=True)
    assert text_of_steps(steps, separator, finished=True) == text
    assert steps_of(text_of_steps(steps, separator, finished=True), separator, ended=True) == steps


@given(TEXTS, SEPARATORS)
def test_the_steps_of_a_cut_text_give_back_what_comes_before_the_cut(text: str, separator: str) -> None:
    ends = separators(text, separator)
    if ends:
        steps = steps_of(text, separator, ended=False)
        whole = text_of_steps(steps, separator, finished=False)
        assert whole == text[: ends[-1][1]]
        assert steps_of(whole, separator, ended=False) == steps


@given(TEXTS, SEPARATORS, st.booleans(), st.booleans())
def test_ends_in_ids_are_those_of_decoding_every_beginning(
    text: str, separator: str, ended: bool, encoded: bool
) -> None:
    """Fault F6: the very ids are cut, whether they are the tokenizer's own spelling or another."""
    ids = BPE.encode(text, add_special_tokens=False) if encoded else list(text.encode())
    said = [*ids, EOS_ID] if ended or not ids else ids
    found = step_ends(said, decoded, separator, ended=ended, eos_ids=(EOS_ID,))
    fast = step_ends(said, decoded, separator, ended=ended, eos_ids=(EOS_ID,), piece=lambda token: decoded([token]))
    assert fast == found
    wanted = [
        next(place for place in range(len(ids)) if len(separators(decoded(ids[: place + 1]), separator)) >= count)
        for count in range(1, len(separators(decoded(ids), separator)) + 1)
    ]
    steps = steps_of(decoded(ids), separator, ended=ended)
    assert found == [*wanted, len(said) - 1][: len(steps)] if len(steps) > len(wanted) else found == wanted
    assert len(found) == len(steps)


def test_a_separator_inside_a_longer_token_ends_its_step_with_that_token() -> None:
    """Fault F6: `ab` is one token; as separator `a` it ends the step although more stands in the token."""
    ids = BPE.encode("xaby", add_special_tokens=False)
    assert len(ids) == 3
    assert step_ends(ids, decoded, "a", ended=True, eos_ids=(EOS_ID,)) == [1, 2]


def test_a_separator_in_several_tokens_ends_with_the_last_of_them() -> None:
    ids = BYTES.encode("x\n\ny", add_special_tokens=False)
    assert step_ends(ids, decoded, "\n\n", ended=True, eos_ids=(EOS_ID,)) == [2, 3]


def test_words_joined_by_spaces_are_no_text_of_their_pieces() -> None:
    """A tokenizer whose text is not that of its tokens one by one: the ends are those of decoding beginnings."""
    words = ["a", "|", "b", "|", "c"]

    def joined(ids: Sequence[int]) -> str:
        return " ".join(words[i] for i in ids)

    for separator, ends in (("|", [1, 3, 4]), (" | ", [2, 4, 4])):
        found = step_ends(range(5), joined, separator, ended=True, eos_ids=(), piece=lambda i: joined([i]))
        assert found == ends


def test_a_special_token_may_separate() -> None:
    turn = BYTES.convert_tokens_to_ids("<turn>")
    ids = [*b"x", turn, *b"y", EOS_ID]
    assert step_ends(ids, decoded, "<turn>", ended=True, eos_ids=(EOS_ID,)) == [1, 3]


def test_the_end_token_is_no_step_of_its_own_and_ends_the_last_one() -> None:
    newline = BYTES.encode("x\n\n", add_special_tokens=False)
    assert step_ends([*newline, EOS_ID], decoded, "\n\n", ended=True, eos_ids=(EOS_ID,)) == [2]
    assert step_ends([*newline, *b"y", EOS_ID], decoded, "\n\n", ended=True, eos_ids=(EOS_ID,)) == [2, 4]
    assert step_ends([EOS_ID], decoded, "\n\n", ended=True, eos_ids=(EOS_ID,)) == [0]


def test_what_cannot_be_cut_is_refused() -> None:
    with pytest.raises(InputError, match="without tokens"):
        step_ends([], decoded, "\n\n", ended=True, eos_ids=())
    with pytest.raises(InputError, match="separator"):
        steps_of("a", "", ended=True)


def test_values_are_shares_with_their_interval() -> None:
    value = StepValue(3, 8)
    assert (value.label("rate"), value.label("any")) == (0.375, 1.0)
    assert value.interval == wilson(3, 8)
    assert StepValue(0, 8).label("any") == 0.0
    exact = StepValue(1, 1, rolled=False).interval
    assert (exact.low, exact.value, exact.high) == (1.0, 1.0, 1.0)
    with pytest.raises(InputError, match="judged"):
        StepValue(0, 0).label("rate")
