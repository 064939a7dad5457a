"""What answers are, once read."""

from fractions import Fraction
from typing import NamedTuple, TypeAlias

from ropewalk.tasks.scoring.maths.exact import Value
from ropewalk.tasks.scoring.maths.units import Unit


class Scalar(NamedTuple):
    """One value, exact."""

    value: Value
    unit: Unit | None = None
    percent: bool = False
    """Written with a percent sign; `value` is the number before it."""
    step: Fraction | None = None
    """The last place of a number written as a decimal; None: not written as one."""
    digits: int = 0
    """Significant digits of that decimal."""
    loose: "Scalar | None" = None
    """The reading of `5m` as a length."""


class Text(NamedTuple):
    """Words in their normal form."""

    words: str


class Option(NamedTuple):
    """A choice such as (B), with what stands behind it."""

    letter: str
    rest: "Answer | None" = None


class Group(NamedTuple):
    """Several answers. `kind`: `list` (no brackets), `set`, its brackets, or `all` and `tuple`, which the data say."""

    kind: str
    members: "tuple[Answer, ...]"


class Piece(NamedTuple):
    """An interval; None is infinite."""

    low: Value | None
    high: Value | None
    low_closed: bool
    high_closed: bool


class Region(NamedTuple):
    """A set of real numbers: disjoint intervals in order."""

    pieces: tuple[Piece, ...]


class Grid(NamedTuple):
    """A matrix."""

    rows: tuple[tuple[Value, ...], ...]


class Named(NamedTuple):
    """The value of a variable: `x = 5`, `x ∈ {1, 2}`, `x > 3`."""

    name: str
    answer: "Answer"


class Comparison(NamedTuple):
    """`value` is 0 (`=`), is not (`!=`), or is below it (`<`, `<=`)."""

    sign: str
    value: Value


class Proportion(NamedTuple):
    """A ratio such as 3 : 4; a `clock` is not reduced, as it may be a time."""

    members: tuple[Value, ...]
    clock: bool
    half: str = ""
    """`am` or `pm`."""


Answer: TypeAlias = Scalar | Text | Option | Group | Region | Grid | Named | Comparison | Proportion
