"""Metrics as partial values that merge exactly: (sum, count), or a true extremum.

A mean of means cannot be expressed.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ropewalk.records.errors import InputError


@dataclass(frozen=True, slots=True)
class Metric:
    """A partial value. Merging over any split of the data gives the value of the whole."""

    kind: Literal["mean", "max", "min"]
    total: float
    """The sum for a mean, the extremum otherwise."""
    count: float = 1.0

    @staticmethod
    def mean(total: float, count: float) -> "Metric":
        return Metric("mean", float(total), float(count))

    @staticmethod
    def max(value: float) -> "Metric":
        return Metric("max", float(value))

    @staticmethod
    def min(value: float) -> "Metric":
        return Metric("min", float(value))

    @property
    def value(self) -> float:
        """The number to show; NaN for a mean over nothing."""
        if self.kind != "mean":
            return self.total
        return self.total / self.count if self.count else math.nan

    def merge(self, other: "Metric") -> "Metric":
        if self.kind != other.kind:
            raise InputError(f"metrics of kinds {self.kind} and {other.kind} cannot be merged: use one kind per name")
        if self.kind == "mean":
            return Metric("mean", self.total + other.total, self.count + other.count)
        pick = max if self.kind == "max" else min
        # Python's max keeps or drops a NaN by its place; an extremum over one is NaN wherever it stood.
        unknown = math.isnan(self.total) or math.isnan(other.total)
        return Metric(self.kind, math.nan if unknown else pick(self.total, other.total), self.count + other.count)


Metrics: TypeAlias = Mapping[str, Metric]


def merge(parts: Iterable[Metrics]) -> dict[str, Metric]:
    """Merge partial metrics name by name."""
    merged: dict[str, Metric] = {}
    for part in parts:
        for name, metric in part.items():
            merged[name] = merged[name].merge(metric) if name in merged else metric
    return merged
