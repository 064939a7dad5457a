"""What a profile says about one call, and a note of how far each reading was from a measurement."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ropewalk.plan.profile import Grid, Measured, ProfileTable, fingerprint
from ropewalk.planner.estimate.place import Place
from ropewalk.planner.estimate.work import CallWork, Strategy

Grids: TypeAlias = Mapping[Measured, Grid]
NOTHING: Grids = {}
NEEDED: Mapping[str, tuple[Measured, ...]] = {
    "generate": ("generate", "forward"), "forward": ("forward",), "train": ("train",)
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Readings:
    """Reads grids and keeps the bases of what was read: `estimated` where there is no grid."""

    grids: Grids
    bases: set[str] = field(default_factory=set)

    def seconds(self, kind: Measured, tokens: float, context: float) -> float | None:
        """Of the whole model; None where it was not measured."""
        grid = self.grids.get(kind)
        if grid is None:
            self.bases.add("estimated")
            return None
        reading = grid.at(tokens, context)
        self.bases.add(reading.basis)
        return reading.seconds


def grids(profile: ProfileTable | None, work: CallWork, strategy: Strategy, place: Place) -> Grids:
    """Those that hold for a call. A profile knows no experts over several ranks; and in training neither adapters nor
    passes without recomputation."""
    if profile is None or strategy.ep > 1:
        return NOTHING
    if work.kind == "train" and (work.lora_rank is not None or not strategy.recompute):
        return NOTHING
    name = fingerprint(work.shape, place.gpu.name, work.workload.dtype)
    found = {kind: profile.grid(name, kind, strategy.tp) for kind in NEEDED.get(work.kind, ())}
    return {kind: grid for kind, grid in found.items() if grid is not None}
