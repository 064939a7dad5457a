"""The calculator is exact, says what it cannot do, and runs nothing."""

import json
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.tasks.environments.calculator import calculated, calculator
from ropewalk.tasks.environments.protocol import ToolCall
from ropewalk.tasks.environments.tools import Toolbox, ToolFault
from tests.seconds import processor_seconds

NUMBERS = st.integers(-(10**12), 10**12)


@given(a=NUMBERS, b=NUMBERS, c=NUMBERS.filter(bool))
@settings(max_examples=100, deadline=None)
def test_rational_arithmetic_is_exact(a: int, b: int, c: int) -> None:
    expected = (Fraction(a) + b) * a / c
    told = calculated(f"(({a}) + ({b})) * ({a}) / ({c})")
    said, _, about = told.partition(" ≈ ")
    assert Fraction(said) == expected
    assert not about or abs(Fraction(about) - expected) <= abs(expected) / 10**11


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("1+1", "2"), ("0.1 + 0.2", "0.3"), ("7/3", "7/3 ≈ 2.33333333333"), ("2**10", "1024"), ("100/8", "12.5"),
        ("2^100", str(2**100)), ("sqrt(16)", "4"), ("sqrt(2)", "≈ 1.41421356237"), ("5!", "120"), ("3 * 20%", "0.6"),
        ("-3^2", "-9"), ("1,000 + 1", "1001"), ("1/3 + 1/6", "0.5"), ("sin(pi/2)", "≈ 1"), ("abs(-3)", "3"),
        ("十二 + 三", "15"), ("２＋２", "4"), ("1e-30", "0." + "0" * 29 + "1"),
    ],
)  # fmt: skip
def test_what_it_says(expression: str, told: str) -> None:
    assert calculated(expression) == told


HOSTILE = [
    "", "   ", "x + 1", "1/0", "9^9^9", "10000!", "(((1", "__import__('os').system('touch /tmp/x')", "open('x')",
    "lambda: 1", "1;2", "()" * 900, "(" * 1_900, "2^" * 900 + "2", "9" * 1_999, "1+" * 999 + "1", "sqrt(-1)", "\0",
    "{1, 2}", "1 = 1", "1" * 10_000, "tan(pi/2)", "nan", "inf", "1e999999999", "\ud800", "0^0", "0^-1", "ln(0)",
]  # fmt: skip


@pytest.mark.parametrize("expression", HOSTILE, ids=range(len(HOSTILE)))
def test_what_cannot_be_computed_is_a_sentence_at_once(expression: str) -> None:
    """Fault G6."""

    def told() -> str:
        try:
            return calculated(expression)
        except ToolFault as error:
            return str(error) if len(str(error)) < 300 else ""

    assert told()
    assert processor_seconds(told) < 10


def test_it_is_a_tool() -> None:
    box = Toolbox([calculator()])
    assert box.answer(ToolCall("calculator", json.loads('{"expression": "6 * 7"}'))).text == "42"
    assert box.answer(ToolCall("calculator", {"expression": "1/0"})).fault
    assert box.answer(ToolCall("calculator", {})).fault
