"""The scorer: outcomes, golds, and what a row may say of itself."""

import pytest

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.score import Failed, Score
from ropewalk.tasks.scoring.maths.compare import Verdict
from ropewalk.tasks.scoring.maths.policy import Exact, Policy, Within, Written, tolerance_of, with_row
from ropewalk.tasks.scoring.maths.scorer import MathScorer, grade, parse_gold
from tests.tasks.samples import sample


def test_the_outcomes_never_collapse() -> None:
    scorer = MathScorer(Policy(places=("boxed",)))
    prompt = Prompt("p", "?", gold="\\frac{3}{4}")
    assert scorer(prompt, sample("\\boxed{0.75}")) == Score(1)
    assert scorer(prompt, sample("\\boxed{0.7}")) == Score(0)
    assert scorer(prompt, sample("0.75")) == Failed("wrong_format", "no answer at boxed")
    assert scorer(prompt, sample("\\boxed{\\frac{3}{}")) == Failed("unparsable", "")
    assert scorer(prompt, sample("\\boxed{open('x')}")) == Failed("unparsable", "open('x')")


@pytest.mark.parametrize(
    ("text", "gold", "verdict"),
    [
        ("27", {"set": [8, 27]}, "different"),
        ("\\boxed{\\{27, 8\\}}", {"set": [8, 27]}, "equal"),
        ("#### 8,27", {"set": [8, 27]}, "equal"),
        ("The answer is 8 and 27", {"set": [8, 27]}, "equal"),
        ("#### (27, 8)", {"set": [8, 27]}, "equal"),
        ("#### {8, 27, 5}", {"set": [8, 27]}, "different"),
        ("\\boxed{x = 8 \\text{ or } x = 27}", {"set": ["8", "27"]}, "equal"),
        ("\\boxed{1 \\pm \\sqrt{2}}", {"set": ["1+\\sqrt2", "1-\\sqrt2"]}, "equal"),
        ("#### (1, 2)", {"tuple": [1, 2]}, "equal"),
        ("#### 1, 2", {"tuple": [1, 2]}, "equal"),
        ("#### (2, 1)", {"tuple": [1, 2]}, "different"),
        ("#### (1, 2, 2)", {"tuple": [1, 2]}, "different"),
        ("\\boxed{\\begin{pmatrix}1\\\\2\\end{pmatrix}}", {"tuple": [1, 2]}, "equal"),
        ("#### 3", {"any": [3, "x = 4"]}, "equal"),
        ("#### 4", {"any": [3, "x = 4"]}, "equal"),
        ("#### 5", {"any": [3, "x = 4"]}, "different"),
        ("#### {2, 1}", {"any": [3, {"set": [1, 2]}]}, "equal"),
        ("#### Room 12", {"text": "room 12"}, "equal"),
        ("#### 12", {"text": "room 12"}, "different"),
        ("#### 0.25", 0.25, "equal"),
        ("#### 25", 25, "equal"),
    ],
)
def test_what_counts_comes_from_the_data(text: str, gold: Json, verdict: Verdict) -> None:
    """Fault G2."""
    assert grade(text, gold) == verdict


@pytest.mark.parametrize(
    "gold",
    [
        *["\\frac{1}{", "", " ", "1,23.4.5", "#### 18", "f(", "9^9^9^9", "x" * 3000, "18 or so", "1/0", "2+2=5"],
        *[None, True, float("nan"), float("inf"), [8, 27], {}, {"set": []}, {"set": [8, "\\frac{"]}, {"set": 8}],
        *[
            {"list": [8]},
            {"set": [8], "tuple": [8]},
            {"text": "f(x)"},
            {"text": 5},
            {"any": []},
            {"set": [{"set": [1]}]},
        ],
    ],
    ids=lambda gold: repr(gold)[:40],
)
def test_a_gold_that_cannot_be_read_is_refused(gold: Json) -> None:
    """Fault G10: a broken reference answer is an error, never a reward."""
    with pytest.raises(InputError, match="gold answer"):
        parse_gold(gold)
    with pytest.raises(InputError, match="gold answer"):
        MathScorer()(Prompt("p", "?", gold=gold), sample("18"))


def test_a_row_may_change_the_policy() -> None:
    scorer = MathScorer()
    rows: list[tuple[Json, str, float]] = [
        (None, "\\boxed{2, 1}", 1),
        ({"order": "kept"}, "\\boxed{2, 1}", 0),
        ({"order": "kept"}, "\\boxed{1, 2}", 1),
        ({"places": ["hash"]}, "\\boxed{7} #### 1, 2", 1),
    ]
    for policy, text, score in rows:
        info = {} if policy is None else {"maths": policy}
        assert scorer(Prompt("p", "?", gold="1, 2", info=info), sample(text)) == Score(score)


@pytest.mark.parametrize(
    "row",
    [
        *[
            {"order": "any"},
            {"colour": "red"},
            {"places": []},
            {"places": ["somewhere"]},
            {"places": "boxed"},
            [1],
            "kept",
        ],
        *[{"tolerance": value} for value in ("loose", {"digits": 2.5}, {"relative": -1}, {"absolute": "1"}, {}, True)],
    ],
    ids=repr,
)
def test_a_policy_that_is_none_is_refused(row: Json) -> None:
    with pytest.raises(InputError):
        with_row(Policy(), row)


def test_tolerances_from_data() -> None:
    assert tolerance_of("exact") == Exact()
    assert tolerance_of("written") == Written()
    assert tolerance_of({"digits": 4}) == Written(4)
    assert tolerance_of({"relative": 0.01}) == Within(
        relative=Within(absolute=tolerance_of({"absolute": 0.01}).absolute).absolute
    )  # type: ignore[union-attr]
