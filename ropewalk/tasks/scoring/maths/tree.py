"""What the grammar makes of an answer. Sums, products and lists are flat: a tree is only as deep as its brackets."""

from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

_FUNCTION_NAMES = (
    "sin cos tan cot sec csc arcsin arccos arctan asin acos atan sinh cosh tanh ln log lg exp abs floor ceil"
)
FUNCTIONS = frozenset(_FUNCTION_NAMES.split())


class Num(NamedTuple):
    """A written number."""

    value: int | Fraction
    places: int | None = None
    """Digits after the point of a decimal, less its exponent; None: not written as a decimal."""
    digits: int = 0
    """Significant digits of a decimal."""


class Name(NamedTuple):
    """A variable with its subscript, or a constant: π, e, i."""

    text: str


class Infinity(NamedTuple):
    """Without sign: the positive one."""


class Sum(NamedTuple):
    """Terms with their signs: `+`, `-`, `±` or `∓`."""

    terms: "tuple[tuple[str, Node], ...]"


class Product(NamedTuple):
    """Factors, each multiplied (`*`) or divided by (`/`)."""

    factors: "tuple[tuple[str, Node], ...]"


class Power(NamedTuple):
    base: "Node"
    exponent: "Node"


class Call(NamedTuple):
    """A function of one or two arguments: `sqrt` has its index, `log` its base second; `!` is the factorial."""

    name: str
    arguments: "tuple[Node, ...]"


class Percent(NamedTuple):
    value: "Node"


class Measured(NamedTuple):
    """A value with what is counted, in words or signs: `("km", "/", "h")`."""

    value: "Node"
    unit: tuple[str, ...]


class Based(NamedTuple):
    """A numeral with its base: 101₂."""

    digits: str
    base: int


class Bracketed(NamedTuple):
    """Members in `(`, `[`, or `{`; the closing sign tells open from closed intervals."""

    opening: str
    closing: str
    members: "tuple[Node, ...]"


class Matrix(NamedTuple):
    rows: "tuple[tuple[Node, ...], ...]"


class Series(NamedTuple):
    """Members without brackets; `link` is `and`, `or` or `,`."""

    link: Literal["and", "or", ","]
    members: "tuple[Node, ...]"


class Relation(NamedTuple):
    """`sides` joined by `signs`: `=`, `≈`, `!=`, `<`, `>`, `<=`, `>=` or `∈`."""

    signs: tuple[str, ...]
    sides: "tuple[Node, ...]"


class Sets(NamedTuple):
    """Two or more sets joined by `∪` (or `∖`), from the left."""

    signs: tuple[str, ...]
    sides: "tuple[Node, ...]"


class Signed(NamedTuple):
    """An item with `±` in it: two values, one for each sign."""

    value: "Node"


class Ratio(NamedTuple):
    """A ratio such as 3 : 4."""

    members: "tuple[Node, ...]"
    clock: bool
    """It can also be a time of day."""
    half: str = ""
    """`am` or `pm`."""


class Reals(NamedTuple):
    """All real numbers."""


Node: TypeAlias = (
    Num
    | Name
    | Infinity
    | Sum
    | Product
    | Power
    | Call
    | Percent
    | Measured
    | Based
    | Bracketed
    | Matrix
    | Series
    | Relation
    | Sets
    | Signed
    | Ratio
    | Reals
)
