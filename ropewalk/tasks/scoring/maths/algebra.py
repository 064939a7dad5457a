"""Arithmetic of exact values: rational numbers, and quotients of polynomials.

A value that is a rational number is an int or a Fraction; nothing is ever rounded. Powers that would be too long to
write out stay as they are, as atoms.
"""

from fractions import Fraction
from math import comb, factorial, isqrt

from ropewalk.tasks.scoring.maths.exact import Applied, Quotient, Value
from ropewalk.tasks.scoring.maths.limits import MAX_BITS, MAX_EXPANDED, MAX_FACTORIAL, Fuel, TooLarge, Unreadable
from ropewalk.tasks.scoring.maths.polynomial import (
    IMAGINARY,
    ONE,
    Atom,
    Number,
    Polynomial,
    add,
    bounded,
    effort,
    monomial_power,
    multiply,
    reduced,
    scale,
)

_MAX_POWER = 1_000_000
"""Exponents of what is not written out."""


def named(name: str) -> Quotient:
    """A variable or a constant."""
    return Quotient({frozenset(((name, 1),)): 1})


def polynomial(value: Value) -> Quotient:
    return value if isinstance(value, Quotient) else Quotient({ONE: value} if value else {})


def simple(over: Polynomial, under: Polynomial, fuel: Fuel) -> Value:
    """The value over / under, as a number where it is one. Raises Unreadable if `under` is 0."""
    if not under:
        raise Unreadable("division by zero")
    if len(under) == 1:
        ((monomial, coefficient),) = under.items()
        if monomial or coefficient != 1:
            inverse, factor = monomial_power(monomial, -1)
            over = multiply(over, {inverse: Fraction(factor) / coefficient}, fuel)
            under = {ONE: 1}
        if not over:
            return 0
        if len(over) == 1 and ONE in over:
            return over[ONE]
    return Quotient(over, under)


def plus(first: Value, second: Value, fuel: Fuel) -> Value:
    if not isinstance(first, Quotient) and not isinstance(second, Quotient):
        fuel.spend(effort(first))
        return bounded(first + second)
    one, other = polynomial(first), polynomial(second)
    if one.under == other.under:
        return simple(add(one.over, other.over, fuel), one.under, fuel)
    crossed = add(multiply(one.over, other.under, fuel), multiply(other.over, one.under, fuel), fuel)
    return simple(crossed, multiply(one.under, other.under, fuel), fuel)


def negative(value: Value, fuel: Fuel) -> Value:
    if not isinstance(value, Quotient):
        return -value
    return Quotient(scale(value.over, -1, fuel), value.under)


def product(first: Value, second: Value, fuel: Fuel) -> Value:
    if not isinstance(first, Quotient) and not isinstance(second, Quotient):
        fuel.spend(effort(first))
        return bounded(first * second)
    one, other = polynomial(first), polynomial(second)
    return simple(multiply(one.over, other.over, fuel), multiply(one.under, other.under, fuel), fuel)


def quotient(first: Value, second: Value, fuel: Fuel) -> Value:
    if not isinstance(second, Quotient):
        if not second:
            raise Unreadable("division by zero")
        if not isinstance(first, Quotient):
            fuel.spend(effort(first) + effort(second))
            return bounded(Fraction(first, second))
    one, other = polynomial(first), polynomial(second)
    return simple(multiply(one.over, other.under, fuel), multiply(one.under, other.over, fuel), fuel)


def power(base: Value, exponent: Value, fuel: Fuel) -> Value:
    if isinstance(exponent, Quotient):
        return 1 if base == 1 else _applied("^", base, exponent)
    if exponent == 0:
        if base == 0:
            raise Unreadable("0^0")
        return 1
    if Fraction(exponent).denominator == 1:
        return _whole_power(base, int(exponent), fuel)
    if not isinstance(base, Quotient):
        return _root(base, Fraction(exponent), fuel)
    return _power_of_term(base, Fraction(exponent), fuel)


def _whole_power(base: Value, exponent: int, fuel: Fuel) -> Value:
    if not isinstance(base, Quotient):
        return _number_power(base, exponent, fuel)
    if exponent < 0:
        return quotient(1, _whole_power(base, -exponent, fuel), fuel)
    if len(base.over) == 1 and len(base.under) == 1:
        ((monomial, coefficient),) = base.over.items()
        raised, factor = monomial_power(monomial, exponent)
        number = _number_power(coefficient, exponent, fuel)
        return simple({raised: bounded(number * factor)}, {ONE: 1}, fuel)
    if exponent > _MAX_POWER:
        raise TooLarge("too large a power")
    if not all(_can_expand(part, exponent) for part in (base.over, base.under)):
        return _applied("^", base, exponent)
    over, under = _expanded(base.over, exponent, fuel), _expanded(base.under, exponent, fuel)
    return simple(over, under, fuel)


def _number_power(base: Number, exponent: int, fuel: Fuel) -> Number:
    if base == 0 and exponent < 0:
        raise Unreadable("division by zero")
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(base) not in (0, 1) and bits * abs(exponent) > MAX_BITS:
        raise TooLarge("too large a power")
    if abs(base) in (0, 1):
        exponent = 2 - exponent % 2
    result = Fraction(base) ** exponent if exponent < 0 or isinstance(base, Fraction) else base**exponent
    fuel.spend(effort(result))
    return result


def _can_expand(part: Polynomial, exponent: int) -> bool:
    return len(part) == 1 or (exponent < MAX_EXPANDED and comb(len(part) + exponent - 1, exponent) <= MAX_EXPANDED)


def _expanded(part: Polynomial, exponent: int, fuel: Fuel) -> Polynomial:
    result: Polynomial = {ONE: 1}
    for bit in bin(exponent)[2:]:
        result = multiply(result, result, fuel)
        if bit == "1":
            result = multiply(result, part, fuel)
    return result


def _power_of_term(base: Quotient, exponent: Fraction, fuel: Fuel) -> Value:
    """(c · x)^r = c^r · x^r for positive c; anything with more factors stays, as √(x²) is |x|, not x."""
    if len(base.over) == 1 and len(base.under) == 1:
        ((monomial, coefficient),) = base.over.items()
        ((atom, inner),) = monomial if len(monomial) == 1 else ((ONE, 0),)
        positive = isinstance(atom, int) or atom in ("π", "e")
        if coefficient > 0 and (positive or (inner == 1 and isinstance(atom, str) and atom != IMAGINARY)):
            raised, factor = reduced({atom: inner * exponent})  # type: ignore[dict-item]
            return product(_root(coefficient, exponent, fuel), simple({raised: factor}, {ONE: 1}, fuel), fuel)
        if coefficient not in (0, 1) and coefficient > 0:
            rest = Quotient({monomial: 1})
            return product(_root(coefficient, exponent, fuel), _applied("^", rest, exponent), fuel)
    return _applied("^", base, exponent)


def _root(number: Number, exponent: Fraction, fuel: Fuel) -> Value:
    """number^exponent in prime factors. Of a negative number: the real root if there is one, else i times the root."""
    if number == 0:
        if exponent < 0:
            raise Unreadable("division by zero")
        return 0
    if number < 0:
        positive = _root(-number, exponent, fuel)
        if exponent.denominator % 2:
            return negative(positive, fuel) if exponent.numerator % 2 else positive
        if exponent.denominator == 2:
            return product(positive, _whole_power(named(IMAGINARY), exponent.numerator, fuel), fuel)
        raise Unreadable("a complex root")
    powers: dict[Atom, Number] = {}
    for part, sign in ((number.numerator, 1), (number.denominator, -1)):
        for prime, times in _factors(part, exponent.denominator, fuel).items():
            powers[prime] = powers.get(prime, 0) + sign * times * exponent
    monomial, factor = reduced(powers)
    return simple({monomial: bounded(factor)}, {ONE: 1}, fuel)


_SMALL_PRIMES = tuple(n for n in range(2, 1000) if all(n % d for d in range(2, isqrt(n) + 1)))


def _factors(number: int, root: int, fuel: Fuel) -> dict[Atom, int]:
    """Prime factors; what is left after the small primes is a prime, a perfect power, or stays as an atom."""
    found: dict[Atom, int] = {}
    fuel.spend(20 * effort(number))
    for prime in _SMALL_PRIMES:
        while number % prime == 0:
            number //= prime
            found[prime] = found.get(prime, 0) + 1
        if number == 1:
            return found
    if number < 1_000_000:
        return found | {number: 1}
    base = _whole_root(number, root) if root <= 64 else None
    if base is not None and base < 1_000_000:
        return found | {base: root}
    return found | {Applied("number", (number,)): 1} if base is None else found | {Applied("number", (base,)): root}


def _whole_root(number: int, root: int) -> int | None:
    """The exact whole root by bisection on its bits, or None."""
    low, high = 1, 1 << (number.bit_length() // root + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**root <= number else (low, middle - 1)
    return low if low**root == number else None


def function(name: str, arguments: tuple[Value, ...], fuel: Fuel) -> Value:
    """A function at exact values: a number where it is one, else an atom."""
    first = arguments[0]
    if name == "sqrt":
        return power(first, quotient(1, arguments[1], fuel), fuel)
    if name == "exp":
        return power(named("e"), first, fuel)
    if not isinstance(first, Quotient):
        number = Fraction(first)
        if name == "abs":
            return abs(number)
        if name in ("floor", "ceil"):
            return number.__floor__() if name == "floor" else number.__ceil__()
        if name == "!":
            return _factorial(number, fuel)
        if name == "binom" and not isinstance(arguments[1], Quotient):
            return _binomial(number, Fraction(arguments[1]), fuel)
    return _applied(name, *arguments)


def _factorial(number: Fraction, fuel: Fuel) -> int:
    if number.denominator != 1 or number < 0:
        raise Unreadable("a factorial of no whole number")
    if number > MAX_FACTORIAL:
        raise TooLarge("too large a factorial")
    result = factorial(int(number))
    fuel.spend(effort(result))
    return result


def _binomial(upper: Fraction, lower: Fraction, fuel: Fuel) -> int:
    if upper.denominator != 1 or lower.denominator != 1 or upper < 0 or lower < 0:
        raise Unreadable("a binomial of no whole numbers")
    if upper > MAX_FACTORIAL:
        raise TooLarge("too large a binomial")
    result = comb(int(upper), int(lower))
    fuel.spend(effort(result))
    return result


def _applied(name: str, *arguments: Value) -> Quotient:
    return Quotient({frozenset(((Applied(name, arguments), 1),)): 1})
