"""Polynomials over the rationals in atoms: the normal form in which equal sums of products are the same object.

An atom is a variable or a constant (its name), a prime under a root (the prime), or an `Applied` function. A monomial
is a set of (atom, exponent). Exponents of primes lie in [0, 1), that of i in {0, 1}; the roots of distinct primes are
linearly independent over the rationals (Besicovitch 1940), so two sums of roots are equal only if they are the same.
Atoms that are functions make the form incomplete: different forms may still have the same value.
"""

from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, TypeAlias

from ropewalk.tasks.scoring.maths.limits import MAX_BITS, MAX_TERMS, Fuel, TooLarge

if TYPE_CHECKING:
    from ropewalk.tasks.scoring.maths.exact import Applied

Number: TypeAlias = int | Fraction
Atom: TypeAlias = "str | int | Applied"
Monomial: TypeAlias = frozenset[tuple[Atom, Number]]
Polynomial: TypeAlias = dict[Monomial, Number]

ONE: Monomial = frozenset()
IMAGINARY = "i"


def bounded(number: Number) -> Number:
    """The number itself. Raises TooLarge above MAX_BITS."""
    if number.numerator.bit_length() > MAX_BITS or number.denominator.bit_length() > MAX_BITS:
        raise TooLarge("too large a number")
    return number


def effort(number: Number) -> int:
    """What an operation with this number costs, in steps."""
    words = (number.numerator.bit_length() + number.denominator.bit_length()) // 256
    return 1 + words * words // 16


def add(first: Polynomial, second: Polynomial, fuel: Fuel) -> Polynomial:
    fuel.spend(len(second))
    total = dict(first)
    for monomial, coefficient in second.items():
        found = bounded(total.get(monomial, 0) + coefficient)
        if found:
            total[monomial] = found
        else:
            del total[monomial]
    return total


def scale(first: Polynomial, factor: Number, fuel: Fuel) -> Polynomial:
    fuel.spend(len(first) * effort(factor))
    return {monomial: bounded(coefficient * factor) for monomial, coefficient in first.items()} if factor else {}


def multiply(first: Polynomial, second: Polynomial, fuel: Fuel) -> Polynomial:
    if len(first) * len(second) > 16 * MAX_TERMS:
        raise TooLarge("too many terms")
    total: Polynomial = {}
    for left, one in first.items():
        for right, other in second.items():
            monomial, factor = times(left, right)
            coefficient = one * other * factor
            fuel.spend(effort(coefficient))
            found = bounded(total.get(monomial, 0) + coefficient)
            if found:
                total[monomial] = found
            else:
                total.pop(monomial, None)
    if len(total) > MAX_TERMS:
        raise TooLarge("too many terms")
    return total


def times(first: Monomial, second: Monomial) -> tuple[Monomial, Number]:
    """The product of two monomials, and the rational number that comes out of it (√2 · √6 = 2 · √3)."""
    if not first or not second:
        return first or second, 1
    powers = dict(first)
    for atom, exponent in second:
        powers[atom] = powers.get(atom, 0) + exponent
    return reduced(powers)


def reduced(powers: dict[Atom, Number]) -> tuple[Monomial, Number]:
    """The monomial of any exponents: whole powers of primes and of i leave it as a number."""
    factor: Number = 1
    for atom, exponent in list(powers.items()):
        if atom == IMAGINARY:
            exponent %= 4
            factor, exponent = (-factor, exponent - 2) if exponent >= 2 else (factor, exponent)
        elif isinstance(atom, int) and not 0 <= exponent < 1:
            whole = floor(exponent)
            if abs(whole) * atom.bit_length() > MAX_BITS:
                raise TooLarge("too large a power")
            factor, exponent = factor * Fraction(atom) ** whole, exponent - whole
        if exponent:
            powers[atom] = exponent
        else:
            del powers[atom]
    return frozenset(powers.items()), factor


def monomial_power(monomial: Monomial, exponent: Number) -> tuple[Monomial, Number]:
    return reduced({atom: power * exponent for atom, power in monomial})


def atoms(polynomial: Polynomial) -> set[Atom]:
    return {atom for monomial in polynomial for atom, _ in monomial}
