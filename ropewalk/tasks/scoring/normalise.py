"""What is done to raw scores before they are weighted, and the statistics it takes.

normalised = clip((raw - shift) / spread), shift and spread by component and, for z-scores, by domain. Pure:
statistics come in and go out as JSON-able data; a batch is taken in before its own rows are normalised. What holds:

* statistics do not depend on the order of a batch's rows (sums are exact, then rounded once), and taking in two
  batches gives those of both together, up to rounding;
* a domain with one score, or with equal ones (up to 1e-8 of their size), gives 0, never a division by it;
* within a domain a z-score is an increasing affine map, up to the clip: dividing by a group's spread undoes it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias

from ropewalk.records.errors import InputError
from ropewalk.tasks.scoring.config import InitialMean, Raw, ZScore

Kind: TypeAlias = Raw | InitialMean | ZScore
Entry: TypeAlias = Mapping[str, Any]
"""Of a component: `sum` and `count` for an initial mean; {domain: {count, mean, squares}} for a running z-score."""
ByDomain: TypeAlias = Mapping[str, Sequence[float]]

_EQUAL = 1e-8
"""A spread below this share of the mean is rounding."""


class Scale(NamedTuple):
    """normalised = clip((raw - shift) / spread); a spread of 0 gives 0."""

    shift: float = 0.0
    spread: float = 1.0
    clip: float | None = None

    def of(self, raw: float) -> float:
        """The normalised score."""
        value = (raw - self.shift) / self.spread if self.spread else 0.0
        return value if self.clip is None else min(max(value, -self.clip), self.clip)

    def cuts(self, raw: float) -> bool:
        """Whether the clip changes this score."""
        return self.clip is not None and abs(self._replace(clip=None).of(raw)) > self.clip


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, mean and sum of squared distances from it."""

    count: float = 0.0
    mean: float = 0.0
    squares: float = 0.0

    @staticmethod
    def of(values: Sequence[float]) -> "Moments":
        """Of these values, in any order."""
        if not values:
            return Moments()
        mean = math.fsum(values) / len(values)
        return Moments(float(len(values)), mean, math.fsum((v - mean) * (v - mean) for v in values))

    def with_(self, other: "Moments") -> "Moments":
        """Of both together (Chan, Golub & LeVeque 1983)."""
        if not self.count or not other.count:
            return self if self.count else other
        count, apart = self.count + other.count, other.mean - self.mean
        mean = self.mean + apart * other.count / count
        return Moments(count, mean, self.squares + other.squares + apart * apart * self.count * other.count / count)

    @property
    def spread(self) -> float:
        """The sample standard deviation (n - 1), 0 where there is none."""
        if self.count < 2:
            return 0.0
        found = math.sqrt(self.squares / (self.count - 1))
        return found if found > _EQUAL * abs(self.mean) else 0.0


def taken_in(kind: Kind, entry: Entry | None, scores: ByDomain) -> dict[str, Any] | None:
    """The component's statistics after these scores; None where it keeps none."""
    if isinstance(kind, InitialMean):
        before = dict(entry) if entry and isinstance(entry.get("sum"), int | float) else {"sum": 0.0, "count": 0.0}
        if before["count"] < kind.samples:
            values = [value for domain in scores.values() for value in domain]
            before["sum"] += math.fsum(values)
            before["count"] += len(values)
        return before
    if isinstance(kind, ZScore) and kind.estimate == "running":
        known = _moments_of(entry)
        found = {domain: known.get(domain, Moments()).with_(Moments.of(v)) for domain, v in scores.items()}
        return {domain: asdict(moments) for domain, moments in {**known, **found}.items()}
    return None


def scales(kind: Kind, entry: Entry | None, scores: ByDomain) -> dict[str, Scale]:
    """The scale of each domain of these scores, by statistics that have already taken them in."""
    if isinstance(kind, Raw):
        return dict.fromkeys(scores, Scale(clip=kind.clip))
    if isinstance(kind, InitialMean):
        mean = entry["sum"] / entry["count"] if entry and entry["count"] else 0.0
        return dict.fromkeys(scores, Scale(_finite(mean), clip=kind.clip))
    running = kind.estimate == "running"
    moments = _moments_of(entry) if running else {domain: Moments.of(v) for domain, v in scores.items()}
    return {
        domain: Scale(_finite(moments[domain].mean), _finite(moments[domain].spread), kind.clip) for domain in scores
    }


def _moments_of(entry: Entry | None) -> dict[str, Moments]:
    return {domain: Moments(**m) for domain, m in (entry or {}).items() if isinstance(m, Mapping)}


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise InputError("scores are too large for a mean and a spread: let the scorer return smaller numbers")
    return value
