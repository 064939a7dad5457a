"""Whether two exact values are one: by normal form where it decides, else by their values at several points.

The points are drawn from the two values themselves, so no expression can be made to agree at them on purpose; the
precision grows with the numbers in the values, so nothing written out can hide below it.
"""

import hashlib
from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction

from ropewalk.tasks.scoring.maths.exact import INFINITE, Applied, Quotient, Value, digest, functions, height, names
from ropewalk.tasks.scoring.maths.limits import MAX_EXPONENT, Fuel, TooLarge, Unreadable
from ropewalk.tasks.scoring.maths.numeric import Complex, evaluate, tiny
from ropewalk.tasks.scoring.maths.polynomial import Polynomial, add, atoms, multiply, scale

DIGITS = 50
_MAX_DIGITS = 400
_POINTS = 4
_NEEDED = 2
"""Points at which both must be defined and agree; one is enough for constants."""


def same(first: Value, second: Value, fuel: Fuel) -> bool:
    """Whether the values are equal wherever both are defined. Raises Unreadable if that cannot be decided."""
    if not isinstance(first, Quotient) and not isinstance(second, Quotient):
        return first == second
    difference = _difference(first, second, fuel)
    if not difference:
        return True
    found = atoms(difference)
    if INFINITE in found or not any(isinstance(atom, Applied) for atom in found):
        return False
    return _same_at_points(first, second, fuel)


def _difference(first: Value, second: Value, fuel: Fuel) -> Polynomial:
    one, other = _parts(first), _parts(second)
    left = one[0] if other[1] is None else multiply(one[0], other[1], fuel)
    right = other[0] if one[1] is None else multiply(other[0], one[1], fuel)
    return add(left, scale(right, -1, fuel), fuel)


def _parts(value: Value) -> tuple[Polynomial, Polynomial | None]:
    if not isinstance(value, Quotient):
        return ({frozenset(): value} if value else {}), None
    return value.over, value.under if len(value.under) > 1 else None


def _same_at_points(first: Value, second: Value, fuel: Fuel) -> bool:
    variables = sorted(names(first) | names(second))
    digits = DIGITS + 2 * (height(first) + height(second))
    if digits > _MAX_DIGITS:
        raise TooLarge("too many digits to compare by value")
    whole = bool((functions(first) | functions(second)) & {"!", "binom"})
    agreed = 0
    for point in _points(variables, _seed(first, second), whole):
        fuel.spend(200)
        one, other = evaluate(first, point, digits, fuel), evaluate(second, point, digits, fuel)
        if one is None or other is None:
            continue
        if not _close(one, other, digits // 2):
            return False
        agreed += 1
    if agreed < (_NEEDED if variables else 1):
        raise Unreadable("values that are defined almost nowhere")
    return True


def _close(one: Complex, other: Complex, digits: int) -> bool:
    context = Context(prec=2 * digits)
    allowed = context.multiply(tiny(digits), max(Decimal(1), *(part.copy_abs() for part in (*one, *other))))
    return all(context.subtract(a, b).copy_abs() <= allowed for a, b in zip(one, other, strict=True))


def _seed(first: Value, second: Value) -> bytes:
    """The same for both orders."""
    texts = sorted(map(digest, (first, second)))
    return hashlib.blake2b("|".join(texts).encode(), digest_size=32).digest()


def _points(variables: list[str], seed: bytes, whole: bool) -> Iterator[dict[str, Fraction]]:
    """Small, middling, mixed and negative values; small whole ones where a factorial needs them."""
    if not variables:
        yield {}
        return
    for index in range(_POINTS):
        point = {}
        for variable in variables:
            drawn = hashlib.blake2b(f"{index} {variable}".encode(), key=seed, digest_size=8).digest()
            number = int.from_bytes(drawn, "big")
            if whole:
                point[variable] = Fraction(1 + number % 9)
                continue
            size = Fraction(1 + number % 9_973, 9_973) * (1, 3)[index % 2]
            negative = index == _POINTS - 1 or (index == _POINTS - 2 and variable == variables[0])
            point[variable] = -size if negative else size
        yield point


def constant(value: Value, fuel: Fuel) -> Fraction | None:
    """The value of a real constant to many digits; exact where it is rational, None where it is no real constant."""
    if not isinstance(value, Quotient):
        return Fraction(value)
    if names(value):
        return None
    found = evaluate(value, {}, DIGITS, fuel)
    if found is None or found.imaginary.copy_abs() > tiny(DIGITS // 2) or abs(found.real.adjusted()) > MAX_EXPONENT:
        return None
    return Fraction(found.real)


def below(first: Value, second: Value, fuel: Fuel) -> bool:
    """Whether one real constant is less than another. Raises Unreadable if they are none."""
    if not isinstance(first, Quotient) and not isinstance(second, Quotient):
        return first < second
    if same(first, second, fuel):
        return False
    one, other = constant(first, fuel), constant(second, fuel)
    if one is None or other is None:
        raise Unreadable("no order")
    return one < other


def proportional(first: Value, second: Value, fuel: Fuel) -> Fraction | None:
    """The rational factor c with first = c · second, None if there is none; both are polynomials that are not 0."""
    one, other = _parts(first)[0], _parts(second)[0]
    if not one or not other:
        return None if one or other else Fraction(1)
    common = next((monomial for monomial in one if monomial in other), None)
    if common is None:
        return None
    factor = Fraction(one[common]) / other[common]
    return factor if same(Quotient(one), Quotient(scale(other, factor, fuel)), fuel) else None


def minus(first: Value, second: Value, fuel: Fuel) -> Quotient:
    """The numerator of first - second over one denominator."""
    return Quotient(_difference(first, second, fuel))
