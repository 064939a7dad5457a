"""What the data say of their answers: where they stand, whether order counts, what units and percent signs mean."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias, cast, get_args

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json

Place: TypeAlias = Literal["hash", "boxed", "answer_is", "number", "formula", "last_line", "whole"]
"""`hash`: the line of the last `####`; `boxed`: the last `\\boxed{}`; `answer_is`: the line after the last "answer is"
(or "answer:", or the same in Chinese); `number`: the last number; `formula`: the last `$..$`, `\\(..\\)` or
`\\[..\\]`; `last_line`: the last line that is not empty; `whole`: all of the text."""

Order: TypeAlias = Literal["as_written", "kept", "ignored"]
"""`as_written`: `(1, 2)` has an order, `{1, 2}` and a bare `1, 2` have none; `kept`: all have; `ignored`: none has."""

Units: TypeAlias = Literal["ignore", "agree", "require"]
"""`agree`: two units must be the same quantity (5 cm = 0.05 m), a missing one is no fault; `require`: it is one."""

Percent: TypeAlias = Literal["either", "hundredth", "number"]
"""50 % is 1/2 (`hundredth`), is 50 (`number`), or may stand for one of them (`either`)."""

Digits: TypeAlias = Literal["english", "european"]
"""`1,234.5`, or `1 234,5` and `1.234,5`."""

PLACES: tuple[Place, ...] = ("hash", "boxed", "answer_is", "number")


@dataclass(frozen=True, slots=True)
class Exact:
    """0.333 is not 1/3."""


@dataclass(frozen=True, slots=True)
class Written:
    """A decimal stands for what rounds to it, if it has enough significant digits: 0.333 is 1/3, 0.33 is not."""

    digits: int = 3


@dataclass(frozen=True, slots=True)
class Within:
    """|a - b| <= max(absolute, relative · max(|a|, |b|)), if a side is written as a decimal."""

    relative: Fraction = Fraction(0)
    absolute: Fraction = Fraction(0)


Tolerance: TypeAlias = Exact | Written | Within


@dataclass(frozen=True, slots=True)
class Policy:
    """How answers of one data set are read and compared."""

    places: tuple[Place, ...] = PLACES
    """The first of these that occurs decides, even if what stands there cannot be read."""
    order: Order = "as_written"
    units: Units = "agree"
    percent: Percent = "either"
    digits: Digits = "english"
    tolerance: Tolerance = Written()
    """Only where a side is written as a decimal; all else is exact."""


GSM8K = Policy(units="ignore", percent="number", tolerance=Exact())
"""One number, whatever is counted."""

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "order": get_args(Order),
    "units": get_args(Units),
    "percent": get_args(Percent),
    "digits": get_args(Digits),
}


def with_row(policy: Policy, row: Json) -> Policy:
    """The policy with what one row of the data says otherwise, such as `{"order": "kept", "tolerance": {"digits": 4}}`.

    Raises InputError for a word it does not know.
    """
    if row is None:
        return policy
    if not isinstance(row, dict):
        raise InputError(f"the maths policy of a row is {str(row)[:80]!r}: give a table such as {{order = 'kept'}}")
    for key, value in row.items():
        policy = _with(policy, key, value)
    return policy


def _with(policy: Policy, key: str, value: Json) -> Policy:
    if key == "tolerance":
        return replace(policy, tolerance=tolerance_of(value))
    if key == "places" and isinstance(value, list) and value and all(place in get_args(Place) for place in value):
        return replace(policy, places=cast(tuple[Place, ...], tuple(value)))
    if key in _CHOICES and value in _CHOICES[key]:
        changed: dict[str, Any] = {key: value}
        return replace(policy, **changed)
    known = _CHOICES.get(key, get_args(Place) if key == "places" else ("places", "tolerance", *_CHOICES))
    raise InputError(f"the maths policy knows no {key} = {str(value)[:80]!r}: there are {', '.join(known)}")


def tolerance_of(value: Json) -> Tolerance:
    """`"exact"`, `"written"`, `{"digits": 4}`, `{"relative": 0.01}` or `{"absolute": 0.005}`."""
    if value == "exact":
        return Exact()
    if value == "written":
        return Written()
    if isinstance(value, dict) and len(value) == 1:
        (key, number), *_ = value.items()
        if isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < 1e9:
            if key == "digits" and isinstance(number, int):
                return Written(number)
            if key in ("relative", "absolute"):
                return Within(**{key: Fraction(str(number))})
    raise InputError(
        f"the tolerance {str(value)[:80]!r} is none: give 'exact', 'written', {{digits = 4}}, "
        "{relative = 0.01} or {absolute = 0.005}"
    )
