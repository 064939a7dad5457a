"""Reading numbers: a conformance table, wholeness, and hostile text."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.records.score import Score
from ropewalk.tasks.scoring.numbers import NumberScorer, compare, extract, parse_gold, parse_number
from tests.seconds import processor_seconds
from tests.tasks.samples import sample
from tests.tasks.scoring.number_table import HOSTILE, LAST_NUMBER, MARKED, NOT_WHOLE, WHOLE

numbers = st.fractions(max_denominator=1).map(int) | st.decimals(-(10**9), 10**9, places=2, allow_nan=False)


def value(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)


@pytest.mark.parametrize(("text", "expected"), WHOLE.items())
def test_a_number_is_one_value_wherever_it_stands(text: str, expected: str) -> None:
    readings = [
        parse_number(text),
        parse_gold(text),
        extract(text),
        extract(f"#### {text}", answer="marked"),
        extract(f"so \\boxed{{{text}}}", answer="marked"),
        extract(f"The answer is {text}", answer="marked"),
    ]
    assert readings == [Fraction(expected)] * 6


@pytest.mark.parametrize(("text", "expected"), [*LAST_NUMBER.items(), *MARKED.items()])
def test_the_answer_of_a_text(text: str, expected: str | None) -> None:
    assert extract(text) == value(expected)


@pytest.mark.parametrize("text", LAST_NUMBER)
def test_without_a_marker_nothing_is_read_where_one_is_asked(text: str) -> None:
    """Fault G7: strict and lenient reading are both reachable."""
    assert extract(text, answer="marked") is None


@pytest.mark.parametrize("text", MARKED)
def test_marked_answers_need_no_leniency(text: str) -> None:
    assert extract(text, answer="marked") == extract(text, answer="anywhere")


@pytest.mark.parametrize("text", NOT_WHOLE)
def test_a_number_is_read_whole_or_not_at_all(text: str) -> None:
    """Fault G7."""
    assert parse_number(text) is None
    for frame in ("{}", "#### {}", "\\boxed{{{}}}", "The answer is {}", "So it is {}."):
        assert extract(frame.format(text)) is None, frame


@given(numbers, st.text(), st.text())
@example(18, "", "\n" + "more words " * 40)
@example(18, "", " 19")
@example(18, "", "\n3/4")
def test_text_after_a_marked_answer_changes_nothing(number: object, before: str, after: str) -> None:
    """Fault G7: no text is cut, and only a new marker changes what was read."""
    assume(not any(mark in (before + after).lower() for mark in ("#", "boxed", "answer")))
    expected = Fraction(str(number))
    for marked in (f"{before}#### {number}", f"{before}\\boxed{{{number}}}", f"{before}\nThe answer is {number}"):
        for glue in ("\n", " "):
            assert extract(marked + glue + after) == expected
            assert extract(marked + glue + after, answer="marked") == expected


@given(numbers)
def test_every_spelling_is_one_number(number: object) -> None:
    exact = Fraction(str(number))
    plain = f"{number:,}".replace("E", "e")  # type: ignore[str-bytes-safe]
    for spelling in (str(number), plain, f"${number}", f"{number}%", f"{number}.0" if exact == number else plain):
        if "." in str(number) and spelling.endswith(".0"):
            continue
        assert parse_number(spelling.removesuffix(".")) == exact, spelling
        assert compare(f"#### {spelling}", exact) == "equal"


@given(st.text(max_size=60))
def test_any_text_is_read_without_a_crash(text: str) -> None:
    for answer in ("anywhere", "marked"):
        extract(text, answer=answer)  # type: ignore[arg-type]
        compare(text, frozenset([Fraction(1)]), answer=answer)  # type: ignore[arg-type]
    parse_number(text)


@given(st.fractions(), st.fractions())
def test_comparison_is_exact(left: Fraction, right: Fraction) -> None:
    assume(len(f"{left}") < 100)
    assert compare(f"#### {left}", right) == ("equal" if left == right else "different")


def test_close_is_not_equal() -> None:
    assert compare("0.3333333333", Fraction(1, 3)) == "different"
    assert compare("0.30000000000000004", Fraction(3, 10)) == "different"
    assert compare("10000000000000000000001", Fraction(10**22)) == "different"


@pytest.mark.parametrize(
    ("text", "gold", "verdict"),
    [
        ("27", {"set": [8, 27]}, "different"),
        ("\\boxed{27}", {"set": [8, 27]}, "different"),
        ("{27, 8}", {"set": [8, 27]}, "equal"),
        ("\\boxed{\\{27, 8\\}}", {"set": [8, 27]}, "equal"),
        ("#### 8,27", {"set": [8, 27]}, "equal"),
        ("The answer is 8 and 27", {"set": [8, 27]}, "equal"),
        ("we tried 5\nso {8, 27}", {"set": [8, 27]}, "equal"),
        ("{8, 27, 5}", {"set": [8, 27]}, "different"),
        ("#### 1,200, 3", {"set": [1200, 3]}, "equal"),
        ("(1, 2)", {"tuple": [1, 2]}, "equal"),
        ("(2, 1)", {"tuple": [1, 2]}, "different"),
        ("(1, 2, 2)", {"tuple": [1, 2]}, "different"),
        ("\\boxed{8, \\sqrt{27}}", {"set": [8, 27]}, "unparsed"),
        ("none", {"set": [8, 27]}, "unparsed"),
    ],
)
def test_sets_and_tuples_are_declared_by_the_data(text: str, gold: object, verdict: str) -> None:
    """Fault G2: one of the values is not all of them, and a tuple has an order."""
    assert compare(text, parse_gold(gold)) == verdict  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "gold",
    [
        *["\\frac{1}{", "", "x", "18 or 19", "1,23", "#### 18", "inf", "nan", None, True, float("nan"), float("inf")],
        *[[8, 27], {"set": []}, {"set": [8, "x"]}, {"set": 8}, {"list": [8]}, {"set": [8], "tuple": [8]}],
    ],
    ids=repr,
)
def test_a_gold_that_cannot_be_read_is_refused(gold: object) -> None:
    """Fault G10: a broken reference answer is an error, never a reward."""
    with pytest.raises(InputError, match="gold answer"):
        parse_gold(gold)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="gold answer"):
        NumberScorer()(Prompt("p", "?", gold=gold), sample("18"))  # type: ignore[arg-type]


def test_not_to_answer_is_to_be_wrong() -> None:
    scorer = NumberScorer("marked")
    prompt = Prompt("p", "?", gold="1,200")
    assert [scorer(prompt, sample(text)) for text in ("#### 1200", "#### 120", "1200", "")] == [
        Score(1),
        Score(0),
        Score(0),
        Score(0),
    ]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:30])
def test_hostile_text_is_unparsed_and_does_nothing(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault G6: nothing is evaluated, nothing grows, and the honest samples after it are scored as before."""
    monkeypatch.chdir(tmp_path)
    assert compare(f"\\boxed{{{text}}}", Fraction(18)) == "unparsed"
    for frame in ("{}", "#### {}", "the answer is {}"):
        assert processor_seconds(lambda frame=frame: extract(frame.format(text))) < 1  # type: ignore[misc]
    assert list(tmp_path.iterdir()) == []
    assert compare("#### 18", Fraction(18)) == "equal"
    assert compare("#### 17", Fraction(18)) == "different"


@pytest.mark.parametrize(
    "unit", ["a", "9", "-", "(", "\\", "1,", "1/", "$", "{", "\\boxed{", "####", "answer is", "^ ", "sqrt "]
)
def test_time_is_linear_in_the_text(unit: str) -> None:
    """Fault G6: no text of a few kilobytes can hold the grader up."""
    assert processor_seconds(lambda: extract(unit * (40_000 // len(unit)))) < 1
