"""What a scorer says of a sample: a number, nothing, or why it could not say. The three never collapse."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ropewalk.records.errors import InputError

FailureReason: TypeAlias = Literal["wrong_format", "unparsable", "timeout", "crashed", "refused"]


@dataclass(frozen=True, slots=True)
class Score:
    """A finite number. Booleans and numpy scalars are taken as numbers; NaN and infinities are refused."""

    value: float

    def __post_init__(self) -> None:
        value = float(self.value)
        if not math.isfinite(value):
            raise InputError(f"a score must be a finite number, got {value}: return Abstain or Failed instead")
        object.__setattr__(self, "value", value)


@dataclass(frozen=True, slots=True)
class Abstain:
    """The scorer has no opinion on this sample; its siblings are not affected."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The scorer could not judge; counted by reason, and too many stop the run."""

    reason: FailureReason
    detail: str = ""


Outcome: TypeAlias = Score | Abstain | Failed
