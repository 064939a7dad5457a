"""Where an answer stands, and that prose around it changes nothing."""

import re
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ropewalk.tasks.scoring.maths.places import Found, find
from ropewalk.tasks.scoring.maths.policy import GSM8K, PLACES, Place, Policy
from ropewalk.tasks.scoring.maths.scorer import grade
from tests.tasks.scoring.number_table import LAST_NUMBER, MARKED, WHOLE

FOUND: list[tuple[str, tuple[Place, ...], str | None]] = [
    ("\\boxed{17} \\boxed{18}", PLACES, "18"),
    ("\\boxed{\\frac{1}{\\sqrt{2}}}", PLACES, "\\frac{1}{\\sqrt{2}}"),
    ("\\boxed{\\{1, 2\\}}", PLACES, "\\{1, 2\\}"),
    ("\\boxed{\\left\\{ 1 \\right.} more }", PLACES, "\\left\\{ 1 \\right."),
    ("\\boxed{\\boxed{5}}", PLACES, "5"),
    ("\\fbox{5}", PLACES, "5"),
    ("\\boxed {5}", PLACES, "5"),
    ("\\boxed{5", PLACES, ""),
    ("\\boxed 5", PLACES, ""),
    ("\\boxed{17} \\boxed{18", PLACES, ""),
    ("\\boxed{1} #### 2", PLACES, " 2"),
    ("\\boxed{1} #### 2", ("boxed", "hash"), "1"),
    ("nothing here", PLACES, None),
    ("there are 18 and 19", PLACES, "19"),
    ("there are 18 and 19", ("hash", "boxed"), None),
    ("x is $x+1$, or \\(x+2\\)", ("formula",), "x+2"),
    ("x is \\(x+2\\), or $x+1$", ("formula",), "x+1"),
    ("$$x+1$$", ("formula",), "x+1"),
    ("\\[ x+1 \\]", ("formula",), " x+1 "),
    ("it costs $5 and then $10", ("formula",), None),
    ("it costs $5, so $x$ pays", ("formula",), "x"),
    ("first\nx + 1\n\n", ("last_line",), "x + 1"),
    ("x + 1", ("whole",), "x + 1"),
    (" ", ("whole", "last_line"), None),
]


@pytest.mark.parametrize(("text", "places", "expected"), FOUND)
def test_the_text_at_the_first_place_that_occurs(text: str, places: tuple[Place, ...], expected: str | None) -> None:
    found = find(text, places)
    assert (None if found is None else found.text.strip()) == (None if expected is None else expected.strip())


LINES = {
    "The answer is $\\frac{3}{4}$ of the cake.": "3/4",
    "The answer is 18 dollars, because she sold 3.": "18",
    "the total answer is x = 5 and we are done": "5",
    "The final answer is: \\[ \\frac{1}{2} \\]": "0.5",
    "The answer is\n$$x+1$$\nas we saw": "x+1",
    "**Answer:** 18": "18",
    "**Answer**: 18 apples": "18",
    "Answer: (B) 12": "B",
    "Answer: B": "B",
    "The answer is (B).": "B",
    "The correct answer is C) 15": "C",
    "The answer is Evelyn, because she is tall": "Evelyn",
    "The answer is no, because 5 is odd": "no",
    "The answer is 18 (see above)": "18",
    "the answer is 18 (i.e. nine times two)": "18",
    "#### The total is 18": "18",
    "#### 3/4 of the cake": "3/4",
    "答案是18。": "18",
    "答案：三分之一": "1/3",
    "所以答案为 5厘米。": "0.05 m",
    "answer is $18.": "18",
    "The answer is $18$.": "18",
    "The answer is $1,200.50.": "1200.5",
    "The answer is 5x + 3 when x is positive": "5x+3",
    "The answer is 2 or 3.": "2, 3",
    "The answers are 2 and 3, which are prime": "2, 3",
    "The answer is 3^2 = 9": "9",
    "The answer is therefore 9.": "9",
    "The answer is about \\pi": "\\pi",
    "The answer is: - 5": "-5",
    "The answer is x > 3.": "(3, \\infty)",
    "The answer is \\(x = 5\\).": "5",
    "#### 10%": "0.1",
    "it is 10%": "0.1",
    "#### 5:30 pm": "5:30 pm",
    "The answer is 2 1/2 cups": "5/2",
    "The answer is '18'": "18",
    "The answer is **\\$18**.": "18",
    "Final Answer: The final answer is $\\boxed{18}$. I hope it is correct.": "18",
    "The answer is [1, 2)": "[1,2)",
    "Answer: 18\n\nExplanation: she had 20": "18",
}


@pytest.mark.parametrize(("text", "gold"), LINES.items())
def test_an_answer_in_a_line_of_prose(text: str, gold: str) -> None:
    """Fault G7."""
    assert grade(text, gold) == "equal"


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        ("The answer is 2 or 3.", "2"),
        ("The answer is 2 or 3.", "3"),
        ("#### 18 and 20 more", "18"),
        ("The answer is --5", "-5"),
        ("The answer is 1.2.3", "1.2"),
        ("The answer is not 18", "18"),
        ("The answer is less than 18", "18"),
        ("The answer is between 3 and 18", "18"),
        ("The answer is twice 18", "18"),
        ("\\boxed{17} or 18", "18"),
        ("18 was wrong, \\boxed{17}", "18"),
    ],
)
def test_a_part_of_an_answer_is_not_the_answer(text: str, gold: str) -> None:
    """Faults G2, G7."""
    assert grade(text, gold) != "equal"


@pytest.mark.parametrize(("number", "expected"), WHOLE.items())
def test_numbers_are_read_as_the_number_reader_reads_them(number: str, expected: str) -> None:
    for frame in ("{}", "#### {}", "so \\boxed{{{}}}", "The answer is {}"):
        assert grade(frame.format(number), expected, GSM8K) == "equal"


@pytest.mark.parametrize(("text", "expected"), [*LAST_NUMBER.items(), *MARKED.items()])
def test_what_the_number_reader_finds_is_found_here(text: str, expected: str | None) -> None:
    """But a list is a list here, and an answer in words may be read."""
    if expected is not None and " and " not in text.partition("####")[2]:
        assert grade(text, expected, GSM8K) == "equal"


@pytest.mark.parametrize("answer", ["18", "\\frac{3}{4}", "x + 1", "(1, 2)", "\\{1, 2\\}", "[0, \\infty)", "yes"])
@given(before=st.text(max_size=200), after=st.text(max_size=500))
@example(before="", after="more words " * 40)
@example(before="17", after="19 or 20")
def test_text_around_a_marked_answer_changes_nothing(answer: str, before: str, after: str) -> None:
    """Fault G7: only a new marker changes what was read."""
    assume(not any(mark in (before + after).lower() for mark in ("#", "boxed", "fbox", "answer", "答")))
    assert find(f"{before}\\boxed{{{answer}}}{after}", PLACES) == Found(answer, True)
    for marker in ("#### ", "The answer is "):
        assert grade(f"{before}\n{marker}{answer}\n{after}", answer) == "equal"


PROSE = "there were more apples than pears in baskets yesterday"


@given(st.lists(st.sampled_from(PROSE.split()), max_size=30))
def test_prose_behind_a_value_changes_nothing(words: list[str]) -> None:
    for answer in ("18", "\\frac{3}{4}", "x + 1", "(1, 2)", "2\\sqrt{3}"):
        for marker in ("#### ", "The answer is "):
            for glue in (" ", ", ", ". "):
                assert grade(f"{marker}{answer}{glue}{' '.join(words)}", answer, Policy()) == "equal"


def _texts() -> list[tuple[str, str, str]]:
    found = []
    for line in Path(__file__).with_name("texts.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        text, gold, judged = line.split("\t")
        found.append((re.sub(r"\\n(?=[\\#])", "\n", text), gold, judged))
    return found


@pytest.mark.parametrize(("text", "gold", "judged"), _texts())
def test_a_whole_text_is_judged_by_the_one_answer_it_commits_to(text: str, gold: str, judged: str) -> None:
    """Faults G2, G7: several candidates, a number that a word makes into another, and hedges are no answer."""
    assert grade(text, gold) == judged
