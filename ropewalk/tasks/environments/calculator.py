"""A calculator that is exact: the grammar and the arithmetic of `scoring/maths`, which bound themselves by size.

Nothing of an expression is run. A rational result is told exactly, and as a decimal, too, where that is short or the
fraction long; any other real one to twelve digits.
"""

from decimal import Context, Decimal
from fractions import Fraction

from ropewalk.tasks.environments.protocol import ToolSpec
from ropewalk.tasks.environments.tools import Arguments, Tool, ToolFault
from ropewalk.tasks.scoring.maths.evaluate import Evaluator
from ropewalk.tasks.scoring.maths.exact import Quotient, names
from ropewalk.tasks.scoring.maths.grammar import parse
from ropewalk.tasks.scoring.maths.limits import MAX_LENGTH, Fuel, TooLarge, Unreadable
from ropewalk.tasks.scoring.maths.numeric import evaluate
from ropewalk.tasks.scoring.maths.plain import plain
from ropewalk.tasks.scoring.maths.tokens import tokens

DIGITS = 12
SPEC = ToolSpec(
    "calculator",
    "Evaluates one arithmetic expression exactly: + - * / ^ ( ) %, sqrt, sin, ln, factorials, pi and e.",
    {
        "type": "object",
        "properties": {"expression": {"type": "string", "description": "such as (17 + 4) * 2^10 / 3"}},
        "required": ["expression"],
    },
)


def calculator() -> Tool:
    """The tool."""
    return Tool(SPEC, _calculate, bounded=True)


def _calculate(arguments: Arguments) -> str:
    return calculated(arguments["expression"])


def calculated(expression: str) -> str:
    """The value of an expression, in words for the policy. Raises ToolFault."""
    if len(expression) > MAX_LENGTH:
        raise ToolFault(f"the expression is longer than {MAX_LENGTH} characters.")
    fuel = Fuel()
    try:
        value = Evaluator(fuel).value(parse(tokens(plain(expression.replace("**", "^")), "english")))
        if unknown := names(value):
            raise ToolFault(f"it knows no {', '.join(sorted(unknown))}: give numbers.")
        return _exact(value) if isinstance(value, int | Fraction) else _about(value, fuel)
    except TooLarge as error:
        raise ToolFault(f"the expression is too large: {error}.") from None
    except Unreadable as error:
        raise ToolFault(f"this is no arithmetic expression with a value: {error}.") from None


def _exact(value: int | Fraction) -> str:
    fraction = Fraction(value)
    if fraction.denominator == 1:
        return str(fraction.numerator)
    written = str(fraction)
    decimal = Context(prec=DIGITS).divide(Decimal(fraction.numerator), Decimal(fraction.denominator))
    sign = "=" if Fraction(decimal) == fraction else "≈"
    return f"{decimal:f}" if sign == "=" and abs(decimal) < Decimal(10) ** 15 else f"{written} ≈ {decimal}"


def _about(value: Quotient, fuel: Fuel) -> str:
    found = evaluate(value, {}, DIGITS + 6, fuel)
    if found is None:
        raise ToolFault("the expression has no value: it divides by zero, or leaves the real numbers.")
    context = Context(prec=DIGITS)
    real, imaginary = context.plus(found.real), context.plus(found.imaginary)
    if abs(imaginary) > Decimal(10) ** -DIGITS:
        raise ToolFault("the value is no real number.")
    return f"≈ {real.normalize(context)}"
