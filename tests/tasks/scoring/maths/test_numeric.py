"""Values to many digits against mpmath, whatever the thread's own decimal context says."""

import decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.tasks.scoring.maths.algebra import function, named, power
from ropewalk.tasks.scoring.maths.limits import Fuel
from ropewalk.tasks.scoring.maths.numeric import evaluate, pi
from ropewalk.tasks.scoring.maths.scorer import compare

DIGITS = 60
ORACLES = {
    **{
        name: getattr(mpmath, name) for name in ("sin", "cos", "tan", "cot", "sec", "csc", "ln", "sinh", "cosh", "tanh")
    },
    "arctan": mpmath.atan,
    "arcsin": mpmath.asin,
    "arccos": mpmath.acos,
    "log": mpmath.log10,
    "exp": mpmath.exp,
}


def of_mpmath(name: str, number: Fraction) -> Fraction:
    with mpmath.workdps(DIGITS + 20):
        found = ORACLES[name](mpmath.mpf(number.numerator) / number.denominator)
        return Fraction(int(found * mpmath.mpf(10) ** 70), 10**70)


@pytest.mark.parametrize("name", ORACLES)
@given(number=st.fractions(Fraction(1, 50), Fraction(99, 100), max_denominator=1000))
def test_functions_agree_with_mpmath(name: str, number: Fraction) -> None:
    found = evaluate(function(name, (number,), Fuel()), {}, DIGITS, Fuel())
    assert found is not None
    assert abs(Fraction(found.real) - of_mpmath(name, number)) < Fraction(1, 10 ** (DIGITS - 12))


@given(st.integers(-(10**9), 10**9))
def test_large_angles_agree_with_mpmath(number: int) -> None:
    found = evaluate(function("sin", (number,), Fuel()), {}, DIGITS, Fuel())
    assert found is not None
    assert abs(Fraction(found.real) - of_mpmath("sin", Fraction(number))) < Fraction(1, 10**40)


@given(st.fractions(Fraction(1, 9), 9, max_denominator=50), st.fractions(-4, 4, max_denominator=9))
def test_rational_powers_agree_with_mpmath(base: Fraction, exponent: Fraction) -> None:
    found = evaluate(power(base, exponent, Fuel()), {}, DIGITS, Fuel())
    assert found is not None
    with mpmath.workdps(DIGITS + 20):
        right = mpmath.mpf(base.numerator) / base.denominator
        right **= mpmath.mpf(exponent.numerator) / exponent.denominator
        assert abs(mpmath.mpf(str(found.real)) - right) < mpmath.mpf(10) ** -(DIGITS - 10)


def test_pi_has_its_digits() -> None:
    with mpmath.workdps(320):
        assert str(pi(300))[:300] == mpmath.nstr(mpmath.pi, 310)[:300]


def test_the_threads_own_decimal_context_does_not_matter() -> None:
    """Fault G4: no state of the thread changes a verdict."""
    pairs = [("\\sin(\\pi/6)", "1/2"), ("\\sqrt{3+2\\sqrt2}", "1+\\sqrt2"), ("\\arcsin 1", "\\pi/2"), ("3.14", "\\pi")]
    pairs += [("|{}|".format("\\sqrt[3]{-8}+\\sin 0"), "2"), ("e^{i\\pi}", "-1"), ("\\lfloor \\pi \\rfloor", "3")]
    rough = decimal.Context(prec=2, Emax=5, Emin=-5, traps=[decimal.Inexact, decimal.Rounded, decimal.Overflow])
    with decimal.localcontext(rough):
        assert [compare(*pair) for pair in pairs] == ["equal"] * len(pairs)


def test_what_is_not_defined_has_no_value() -> None:
    for name, number in (("ln", 0), ("ln", -1), ("arcsin", 2), ("log", 0)):
        assert evaluate(function(name, (Fraction(number),), Fuel()), {}, DIGITS, Fuel()) is None
    for text in ("\\tan 90^\\circ", "\\ln 0", "\\arcsin 2", "\\ln(-1)"):
        assert compare(text, "\\sin 1") == "unparsed"
    assert evaluate(named("x"), {"x": Fraction(1, 3)}, DIGITS, Fuel()) is not None
