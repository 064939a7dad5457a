"""Exact values: rational numbers, and quotients of polynomials whose atoms may be functions of such values.

What is asked of a function's arguments again and again is remembered with it: an atom that occurs in many terms of
many levels would otherwise be walked through once for each path to it.
"""

import hashlib
from functools import cached_property
from typing import TypeAlias

from ropewalk.tasks.scoring.maths.polynomial import IMAGINARY, ONE, Atom, Number, Polynomial, atoms

INFINITE = "∞"
_CONSTANTS = frozenset(("π", "e", IMAGINARY, INFINITE))


class Quotient:
    """over / under, two polynomials; `under` is 1 or has several terms, as single ones are divided out."""

    __slots__ = ("_key", "over", "under")

    def __init__(self, over: Polynomial, under: Polynomial | None = None) -> None:
        self.over = over
        self.under = under or {ONE: 1}
        self._key: tuple[frozenset[object], frozenset[object]] | None = None

    @property
    def key(self) -> tuple[frozenset[object], frozenset[object]]:
        """Equal for values of the same form."""
        if self._key is None:
            self._key = frozenset(self.over.items()), frozenset(self.under.items())
        return self._key


Value: TypeAlias = Number | Quotient


class Applied:
    """A function of values without a simpler exact form: sin 1, 2^x, |x|. Equal if name and arguments are."""

    def __init__(self, name: str, arguments: tuple[Value, ...]) -> None:
        self.name = name
        self.arguments = arguments
        self.key = (name, *(value.key if isinstance(value, Quotient) else value for value in arguments))
        self._hash = hash(self.key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Applied) and self._hash == other._hash and self.key == other.key)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset().union(*map(names, self.arguments))

    @cached_property
    def functions(self) -> frozenset[str]:
        return frozenset((self.name,)).union(*map(functions, self.arguments))

    @cached_property
    def height(self) -> int:
        return max(map(height, self.arguments))

    @cached_property
    def digest(self) -> str:
        inside = " ".join((self.name, *map(digest, self.arguments)))
        return hashlib.blake2b(inside.encode(), digest_size=16).hexdigest()


def names(value: Value) -> frozenset[str]:
    """Variables of a value, those inside functions too; π, e and i are none."""
    found: set[str] = set()
    for atom in _atoms(value):
        if isinstance(atom, Applied):
            found |= atom.names
        elif isinstance(atom, str):
            found.add(atom)
    return frozenset(found) - _CONSTANTS


def functions(value: Value) -> frozenset[str]:
    """Names of the functions that are atoms of a value, at any depth."""
    return frozenset().union(*(atom.functions for atom in _atoms(value) if isinstance(atom, Applied)))


def height(value: Value) -> int:
    """About how many decimal digits the largest number in a value has, functions included."""
    if not isinstance(value, Quotient):
        return (value.numerator.bit_length() + value.denominator.bit_length()) * 3 // 10
    numbers = max(map(height, (*value.over.values(), *value.under.values())), default=0)
    return numbers + max((atom.height for atom in _atoms(value) if isinstance(atom, Applied)), default=0)


def digest(value: Value) -> str:
    """A text that is the same for values of the same form, in every process."""
    if not isinstance(value, Quotient):
        return f"{value.numerator:x}/{value.denominator:x}"
    return "/".join(map(_polynomial_digest, (value.over, value.under)))


def _polynomial_digest(part: Polynomial) -> str:
    terms = []
    for monomial, coefficient in part.items():
        powers = sorted(f"{_atom_digest(atom)}^{digest(exponent)}" for atom, exponent in monomial)
        terms.append("*".join((digest(coefficient), *powers)))
    return "+".join(sorted(terms))


def _atom_digest(atom: Atom) -> str:
    return atom.digest if isinstance(atom, Applied) else str(atom)


def _atoms(value: Value) -> set[Atom]:
    return atoms(value.over) | atoms(value.under) if isinstance(value, Quotient) else set()
