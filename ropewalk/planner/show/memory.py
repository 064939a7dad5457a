"""The memory bill of a plan, device by device and item by item; and what calls need where no plan was found.

need of a GPU = Σ over the calls on it of what is held all the time + the largest of what one of them needs beside it
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.planner.case.describe import Case
from ropewalk.planner.estimate.calibration import calibration
from ropewalk.planner.estimate.footprint import footprint
from ropewalk.planner.estimate.place import place
from ropewalk.planner.estimate.work import Strategy, works
from ropewalk.planner.placed import Judged, PlacedCall
from ropewalk.planner.search.candidates import cuts
from ropewalk.planner.search.meshes import cells


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a device's bill."""

    call: str
    role: str
    what: str
    bytes: float
    always: bool
    """Held all the time; else while the call runs."""


@dataclass(frozen=True, slots=True)
class Device:
    """The bill of every GPU of a run of ranks, and what it may hold."""

    first_rank: int
    gpus: int
    items: tuple[Item, ...]
    """What is held all the time, then what the fullest moment needs beside it, largest first."""
    usable_bytes: float
    fullest: str
    """The call of the fullest moment."""

    @property
    def need_bytes(self) -> float:
        return sum(item.bytes for item in self.items)

    @property
    def ranks(self) -> str:
        return ranks_text(self.first_rank, self.gpus)

    @property
    def fits(self) -> bool:
        return self.need_bytes <= self.usable_bytes

    def by_role(self) -> dict[str, float]:
        """What fills it, largest first."""
        found: dict[str, float] = {}
        for item in self.items:
            key = f"{item.role} {item.what}"
            found[key] = found.get(key, 0.0) + item.bytes
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))


def devices(judged: Judged) -> tuple[Device, ...]:
    """The bills of a plan's GPUs, by the runs of ranks that hold the same."""
    return tuple(_device(judged, first, gpus, usable) for first, gpus, _, usable in judged.cell_bytes)


def call_items(placed: PlacedCall) -> tuple[Item, ...]:
    """What one call needs on each of its GPUs."""
    held = [Item(placed.work.name, placed.work.role, w, b, True) for w, b in placed.footprint.static.items()]
    used = [Item(placed.work.name, placed.work.role, w, b, False) for w, b in placed.footprint.active.items()]
    return tuple(sorted((item for item in held if item.bytes), key=lambda item: -item.bytes)) + tuple(
        sorted((item for item in used if item.bytes), key=lambda item: -item.bytes)
    )


def ranks_text(first: int, gpus: int) -> str:
    return f"rank {first}" if gpus == 1 else f"ranks {first}-{first + gpus - 1}"


@dataclass(frozen=True, slots=True)
class Need:
    """The least that a call needs on a GPU, over every way to run it."""

    call: str
    role: str
    bytes: float
    gpus: int
    strategy: Strategy
    items: tuple[Item, ...]
    usable_bytes: float
    """Of the GPUs of that mesh."""

    @property
    def fits(self) -> bool:
        return self.bytes <= self.usable_bytes


def needs(case: Case) -> tuple[Need, ...]:
    """By call the least need on any mesh under any cut of the space; a call without any cut is left out."""
    constants, pieces = calibration(case.calibration), cells(case.cluster, case.space)
    seen: dict[tuple[int, int, float], tuple[int, int]] = {}
    for mesh in pieces.meshes:
        where = place(case.cluster, mesh.first_rank, mesh.gpus)
        memory = min(pieces.memory_bytes[mesh.first_cell : mesh.first_cell + mesh.cells])
        seen.setdefault((where.gpus, where.gpus_per_node, memory), (mesh.first_rank, mesh.gpus))
    found = []
    for work in works(case.graph, case.shapes, case.workload):
        best: Need | None = None
        for (_, _, memory), (first, gpus) in seen.items():
            where = place(case.cluster, first, gpus)
            for strategy in (s for cut in cuts(work, where, case.space) for s in cut):
                need = footprint(work, strategy, constants)
                total = need.static_bytes + need.active_bytes
                if best is None or total < best.bytes:
                    items = [Item(work.name, work.role, w, b, True) for w, b in need.static.items()]
                    items += [Item(work.name, work.role, w, b, False) for w, b in need.active.items()]
                    usable = memory * constants.usable_share
                    best = Need(work.name, work.role, total, gpus, strategy, tuple(items), usable)
        if best is not None:
            found.append(best)
    return tuple(found)


def _device(judged: Judged, first: int, gpus: int, usable: float) -> Device:
    here = [placed for placed in judged.calls.values() if _covers(placed, first)]
    held = [item for placed in here for item in call_items(placed) if item.always]
    largest = max(here, key=lambda placed: placed.footprint.active_bytes, default=None)
    beside = [] if largest is None else [item for item in call_items(largest) if not item.always]
    items = (*_largest_first(held), *_largest_first(beside))
    return Device(first, gpus, items, usable, largest.work.name if largest else "")


def _covers(placed: PlacedCall, rank: int) -> bool:
    return rank in placed.placement.ranks


def _largest_first(items: Sequence[Item]) -> list[Item]:
    return sorted(items, key=lambda item: -item.bytes)
