"""How much a text may ask of the reader.

All limits count characters, digits, terms or bits, never time, so that a text has the same verdict on any machine
and in any thread.
"""

MAX_LENGTH = 2_000
"""Characters of one answer (the text around it has no limit)."""
MAX_DEPTH = 20
"""Brackets, exponents and arguments inside each other: recursion stays far from the interpreter's own limit."""
MAX_BRACES = 100
"""Inside each other in a box; what has more is not read."""
MAX_DIGITS = 500
MAX_EXPONENT = 300
"""Of `1e300`."""
MAX_BITS = 16_384
"""Of any whole number on the way: 2^{2020} and 2000! / 1998! are read, 9^{9^9} is not."""
MAX_FACTORIAL = 1_000
MAX_TERMS = 300
"""Of a polynomial."""
MAX_EXPANDED = 40
"""Terms of a power that is multiplied out; larger ones stay as they are written and are compared by value."""
MAX_ITEMS = 200
"""Members of a set or cells of a matrix."""
FUEL = 6_000
"""Steps of arithmetic for one answer or one comparison."""


class Unreadable(Exception):
    """The text is none of the grammar."""


class TooLarge(Unreadable):
    """The text asks for more than the limits allow."""


class Fuel:
    """What is left of the steps; spending more raises TooLarge."""

    __slots__ = ("left",)

    def __init__(self, steps: int = FUEL) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooLarge("too many steps")


def whole_number(digits: str) -> int:
    """The number of a run of ASCII digits."""
    if len(digits) > MAX_DIGITS:
        raise TooLarge("too many digits")
    return int(digits)
