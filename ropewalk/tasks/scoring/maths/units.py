"""Units as powers of a few dimensions with an exact factor: 36 km/h is 10 m/s. What is no unit is a label."""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from ropewalk.tasks.scoring.maths.limits import Unreadable
from ropewalk.tasks.scoring.maths.tree import FUNCTIONS


class Unit(NamedTuple):
    """`factor` times the product of base dimensions with their powers, in alphabetical order."""

    factor: Fraction
    powers: tuple[tuple[str, int], ...]
    label: tuple[str, ...] = ()
    """Words that are no unit ("apples"): what is counted, not how much."""


_DIMENSIONS: dict[str, dict[str, str]] = {
    "metre": {
        "1": "m metre metres meter meters 米",
        "1/1000": "mm millimetre millimetres millimeter millimeters 毫米",
        "1/100": "cm centimetre centimetres centimeter centimeters 厘米",
        "1/10": "dm decimetre decimetres decimeter decimeters 分米",
        "1000": "km kilometre kilometres kilometer kilometers 千米 公里",
        "127/5000": "in inch inches",
        "381/1250": "ft foot feet",
        "1143/1250": "yd yard yards",
        "201168/125": "mi mile miles",
    },
    "gram": {
        "1": "g gram grams 克",
        "1/1000": "mg milligram milligrams",
        "1000": "kg kilogram kilograms kilo kilos 千克 公斤",
        "1000000": "t tonne tonnes 吨",
        "45359237/100000": "lb lbs pound pounds",
        "45359237/1600000": "oz ounce ounces",
    },
    "second": {
        "1": "s sec secs second seconds 秒",
        "1/1000": "ms millisecond milliseconds",
        "60": "min mins minute minutes 分钟",
        "3600": "h hr hrs hour hours 小时",
        "86400": "day days 天",
        "604800": "week weeks",
    },
    "month": {"1": "month months", "12": "year years yr yrs"},
    "degree": {"1": "° degree degrees deg 度"},
    "celsius": {"1": "°C celsius"},
    "fahrenheit": {"1": "°F fahrenheit"},
    "dollar": {"1": "$ dollar dollars USD usd", "1/100": "¢ cent cents"},
    "euro": {"1": "€ euro euros EUR"},
    "sterling": {"1": "£ GBP", "1/100": "pence"},
    "yuan": {"1": "元 CNY RMB yuan"},
    "yen": {"1": "¥ yen JPY"},
    "rupee": {"1": "rupee rupees Rs INR"},
    "volt": {"1": "V volt volts"},
    "watt": {"1": "W watt watts", "1000": "kW"},
    "joule": {"1": "J joule joules", "1000": "kJ"},
    "newton": {"1": "N newton newtons"},
    "hertz": {"1": "Hz hertz"},
    "mole": {"1": "mol mole moles"},
}
_UNITS: dict[str, Unit] = {
    word: Unit(Fraction(factor), ((dimension, 1),))
    for dimension, sizes in _DIMENSIONS.items()
    for factor, words in sizes.items()
    for word in words.split()
}
_LITRE = (("metre", 3),)
_UNITS |= dict.fromkeys(["L", "l", "litre", "litres", "liter", "liters", "升"], Unit(Fraction(1, 1000), _LITRE))
_UNITS |= dict.fromkeys(
    ["mL", "ml", "millilitre", "millilitres", "milliliter", "milliliters", "毫升"], Unit(Fraction(1, 10**6), _LITRE)
)
_UNITS |= {"mph": Unit(Fraction(1397, 3125), (("metre", 1), ("second", -1)))}
_UNITS |= dict.fromkeys(("kph", "kmh"), Unit(Fraction(5, 18), (("metre", 1), ("second", -1))))

LETTERS = frozenset("mgshlLt")
"""Units that could be variables: `5 m` is a length, `5m` a product."""
CURRENCIES = frozenset("$£€¥¢")
WORDS = frozenset(word for word in _UNITS if len(word) > 1) | {
    "am",
    "pm",
    "元",
    "米",
    "克",
    "秒",
    "天",
    "升",
    "吨",
    "度",
}
"""Units that are never products of variables."""

_PIECE = re.compile(r"[^\W\d_]+|°[CF]?|[0-9]+|[-/^$£€¥¢]|\S")
_CHANGES_VALUE = (
    "or and to not than less more under over divided times plus minus point half thirds quarters quarter third if "
    "equals is are approximately between either neither at most least halves fourth fourths fifth fifths sixth sixths "
    "seventh sevenths eighth eighths ninth ninths tenth tenths twelfth twelfths hundredth hundredths thousandth "
    "thousandths millionth millionths squared cubed factorial root roots mod modulo infinity infinite inf negative "
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred tens hundreds thousand thousands "
    "million millions billion billions trillion trillions dozens mille permille ppm basis maybe perhaps possibly "
    "probably wrong incorrect false unless else otherwise through until etc"
)
_NOT_A_LABEL = FUNCTIONS | frozenset(_CHANGES_VALUE.split())
_MAX_PIECES = 16


def pieces(text: str) -> list[str]:
    """Words and signs of the inside of a `\\text{}`."""
    return _PIECE.findall(text)


def unit_of(parts: Sequence[str]) -> Unit:
    """The unit that words and signs give. Raises Unreadable if they may change the value ("5 or so")."""
    if len(parts) > _MAX_PIECES:
        raise Unreadable("a long label")
    if any(part.lower() in _NOT_A_LABEL for part in parts):
        raise Unreadable("words that change the value")
    try:
        return _product(iter(parts))
    except KeyError:
        pass
    if all(part[0].isalpha() or part in ("-", "/", ".", "$") for part in parts):
        return Unit(Fraction(1), (), tuple(_singular(part.lower()) for part in parts if part[0].isalpha()))
    raise Unreadable("neither unit nor label")


def is_unit(text: str) -> bool:
    """Whether all of a text is a unit such as `m/s^2`."""
    try:
        return len(text) < 40 and bool(unit_of(pieces(text)).powers)
    except Unreadable:
        return False


def times(first: Unit, second: Unit) -> Unit:
    """The product of two units."""
    powers = dict(first.powers)
    for base, power in second.powers:
        powers[base] = powers.get(base, 0) + power
    kept = tuple(sorted((base, power) for base, power in powers.items() if power))
    return Unit(first.factor * second.factor, kept, first.label + second.label)


def _product(parts: Iterator[str]) -> Unit:
    """`km / h`, `cm ^ 2`, `square metres`, `miles per hour`; KeyError at a word that is no unit."""
    total = Unit(Fraction(1), ())
    turned, power, previous = 1, 1, ""
    for part in parts:
        if part in ("/", "per"):
            turned = -1
        elif part == "^":
            exponent = next(parts, "")
            if previous not in _UNITS or exponent not in ("2", "3"):
                raise KeyError(exponent)
            # One factor of the unit is there already.
            total = times(total, _raised(_UNITS[previous], turned * (int(exponent) - 1)))
        elif part in ("square", "sq", "cubic", "cu"):
            power = 2 if part in ("square", "sq") else 3
        else:
            total = times(total, _raised(_UNITS[part], turned * power))
            power, previous = 1, part
    return total


def _raised(unit: Unit, power: int) -> Unit:
    return Unit(unit.factor**power, tuple((base, exponent * power) for base, exponent in unit.powers))


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") else word
