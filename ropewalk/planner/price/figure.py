"""A printed number is never bare: it is a range, and says whether it was measured, estimated or assumed."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ropewalk.records.errors import InputError

How: TypeAlias = Literal["measured", "estimated", "assumed"]


@dataclass(frozen=True, slots=True)
class Figure:
    """low <= high. What is computed from others is estimated, whatever these were."""

    low: float
    high: float
    how: How = "estimated"

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise InputError(f"a range runs from low to high, got {self.low:g} to {self.high:g}: swap them")

    @staticmethod
    def of(value: float, how: How = "estimated") -> "Figure":
        return Figure(value, value, how)

    @staticmethod
    def between(a: float, b: float, how: How = "estimated") -> "Figure":
        return Figure(min(a, b), max(a, b), how)

    def times(self, factor: float) -> "Figure":
        """For a factor >= 0."""
        return Figure(self.low * factor, self.high * factor)

    def __add__(self, other: "Figure") -> "Figure":
        return Figure(self.low + other.low, self.high + other.high)


def share(figure: Figure, what: str) -> Figure:
    """The figure, checked to be a share: above 0 and at most 1."""
    if not 0 < figure.low <= figure.high <= 1:
        raise InputError(
            f"{what} lies above 0 and is at most 1, got {figure.low:g} to {figure.high:g}: write 0.30-0.45 or 30%-45%"
        )
    return figure


def positive(value: float, what: str) -> float:
    """The value, checked to be above 0 and finite."""
    if not 0 < value < float("inf"):
        raise InputError(f"{what} must be above 0, got {value:g}: say how many")
    return value
