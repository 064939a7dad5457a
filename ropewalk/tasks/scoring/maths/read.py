"""From a text to the answer it gives. What always holds: it is read whole or not at all, and nothing of it is run."""

import re
from fractions import Fraction
from functools import lru_cache

from ropewalk.tasks.scoring.maths.build import build
from ropewalk.tasks.scoring.maths.grammar import parse
from ropewalk.tasks.scoring.maths.limits import MAX_LENGTH, Fuel, TooLarge, Unreadable
from ropewalk.tasks.scoring.maths.plain import plain
from ropewalk.tasks.scoring.maths.policy import Digits
from ropewalk.tasks.scoring.maths.regions import REALS
from ropewalk.tasks.scoring.maths.tokens import tokens
from ropewalk.tasks.scoring.maths.units import Unit
from ropewalk.tasks.scoring.maths.values import Answer, Scalar, Text
from ropewalk.tasks.scoring.maths.words import after_words, choice, wording

_SIMPLE = re.compile(
    r"(-)?(\\?\$)?(-)?([0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,60})(?:\.([0-9]{1,60}))?(?:/([0-9]{1,60}))?(\\?%)?\.?", re.ASCII
)
_FRACTION = re.compile(r"(-)?\\[dt]?frac\{(-)?([0-9]{1,60})\}\{([0-9]{1,60})\}", re.ASCII)
_DOLLARS = Unit(Fraction(1), (("dollar", 1),))


def read(text: str, digits: Digits = "english") -> Answer:
    """The answer of a text that is an answer and nothing else. Raises Unreadable."""
    text = text.strip()
    if digits == "english":
        if simple := _SIMPLE.fullmatch(text):
            return _simple(simple)
        if (fraction := _FRACTION.fullmatch(text)) and int(fraction[4]):
            value = Fraction(int(fraction[3]), int(fraction[4]))
            return Scalar(-value if (fraction[1] is None) != (fraction[2] is None) else value)
    return read_slowly(text, digits)


def read_slowly(text: str, digits: Digits, *, again: bool = True) -> Answer:
    """The same by the grammar, also for the plain numbers that `read` knows at sight."""
    if len(text) > MAX_LENGTH:
        raise TooLarge("too long")
    if found := choice(text):
        option, rest = found
        return option._replace(rest=_or_none(rest, digits))
    try:
        tree = parse(tokens(plain(text), digits))
    except TooLarge:
        raise
    except Unreadable:
        worded = wording(text)
        rest = after_words(text) if again else text
        if rest != text and (worded is None or isinstance(worded, Text)):
            found_behind = _or_none(rest, digits)
            if found_behind is not None and not isinstance(found_behind, Text):
                return found_behind
        if worded is None:
            raise
        return REALS if worded == Text("all real numbers") else worded
    return build(tree, Fuel())


def _or_none(text: str, digits: Digits) -> Answer | None:
    try:
        return read_slowly(text, digits, again=False) if text else None
    except Unreadable:
        return None


def _simple(match: re.Match[str]) -> Scalar:
    """A plain number, the most frequent answer by far."""
    minus, dollar, inner_minus, whole, part, under, percent = match.groups()
    whole = whole.replace(",", "") if "," in whole else whole
    if (minus and inner_minus) or (under and not int(under)):
        raise Unreadable("no number")
    value: int | Fraction = int(whole)
    step, significant = None, 0
    if part:
        value = Fraction(int(whole + part), 10 ** len(part))
        step, significant = Fraction(1, 10 ** len(part)), len((whole + part).lstrip("0"))
    if under:
        value, step, significant = Fraction(value) / int(under), None, 0
    return Scalar(
        -value if minus or inner_minus else value, _DOLLARS if dollar else None, bool(percent), step, significant
    )


@lru_cache(maxsize=4096)
def read_again(text: str, digits: Digits = "english") -> Answer:
    """`read` for texts that come again and again, such as golds."""
    return read(text, digits)
