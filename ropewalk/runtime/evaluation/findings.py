"""What an evaluation found: measures with 95 % intervals, as data for the run folder and as lines to read.

Every measure of a set is taken over prompts (or rows, or pairs) that are the same before and after.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ropewalk.data.intervals import Estimate
from ropewalk.records.prompt import Json


@dataclass(frozen=True, slots=True)
class Measure:
    """One number before and after."""

    name: str
    after: Estimate
    before: Estimate | None = None
    """None where there is nothing to compare with."""
    difference: Estimate | None = None
    """After − before, paired."""
    higher_is_better: bool = True

    @property
    def fell(self) -> bool:
        """Whether it got worse beyond its interval: the paired difference lies wholly on the bad side of 0."""
        if self.difference is None:
            return False
        return self.difference.high < 0 if self.higher_is_better else self.difference.low > 0

    @property
    def rose(self) -> bool:
        """Whether it got better beyond its interval."""
        if self.difference is None:
            return False
        return self.difference.low > 0 if self.higher_is_better else self.difference.high < 0

    def to_json(self) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for side, estimate in (("before", self.before), ("after", self.after), ("difference", self.difference)):
            if estimate is not None:
                found[side] = _finite(estimate.value)
                found[f"{side} 95 %"] = [_finite(estimate.low), _finite(estimate.high)]
        return {**found, "n": self.after.count}


@dataclass(frozen=True, slots=True)
class SetFinding:
    """What was found on one named set."""

    name: str
    measures: Sequence[Measure]
    """The first one decides whether the set fell."""
    about: Mapping[str, Json] = field(default_factory=dict)
    """How much was measured, and what was left out."""

    @property
    def fell(self) -> bool:
        return self.measures[0].fell

    def __getitem__(self, name: str) -> Measure:
        """A measure by its name."""
        return {measure.name: measure for measure in self.measures}[name]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An evaluation of a run. Printing it gives a table."""

    run: str
    before: str | None
    """The model compared with; None: there is none."""
    after: str
    sets: Sequence[SetFinding]
    judge: str | None = None
    """The reward model that judged the win rate."""

    @property
    def fell(self) -> list[str]:
        """Names of the sets that fell beyond their interval."""
        return [found.name for found in self.sets if found.fell]

    def __getitem__(self, name: str) -> SetFinding:
        """A set's findings by its name."""
        return {found.name: found for found in self.sets}[name]

    def to_json(self) -> dict[str, Json]:
        """What stands in `eval.json`: plain facts, one record a set in `about`, one a measure in `sets`."""
        return {
            "run": self.run,
            "before": self.before,
            "after": self.after,
            **({"judge": self.judge} if self.judge is not None else {}),
            "fell beyond its interval": ", ".join(self.fell) or "none",
            "about": {found.name: {**found.about, "holds": not found.fell} for found in self.sets},
            "sets": {found.name: {m.name: m.to_json() for m in found.measures} for found in self.sets},
        }

    def lines(self) -> list[str]:
        """The evaluation as text: a table a set, and a last line for every set that fell."""
        lines = [f"after   {self.after}", f"before  {self.before or 'nothing to compare with'}"]
        if self.judge is not None:
            lines.append(f"judge   {self.judge}")
        for found in self.sets:
            facts = ", ".join(f"{value} {name}" for name, value in found.about.items())
            lines += ["", f"{found.name} ({facts})" if facts else found.name, *_aligned(rows(found))]
        lines += [f"{name} fell beyond its interval" for name in self.fell]
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())


COLUMNS = ("", "before", "after", "difference", "")
"""Titles of the columns of `rows`."""


def rows(found: SetFinding) -> list[tuple[str, str, str, str, str]]:
    """A set's measures as cells: name, before, after, difference, and a word where it moved beyond its interval."""
    return [(m.name, _cell(m.before), _cell(m.after), _cell(m.difference, sign=True), _word(m)) for m in found.measures]


def _word(measure: Measure) -> str:
    return "worse" if measure.fell else "better" if measure.rose else ""


def _cell(estimate: Estimate | None, *, sign: bool = False) -> str:
    if estimate is None or math.isnan(estimate.value):
        return "–"
    shown = f"{estimate.value:+.3f}" if sign else f"{estimate.value:.3f}"
    return f"{shown} [{estimate.low:.3f}, {estimate.high:.3f}]".replace("-", "−")


def _aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    table = [COLUMNS, *cells]
    widths = [max(len(row[column]) for row in table) for column in range(len(COLUMNS))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
    ]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
