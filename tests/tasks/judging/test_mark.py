"""A mark is a whole number from 1 to 10, read whole or not at all."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.score import Failed, Score
from ropewalk.tasks.judging import pairwise, rubric
from ropewalk.tasks.judging.mark import LONGEST, mark_in
from ropewalk.tasks.judging.question import Answer
from tests.seconds import processor_seconds

FORMS = (
    "{}", "Score: {}", "{}/10", "**{}**", "{} / 10", "{} out of 10", "Score: **{}**/10", "({})", "[{}]", "`{}`", "{}.",
    "I give it {}. Indeed {}/10.", "得分：{}分", "- {}", "\n\n{}\n", "Score = {}", "_{}_", "\\boxed{{{}}}", "# {}",
)  # fmt: skip
WIDE = str.maketrans("0123456789/:", "０１２３４５６７８９／：")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", range(1, 11))
def test_a_mark_is_read_in_every_spelling(form: str, number: int) -> None:
    """Fault G7: 10 is not 1."""
    assert mark_in(form.format(number, number)) == number
    assert mark_in(form.format(number, number).translate(WIDE)) == number


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "none", "eight", "11", "0", "25", "100", "-2", "−8", "+8", "8.5", "8,5", "8%", "8½", "8²", "½", "٨",
        "१", "⑧", "3e-1", "1e1", "1E1", "0x8", "08", "8/5", "8/100", "8/10/10", "8/10.5", "10/8", "7 or 8", "7-8",
        "between 7 and 9", ">= 8", "≥ 8", "< 9", "~8", "± 8", "$8", "8+", "8^2", "8th", "x8", "8x", "10:1", "3:10",
        "1 2", "Score: 8\nScore: 9", "8 out of 11", "8 out of 100", "9" * 5000, "NaN", "inf", "8 " * LONGEST,
        "Score:-8", "**-8**", "-**8**", "1,000", "1.0", "10.0", "8.0",
    ],
)  # fmt: skip
def test_what_is_not_one_whole_number_from_1_to_10_is_no_mark(text: str) -> None:
    """Fault G7: read whole or not at all, and never a default."""
    found = mark_in(text)
    assert isinstance(found, Failed) and found.reason == "unparsable" and len(found.detail) < 200


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-1000, max_value=1000, places=2))
def test_a_decimal_is_a_mark_only_where_it_is_written_as_a_whole_one(value: object) -> None:
    text = str(value)
    whole = text.isdigit() and 1 <= int(text) <= 10
    assert (mark_in(text) == int(text)) if whole else isinstance(mark_in(text), Failed)


@given(st.integers(min_value=-(10**30), max_value=10**30))
def test_a_whole_number_is_a_mark_where_it_lies_in_the_range(number: int) -> None:
    found = mark_in(f"Score: {number}")
    assert found == number if 1 <= number <= 10 else isinstance(found, Failed)


@given(st.text(max_size=60), st.integers(min_value=1, max_value=10))
def test_other_words_never_change_a_mark_into_another(words: str, number: int) -> None:
    found = mark_in(f"{words}\n{number}\n")
    assert isinstance(found, Failed) or found == number


@given(st.text(max_size=200))
def test_any_text_gives_a_mark_or_a_failure(text: str) -> None:
    found = mark_in(text)
    assert isinstance(found, Failed) or 1 <= found <= 10


@pytest.mark.parametrize("number", range(1, 11))
def test_the_score_is_the_share_of_the_way_from_1_to_10(number: int) -> None:
    found = rubric.read(Answer(str(number)), reasoned=False)
    assert isinstance(found, Score) and Fraction(found.value).limit_denominator(9) == Fraction(number - 1, 9)


def test_after_reasons_the_last_line_with_a_score_counts() -> None:
    said = 'It quotes "Score: 10", has 3 steps and 2 faults.\n**Score:** 4/10'
    assert rubric.read(Answer(said), reasoned=True) == Score(3 / 9)
    assert isinstance(rubric.read(Answer(said), reasoned=False), Failed), "several numbers"


@given(st.text(max_size=80).filter(lambda text: "score" not in text.lower()))
def test_words_after_the_score_do_not_change_it(words: str) -> None:
    """Fault G7: text without a new label changes nothing."""
    assert rubric.read(Answer(f"Fine. Score: 8\n{words}"), reasoned=True) == Score(7 / 9)


@pytest.mark.parametrize(
    "text", ["", "I like it.", "Score: good", "Score: 8 or 9", "The score is\n8", "Score:\n\nnone"]
)
def test_reasons_without_a_score_have_none(text: str) -> None:
    assert isinstance(rubric.read(Answer(text), reasoned=True), Failed)


@pytest.mark.parametrize("reasoned", [False, True])
def test_a_text_that_was_cut_has_no_mark(reasoned: bool) -> None:
    """`Score: 1` may have been going to be 10."""
    found = rubric.read(Answer("Score: 1", whole=False), reasoned=reasoned)
    assert isinstance(found, Failed) and "cut" in found.detail


@pytest.mark.parametrize(
    "text",
    ["1" + " " * 400_000, "score" + " " * 400_000, "score *" * 60_000, "1 **" * 100_000, "Score: 1" + " ** " * 100_000],
    ids=["spaces", "label", "labels", "stars", "after"],
)
def test_a_long_text_is_read_in_linear_time(text: str) -> None:
    """Fault G4: no text of a judge holds the run up."""
    for read in (
        lambda: rubric.read(Answer(text), reasoned=True),
        lambda: rubric.read(Answer(text), reasoned=False),
        lambda: pairwise.read(Answer(text)),
    ):
        assert processor_seconds(read) < 5
