"""Values to many digits, for what has no normal form: decimals of a fixed precision, own series for the angles.

A number here is a pair of decimals, its real and imaginary part. What is not defined at a point is None. Nothing
depends on the thread's own decimal context: operators such as -x and abs(x) would round to it, and are not used.
"""

from collections.abc import Callable, Mapping
from decimal import Context, Decimal, DecimalException, DivisionByZero, InvalidOperation, Overflow
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from ropewalk.tasks.scoring.maths.exact import Applied, Quotient, Value
from ropewalk.tasks.scoring.maths.limits import Fuel
from ropewalk.tasks.scoring.maths.polynomial import Atom, Number, Polynomial

ZERO, ONE, TWO = Decimal(0), Decimal(1), Decimal(2)


class Complex(NamedTuple):
    real: Decimal
    imaginary: Decimal = ZERO


def conjugate(number: Complex) -> Complex:
    return Complex(number.real, number.imaginary.copy_negate())


def tiny(digits: int) -> Decimal:
    """10^-digits."""
    return Decimal((0, (1,), -digits))


class Undefined(Exception):
    """No value at this point, or none that can be computed."""


def evaluate(value: Value, point: Mapping[str, Fraction], digits: int, fuel: Fuel) -> Complex | None:
    """The value where its variables have these values, to about `digits` digits; None where it is not defined."""
    try:
        return _Evaluator(point, digits, fuel).value(value)
    except (Undefined, DecimalException):
        return None


class _Evaluator:
    def __init__(self, point: Mapping[str, Fraction], digits: int, fuel: Fuel) -> None:
        self.point = point
        self.fuel = fuel
        self.known: dict[int, Complex] = {}
        """Values of functions, by the identity of their atoms."""
        traps = [InvalidOperation, DivisionByZero, Overflow]
        self.context = Context(prec=digits, Emax=10**5, Emin=-(10**5), traps=traps)

    def value(self, value: Value) -> Complex:
        if not isinstance(value, Quotient):
            return Complex(self.rational(value))
        return self.divide(self.polynomial(value.over), self.polynomial(value.under))

    def rational(self, number: Number) -> Decimal:
        return self.context.divide(Decimal(number.numerator), Decimal(number.denominator))

    def polynomial(self, polynomial: Polynomial) -> Complex:
        total = Complex(ZERO)
        for monomial, coefficient in polynomial.items():
            self.fuel.spend(2)
            term = Complex(self.rational(coefficient))
            for atom, exponent in monomial:
                term = self.multiply(term, self.power(self.atom(atom), exponent))
            total = self.add(total, term)
        return total

    def atom(self, atom: Atom) -> Complex:
        if isinstance(atom, int):
            return Complex(Decimal(atom))
        if isinstance(atom, Applied):
            if id(atom) not in self.known:
                self.known[id(atom)] = self.applied(atom)
            return self.known[id(atom)]
        if atom == "π":
            return Complex(pi(self.context.prec))
        if atom == "e":
            return Complex(self.context.exp(ONE))
        if atom == "i":
            return Complex(ZERO, ONE)
        if atom not in self.point:
            raise Undefined
        return Complex(self.rational(self.point[atom]))

    def applied(self, atom: Applied) -> Complex:
        self.fuel.spend(self.context.prec**2 // 40)
        if atom.name == "^":
            base, exponent = atom.arguments
            if isinstance(exponent, Quotient):
                return self.general_power(self.value(base), self.value(exponent))
            return self.power(self.value(base), exponent)
        arguments = [self.value(argument) for argument in atom.arguments]
        if atom.name == "abs":
            first = arguments[0]
            return Complex(self.context.sqrt(self.multiply(first, conjugate(first)).real))
        if any(argument.imaginary for argument in arguments):
            raise Undefined
        return Complex(self.real(atom.name, *(argument.real for argument in arguments)))

    def real(self, name: str, first: Decimal, *rest: Decimal) -> Decimal:
        if name in ("ln", "log"):
            return self.logarithm(first, *(rest or ((Decimal(10),) if name == "log" else ())))
        if name in _PLAIN:
            return _PLAIN[name](self.context, first)
        if name not in _OF_WHOLE or first != first.to_integral_value() or not 0 <= first <= 1000:
            raise Undefined
        return _OF_WHOLE[name](self.context, first, *rest)

    def logarithm(self, value: Decimal, *base: Decimal) -> Decimal:
        if value <= 0 or any(b <= 0 or b == 1 for b in base):
            raise Undefined
        top = self.context.ln(value)
        return self.context.divide(top, self.context.ln(base[0])) if base else top

    def add(self, first: Complex, second: Complex) -> Complex:
        add = self.context.add
        return Complex(add(first.real, second.real), add(first.imaginary, second.imaginary))

    def multiply(self, first: Complex, second: Complex) -> Complex:
        times, context = self.context.multiply, self.context
        if not first.imaginary and not second.imaginary:
            return Complex(times(first.real, second.real))
        return Complex(
            context.subtract(times(first.real, second.real), times(first.imaginary, second.imaginary)),
            context.add(times(first.real, second.imaginary), times(first.imaginary, second.real)),
        )

    def divide(self, first: Complex, second: Complex) -> Complex:
        if not second.imaginary:
            divide = self.context.divide
            return Complex(divide(first.real, second.real), divide(first.imaginary, second.real))
        turned = self.multiply(first, conjugate(second))
        size = self.multiply(second, conjugate(second))
        return self.divide(turned, Complex(size.real))

    def power(self, base: Complex, exponent: Number) -> Complex:
        """A rational power; of a negative number the real root, as in the exact arithmetic."""
        if exponent == 1:
            return base
        if exponent.denominator == 1:
            return self.whole_power(base, int(exponent))
        if base.imaginary or (base.real == 0 and exponent < 0):
            raise Undefined
        self.fuel.spend(self.context.prec**2 // 80)
        size = self.context.power(base.real.copy_abs(), self.rational(exponent)) if base.real else ZERO
        if base.real >= 0:
            return Complex(size)
        if exponent.denominator % 2:
            return Complex(size.copy_negate() if exponent.numerator % 2 else size)
        if exponent.denominator != 2:
            raise Undefined
        return self.multiply(Complex(size), self.whole_power(Complex(ZERO, ONE), exponent.numerator))

    def whole_power(self, base: Complex, exponent: int) -> Complex:
        if not base.imaginary:
            return Complex(self.context.power(base.real, Decimal(exponent)))
        if abs(exponent) > 1000:
            raise Undefined
        result = Complex(ONE)
        for bit in bin(abs(exponent))[2:]:
            result = self.multiply(result, result)
            result = self.multiply(result, base) if bit == "1" else result
        return result if exponent > 0 else self.divide(Complex(ONE), result)

    def general_power(self, base: Complex, exponent: Complex) -> Complex:
        """base^exponent = exp(exponent · ln base), for a positive base; a negative one takes whole exponents only."""
        if base.imaginary:
            raise Undefined
        if base.real <= 0:
            if (
                exponent.imaginary
                or exponent.real != exponent.real.to_integral_value()
                or exponent.real.copy_abs() > 1000
            ):
                raise Undefined
            return self.whole_power(base, int(exponent.real))
        log = self.context.ln(base.real)
        size = self.context.exp(self.context.multiply(exponent.real, log))
        if not exponent.imaginary:
            return Complex(size)
        angle = self.context.multiply(exponent.imaginary, log)
        cosine, sine = _circle(self.context, angle)
        return Complex(self.context.multiply(size, cosine), self.context.multiply(size, sine))


@lru_cache(maxsize=64)
def pi(digits: int) -> Decimal:
    """π by Machin's formula, in whole numbers."""
    unit = int("1" + "0" * (digits + 10))

    def arctan_of_inverse(number: int) -> int:
        term = total = unit // number
        for odd in range(3, 3 * digits + 40, 2):
            term = -term // (number * number)
            total += term // odd
        return total

    value = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    return Context(prec=digits).divide(Decimal(value), Decimal(unit))


def _circle(context: Context, angle: Decimal) -> tuple[Decimal, Decimal]:
    """Cosine and sine: the angle is brought to [-π, π] and halved, then Taylor's series, then doubled."""
    if angle.copy_abs() > 10**12:
        raise Undefined
    wide = Context(prec=context.prec + 30)
    turn = wide.multiply(TWO, pi(wide.prec))
    rest = wide.subtract(angle, wide.multiply(turn, wide.divide(angle, turn).to_integral_value()))
    halvings = 8
    rest = wide.divide(rest, Decimal(2**halvings))
    square, term = wide.multiply(rest, rest), rest
    sine, cosine, step = ZERO, ZERO, 1
    small = tiny(wide.prec + 2)
    cosine_term = ONE
    while term.copy_abs() > small or cosine_term.copy_abs() > small:
        sine, cosine = wide.add(sine, term), wide.add(cosine, cosine_term)
        cosine_term = wide.divide(wide.multiply(cosine_term.copy_negate(), square), Decimal(step * (step + 1)))
        term = wide.divide(wide.multiply(term.copy_negate(), square), Decimal((step + 1) * (step + 2)))
        step += 2
    for _ in range(halvings):
        sine, cosine = (
            wide.multiply(TWO, wide.multiply(sine, cosine)),
            wide.subtract(wide.multiply(cosine, cosine), wide.multiply(sine, sine)),
        )
    return context.plus(cosine), context.plus(sine)


def _arctan(context: Context, value: Decimal) -> Decimal:
    """Halved three times by arctan x = 2 arctan(x / (1 + √(1 + x²))), then Taylor's series."""
    wide = Context(prec=context.prec + 20)
    halvings = 6
    for _ in range(halvings):
        root = wide.sqrt(wide.add(ONE, wide.multiply(value, value)))
        value = wide.divide(value, wide.add(ONE, root))
    square, term, total, odd = wide.multiply(value, value), value, ZERO, 1
    while term.copy_abs() > tiny(wide.prec + 2):
        total = wide.add(total, wide.divide(term, Decimal(odd)))
        term, odd = wide.multiply(term.copy_negate(), square), odd + 2
    return context.multiply(total, Decimal(2**halvings))


def _arcsin(context: Context, value: Decimal) -> Decimal:
    if value.copy_abs() > 1:
        raise Undefined
    if value.copy_abs() == 1:
        return context.divide(context.multiply(value, pi(context.prec)), TWO)
    under = context.sqrt(context.subtract(ONE, context.multiply(value, value)))
    return _arctan(context, context.divide(value, under))


def _hyperbolic(context: Context, value: Decimal) -> tuple[Decimal, Decimal]:
    one, other = context.exp(value), context.exp(value.copy_negate())
    return context.divide(context.add(one, other), TWO), context.divide(context.subtract(one, other), TWO)


def _ratio(context: Context, over: Decimal, under: Decimal) -> Decimal:
    # A sine or cosine that is 0 comes out as a tiny number.
    if under.copy_abs() < tiny(context.prec // 2):
        raise Undefined
    return context.divide(over, under)


_PLAIN: dict[str, Callable[[Context, Decimal], Decimal]] = {
    "number": lambda context, x: context.plus(x),
    "cos": lambda context, x: _circle(context, x)[0],
    "sin": lambda context, x: _circle(context, x)[1],
    "tan": lambda context, x: _ratio(context, *reversed(_circle(context, x))),
    "cot": lambda context, x: _ratio(context, *_circle(context, x)),
    "sec": lambda context, x: _ratio(context, ONE, _circle(context, x)[0]),
    "csc": lambda context, x: _ratio(context, ONE, _circle(context, x)[1]),
    "arcsin": _arcsin,
    "arccos": lambda context, x: context.subtract(context.divide(pi(context.prec), TWO), _arcsin(context, x)),
    "arctan": _arctan,
    "cosh": lambda context, x: _hyperbolic(context, x)[0],
    "sinh": lambda context, x: _hyperbolic(context, x)[1],
    "tanh": lambda context, x: context.divide(*reversed(_hyperbolic(context, x))),
    "floor": lambda context, x: x.to_integral_value("ROUND_FLOOR"),
    "ceil": lambda context, x: x.to_integral_value("ROUND_CEILING"),
}


def _factorial(context: Context, number: Decimal) -> Decimal:
    result = ONE
    for factor in range(2, int(number) + 1):
        result = context.multiply(result, Decimal(factor))
    return result


def _binomial(context: Context, upper: Decimal, lower: Decimal) -> Decimal:
    if lower != lower.to_integral_value() or not 0 <= lower <= upper:
        raise Undefined
    under = context.multiply(_factorial(context, lower), _factorial(context, context.subtract(upper, lower)))
    return context.divide(_factorial(context, upper), under)


_OF_WHOLE: dict[str, Callable[..., Decimal]] = {"!": _factorial, "binom": _binomial}
