"""The planning problem as arrays: for every call its candidates, for every move its prices, and what must not overlap.

Devices are grouped in cells, the smallest pieces a mesh can be made of: every mesh is a run of cells, held as a bit
mask. All that the kernels read is in `Tables`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ropewalk.planner.place import Place
from ropewalk.planner.search.schedule import Order, Schedule, round_lag
from ropewalk.planner.work import Strategy
from ropewalk.records.errors import InputError

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

MOST_CELLS = 62
"""A mesh is a mask in a signed 64-bit number."""
FAR = 1e30


@dataclass(frozen=True, slots=True)
class Mesh:
    """A run of cells."""

    first_cell: int
    cells: int
    first_rank: int
    gpus: int

    @property
    def mask(self) -> int:
        return ((1 << self.cells) - 1) << self.first_cell


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run one call."""

    mesh: int
    strategy: Strategy
    geometry: int
    """Number of its (mesh, dp, tp, pp, ep) among the call's own: what a move depends on."""
    seconds: float
    static_bytes: float
    active_bytes: float


class Tables(NamedTuple):
    """What the kernels read. Candidates of all calls lie one after another, ordered by call, mesh and seconds."""

    calls: int
    operations: int
    gpus: float
    cell_gpus: Ints
    cell_bytes: Floats
    """Usable bytes of each GPU of a cell."""
    mesh_mask: Ints
    mesh_first: Ints
    mesh_end: Ints
    mesh_gpus: Floats
    call_start: Ints
    """First candidate of each call, and the end."""
    mesh: Ints
    seconds: Floats
    static: Floats
    active: Floats
    geometry: Ints
    move_source: Ints
    move_target: Ints
    move_start: Ints
    move_width: Ints
    move_seconds: Floats
    sequential: Ints
    """By operation, the operations that can never overlap it: they lie on a common cycle of lag 1."""
    cycle_mask: Ints
    cycle_lag: Floats
    """Cycles of a longer lag: the sum of their times over the lag bounds the period."""


class OrderTables(NamedTuple):
    """Cyclic orders. `age` tells how many instances back the one lies that an operation waits for."""

    sequence: Ints
    before: Ints
    age: Ints
    share: Floats
    """Of the operation itself that may run before its predecessor has ended; 0 but for streaming."""
    count: Ints


@dataclass(frozen=True)
class Problem:
    """Candidates of every call over one cluster's meshes."""

    schedule: Schedule
    meshes: tuple[Mesh, ...]
    candidates: tuple[tuple[Candidate, ...], ...]
    move_seconds: tuple[Floats, ...]
    """By move: source geometry x target geometry."""
    cell_gpus: tuple[int, ...]
    cell_bytes: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.cell_gpus) > MOST_CELLS:
            raise InputError(f"{len(self.cell_gpus)} cells are too many (at most {MOST_CELLS}): take coarser meshes")
        for name, options in zip(self.schedule.names, self.candidates, strict=False):
            if not options:
                raise InputError(f"call {name!r} fits nowhere: see what would make it fit with `ropewalk plan --memory`")

    @cached_property
    def tables(self) -> Tables:
        return _tables(self)

    @cached_property
    def orders(self) -> OrderTables:
        return order_tables(self.schedule, self.schedule.orders)

    def offset(self, call: int) -> int:
        """Number of the call's first candidate."""
        return int(self.tables.call_start[call])

    def chosen(self, plan: Sequence[int]) -> tuple[Candidate, ...]:
        """The candidates of a plan given as their numbers."""
        return tuple(self.candidates[c][int(number) - self.offset(c)] for c, number in enumerate(plan))


def _tables(problem: Problem) -> Tables:
    flat = [candidate for options in problem.candidates for candidate in options]
    for options in problem.candidates:
        keys = [(c.mesh, c.seconds) for c in options]
        if keys != sorted(keys):
            raise ValueError("candidates must be ordered by mesh and seconds")
    sizes = [len(options) for options in problem.candidates]
    sequential, cycle_mask, cycle_lag = cycles(problem.schedule)
    moves = problem.schedule.moves
    return Tables(
        calls=problem.schedule.calls,
        operations=problem.schedule.operations,
        gpus=float(sum(problem.cell_gpus)),
        cell_gpus=np.array(problem.cell_gpus, dtype=np.int64),
        cell_bytes=np.array(problem.cell_bytes, dtype=np.float64),
        mesh_mask=np.array([m.mask for m in problem.meshes], dtype=np.int64),
        mesh_first=np.array([m.first_cell for m in problem.meshes], dtype=np.int64),
        mesh_end=np.array([m.first_cell + m.cells for m in problem.meshes], dtype=np.int64),
        mesh_gpus=np.array([m.gpus for m in problem.meshes], dtype=np.float64),
        call_start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        mesh=np.array([c.mesh for c in flat], dtype=np.int64),
        seconds=np.array([c.seconds for c in flat], dtype=np.float64),
        static=np.array([c.static_bytes for c in flat], dtype=np.float64),
        active=np.array([c.active_bytes for c in flat], dtype=np.float64),
        geometry=np.array([c.geometry for c in flat], dtype=np.int64),
        move_source=np.array([m.source for m in moves], dtype=np.int64),
        move_target=np.array([m.target for m in moves], dtype=np.int64),
        move_start=np.concatenate([[0], np.cumsum([t.size for t in problem.move_seconds])]).astype(np.int64),
        move_width=np.array([t.shape[1] for t in problem.move_seconds], dtype=np.int64),
        move_seconds=np.concatenate([np.zeros(0), *(t.ravel() for t in problem.move_seconds)]),
        sequential=sequential,
        cycle_mask=cycle_mask,
        cycle_lag=cycle_lag,
    )


def order_tables(schedule: Schedule, orders: Sequence[Order]) -> OrderTables:
    """Orders as arrays: by order and place in the sequence, the predecessors and their ages."""
    n = schedule.operations
    sequence = np.array([order.sequence for order in orders], dtype=np.int64).reshape(len(orders), n)
    waits = [[d for d in schedule.dependencies if d.after == o] for o in range(n)]
    most = max((len(w) for w in waits), default=0) or 1
    before = np.zeros((len(orders), n, most), dtype=np.int64)
    age = np.zeros((len(orders), n, most), dtype=np.int64)
    share = np.zeros((len(orders), n, most))
    count = np.zeros((len(orders), n), dtype=np.int64)
    for k, order in enumerate(orders):
        place = {o: i for i, o in enumerate(order.sequence)}
        for i, o in enumerate(order.sequence):
            count[k, i] = len(waits[o])
            for j, d in enumerate(waits[o]):
                rounds = round_lag(d, order.shift)
                before[k, i, j] = d.before
                age[k, i, j] = rounds - (0 if place[d.before] < i else 1)
                share[k, i, j] = STREAMED if d.stream else 0.0
    return OrderTables(sequence, before, age, share, count)


STREAMED = 0.9
"""Share of a forward call that can be done on finished samples while the last ones are still being generated."""


def cycles(schedule: Schedule) -> tuple[Ints, Ints, Floats]:
    """Pairs that can never overlap, and the longer cycles.

    If two operations lie on one closed walk of total lag 1, every instance of one ends before the next instance of
    the other starts. Streaming edges do not make such a walk: there the later one starts before the earlier has ended.
    """
    n = schedule.operations
    solid = [d for d in schedule.dependencies if not d.stream]
    distance = [[FAR] * n for _ in range(n)]
    for d in solid:
        distance[d.before][d.after] = min(distance[d.before][d.after], d.lag)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                distance[i][j] = min(distance[i][j], distance[i][k] + distance[k][j])
    sequential = [sum(1 << j for j in range(n) if j != i and distance[i][j] + distance[j][i] <= 1) for i in range(n)]
    longer = {(mask, lag) for mask, lag in _simple_cycles(n, solid) if lag > 1}
    masks = sorted(longer)
    return (
        np.array(sequential, dtype=np.int64),
        np.array([m for m, _ in masks], dtype=np.int64),
        np.array([lag for _, lag in masks], dtype=np.float64),
    )


def _simple_cycles(n: int, edges: Sequence[object]) -> list[tuple[int, int]]:
    """(mask of operations, lag) of every simple cycle."""
    following: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for d in edges:
        following[d.before].append((d.after, d.lag))  # type: ignore[attr-defined]
    found = []

    def walk(first: int, here: int, mask: int, lag: int) -> None:
        for there, more in following[here]:
            if there == first:
                found.append((mask, lag + more))
            elif there > first and not mask >> there & 1:
                walk(first, there, mask | 1 << there, lag + more)

    for first in range(n):
        walk(first, first, 1 << first, 0)
    return found


__all__ = ["Candidate", "Floats", "Ints", "Mesh", "OrderTables", "Problem", "Tables", "order_tables"]
