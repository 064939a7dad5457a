import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.tasks.scoring.rules.text import (
    answer_of,
    boxed,
    bullets,
    last_tagged,
    normalised,
    paragraphs,
    sentences,
    words,
)
from tests.seconds import processor_seconds


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("One.", 1),
        ("One. Two! Three?", 3),
        ("No end", 1),
        ('Dr. Smith has 3.5 cats. He said: "Hi!" Then he left…', 3),
        ("e.g. this is one.", 1),
        ("你好。再见！", 2),
        ("Wait... what?! Yes.", 3),
        ("... !!! ???", 0),
    ],
)
def test_sentences(text: str, count: int) -> None:
    assert len(sentences(text)) == count


@given(st.lists(st.sampled_from(["Alpha beta", "gamma delta, epsilon", "zeta"]), max_size=6))
def test_sentences_put_together_are_counted(made: list[str]) -> None:
    assert sentences(" ".join(f"{one}." for one in made)) == [f"{one}." for one in made]
    assert paragraphs("\n \n".join(made)) == made
    assert len(words(" ".join(made))) == sum(len(one.replace(",", "").split()) for one in made)


def test_bullets_are_lines_that_begin_as_items() -> None:
    assert bullets("* a\n- b\n  + c\n• d\n1. e\n2) f") == 6
    assert bullets("**bold**\n---\n* \n-\n3.5 is a number\na * b\n1900. was\n***") == 0


@given(st.text(alphabet="<>/answer \n{}\\boxed", max_size=40), st.text(alphabet="ab", min_size=1, max_size=5))
def test_the_last_marked_answer_counts(before: str, answer: str) -> None:
    """Fault G7."""
    assert last_tagged(f"{before}<answer> {answer} </answer> tail", "answer") == answer
    assert boxed(f"{before}\\boxed{{{answer}}} tail") == answer
    assert answer_of(f"{before}\n<answer>{answer}</answer>", "marked") == answer


def test_answers_that_are_not_closed_are_none() -> None:
    for text in ("<answer>", "</answer>", "</answer><answer>", "\\boxed{a", "\\boxed", "<answer></answer>"):
        assert answer_of(text, "tags") is None and answer_of(text, "marked") is None
    assert answer_of("\\boxed{\\frac{1}{2}}", "marked") == "\\frac{1}{2}"


@given(st.text(max_size=30))
def test_a_normalised_text_stays_as_it_is(text: str) -> None:
    for how in ({}, {"case": True}, {"punctuation": True}):
        once = normalised(text, **how)
        assert normalised(once, **how) == once or not once.isascii()
        assert "  " not in once


@pytest.mark.parametrize(
    "piece", [".", "answer ", "<answer>", "(", " ", "*", "\n", "option ", "A or ", "\\boxed{", '."']
)
def test_every_look_at_a_text_is_linear(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    for look in (sentences, bullets, paragraphs, words, boxed, lambda t: answer_of(t, "marked")):
        assert processor_seconds(lambda look=look: look(text)) < 4  # type: ignore[misc]
