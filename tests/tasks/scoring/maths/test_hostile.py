"""No text of any size or shape holds the grader up, grows, or crashes it."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.tasks.scoring.maths.limits import MAX_BITS, MAX_DEPTH, MAX_DIGITS, MAX_LENGTH
from ropewalk.tasks.scoring.maths.policy import Policy
from ropewalk.tasks.scoring.maths.scorer import compare, grade
from tests.seconds import processor_seconds

SIZE = 100_000
SECONDS = 1.0
"""Five times what the worst of these takes alone: the machine may be busy."""

UNITS = (
    *("a", "9", "-", "(", "\\", "1,", "1/", "$", "{", "}", "\\boxed{", "####", "answer is", "^ ", "sqrt ", "\\frac{"),
    *(
        "\\[",
        "\\(",
        "$x",
        "$ ",
        "answer ",
        "答案",
        "\\text{",
        "\\boxed",
        "\n",
        " ",
        "1 ",
        "a ",
        ".",
        "!",
        "%",
        "[",
        "|",
    ),
    *(
        "1+",
        "x^",
        "2^",
        "\\begin{pmatrix}",
        "&",
        "\\\\",
        "(1,",
        "sin ",
        "\\{",
        "*",
        "_",
        "万",
        "½",
        "²",
        "1e9",
        "\\left(",
    ),
    *("'", ":", "{\\boxed", "answer is 1 \n", "$1$", "** ", "€", "$5 ", "\\$", "1,234,", "1.2.", "-1-", "\u202f1", "ﷺ"),
)
FRAMES = ("{}", "#### {}", "\\boxed{{{}}}", "the answer is {}", "{} \\boxed{{1}}", "${}$")
POLICIES = (Policy(), Policy(places=("formula", "last_line", "number")))


def _is_linear(unit: str, frames: tuple[str, ...]) -> None:
    for frame in frames:
        text = frame.format(unit * (SIZE // len(unit)))
        for policy in POLICIES:
            assert processor_seconds(lambda text=text, policy=policy: grade(text, "18", policy)) < SECONDS, frame  # type: ignore[misc]


@pytest.mark.parametrize("unit", UNITS)
def test_time_is_linear_in_the_text(unit: str) -> None:
    """Fault G6."""
    _is_linear(unit, FRAMES[:1])


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_time_is_linear_in_the_text_of_any_answer(unit: str) -> None:
    """Fault G6."""
    _is_linear(unit, FRAMES[1:])


def nested(form: str, times: int, inner: str = "x") -> str:
    text = inner
    for _ in range(times):
        text = form.format(text)
    return text


ROOTS = "+".join(f"\\sqrt{{{prime}}}" for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47))
GREEDY = [
    f"({ROOTS})^9",
    "*".join([f"({ROOTS})"] * 8),
    f"1/({ROOTS})",
    "*".join(f"(x+y+{n})" for n in range(80)),
    "(x+y+z+w)^{3}*(a+b+c+d)^3*(p+q+r)^3",
    "(x+1)^{999999}",
    "(1+i)^{1000000}",
    "+".join(f"\\sin({n})" for n in range(120)),
    "+".join(f"\\ln({n}+\\sqrt{{{n}}})" for n in range(2, 60)),
    *[nested(form, 18) for form in ("\\sin({})", "\\sqrt{{{}+1}}", "(1+1/({}))", "({}+y)^2", "({})^2", "\\tan({})")],
    nested("({})^2", 18, "2"),
    "7^{5000}*" * 150 + "1",
    "+".join(["7^{5000}"] * 150),
    "+".join(["1/7^{5000}"] * 150),
    "+".join(f"1/{n}^{{3000}}" for n in range(3, 120)),
    "+".join(["1000!"] * 200),
    "*".join(["1000!"] * 200),
    "+".join(["\\binom{1000}{500}"] * 100),
    "+".join(f"1/{10**30 + n}" for n in range(1, 55)),
    "+".join(f"1/(x+{n})" for n in range(1, 200)),
    "\\{" + ",".join(f"\\sqrt{{{n}+\\sqrt{{2}}}}" for n in range(100)) + "\\}",
    "\\{" + ",".join(f"x+{n}" for n in range(199)) + "\\}",
    "\\cup".join(f"(\\sqrt{{{n}}},\\sqrt{{{n + 1}}})" for n in range(2, 60)),
    "\\cup".join(f"(\\ln {n},\\ln {n + 1})" for n in range(2, 90)),
    "9" * 500 + "/" + "7" * 500,
    "\\sqrt[3]{" + "9" * 490 + "}",
    "2^{0." + "1" * 100 + "}",
    "\\sqrt[" + "9" * 100 + "]{2}",
    "+".join(f"\\sqrt[{n}]{{2}}" for n in range(2, 100)),
    "+".join(f"\\sqrt{{{10**12 + n}}}" for n in range(90)),
    "i^{" + "9" * 100 + "}",
    "e^{e^{e^{e^{e}}}}",
    "e^{" + "9" * 50 + "}",
    "\\sin(" + "9" * 50 + ")",
    "10^{300}*10^{300}*10^{300}",
    "x^{y^{z^{x^{y^{z}}}}}",
    *["|" * 1999, "|x" * 900, "-" * 1999, "1" + "!" * 1999, "5" + "%" * 100, "5" + "°" * 100, "$" * 1999 + "5"],
    *[
        "√" * 1900 + "2",
        "sin " * 400 + "x",
        "\\frac" * 390 + "12",
        "\\frac1" * 300,
        "x_" * 900,
        "x_{" * 600,
        "x'" * 900,
    ],
    *["2^" * 900 + "2", "2" + "^{2}" * 400, "\\pm 1" * 300, "x=" * 900 + "5", "1<" * 900 + "2", "1=" * 900 + "1"],
    ",".join(["\\pm \\sqrt{2}"] * 90),
    "\\begin{pmatrix}" + "\\\\".join("&".join(["\\sin x"] * 10) for _ in range(15)) + "\\end{pmatrix}",
    *["a b c " * 300, "cm " * 600, "5 " + "cm " * 600, "5 cm^" * 300, "5 " + "apples " * 200],
    *["百" * 1000, "万" * 1000, "一" * 2000, "零点" * 800, "３" * 2000, "½" * 1000, "²" * 1900, "x²" * 900],
    "0.\\overline{" + "9" * 400 + "}",
    "1e-300+" * 300 + "1",
    *["\\text{" * 300, "\\text{a}" * 200, "\\text{1}" * 200, "A is " * 400, "the " * 500, "two hundred " * 150],
    "\\log_{2}" * 100 + "8",
    "((x+y)^{39}+1)*((x+z)^{39}+1)*((y+z)^{39}+1)",
]


@pytest.mark.parametrize("text", GREEDY, ids=lambda text: text[:30])
def test_no_answer_is_expensive(text: str) -> None:
    """Fault G6: size limits on powers, factorials, digits, terms and depth."""
    for other in (text, f"{text}+0", "18", "\\sqrt{2}+\\sin 1", "\\{1,2,3\\}", "0.123456"):
        assert processor_seconds(lambda other=other: compare(text, other)) < SECONDS, other  # type: ignore[misc]
    assert compare(text, text) != "different"


@given(st.lists(st.sampled_from(UNITS), max_size=40).map("".join))
def test_any_mixture_is_read_without_a_crash(text: str) -> None:
    for frame in FRAMES:
        grade(frame.format(text), "18")
    assert compare(text, text) != "different"


def test_limits_are_where_they_are_said_to_be() -> None:
    assert compare("9" * MAX_DIGITS, "9" * MAX_DIGITS) == "equal"
    assert compare("9" * (MAX_DIGITS + 1), "1") == "unparsed"
    assert compare(f"2^{{{MAX_BITS - 2}}}", f"2^{{{MAX_BITS - 2}}}") == "unparsed"
    assert compare(f"2^{{{MAX_BITS // 2}}}", f"4^{{{MAX_BITS // 4}}}") == "equal"
    assert compare("x" + " " * MAX_LENGTH, "x") == "equal"
    assert compare("x" + " " * MAX_LENGTH + "+1", "x+1") == "unparsed"
    assert compare("(" * MAX_DEPTH + "5" + ")" * MAX_DEPTH, "5") == "equal"
    assert compare("(" * (MAX_DEPTH + 1) + "5" + ")" * (MAX_DEPTH + 1), "5") == "unparsed"


def _stack() -> int:
    frame, depth = sys._getframe(), 0
    while frame := frame.f_back:  # type: ignore[assignment]
        depth += 1
    return depth


@pytest.mark.parametrize(
    "form", ["({})", "\\frac{{{}}}{{2}}", "\\sqrt{{{}}}", "\\sin({})", "2^{{{}}}", "|{}|", "\\{{{}\\}}"]
)
def test_depth_stays_far_from_the_interpreter_limit(form: str) -> None:
    """A reader that is deep in other calls already still gives the same verdict."""
    text = nested(form, MAX_DEPTH, "x")
    expected = compare(text, text)
    before = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(_stack() + 600)
        assert compare(text, text) == expected
    finally:
        sys.setrecursionlimit(before)
