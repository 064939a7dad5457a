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

from ropewalk.planner.estimate.work import Strategy
from ropewalk.planner.search.schedule import Dependency, Order, Schedule, round_lag
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


SECONDS, STATIC, ACTIVE, FROM, TO, MESH, GEOMETRY = range(7)
"""Columns of a candidate: static and active in bytes of one GPU; its run of ranks as shares of all GPUs."""
MASK, FIRST_CELL, END_CELL = range(3)
"""Columns of a mesh."""
SOURCE, TARGET, START, WIDTH = range(4)
"""Columns of a move: its two calls, where its prices start and how long a row of them is."""


class Tables(NamedTuple):
    """What the kernels read: few arrays, because each one that is handed on costs time.

    Candidates of all calls lie one after another, ordered by call, mesh and seconds.
    """

    candidates: Floats
    """[candidate, SECONDS STATIC ACTIVE FROM TO MESH GEOMETRY]."""
    call_start: Ints
    """First candidate of each call, and the end."""
    group_start: Ints
    """First (call, mesh) group of each call, and the end."""
    group_first: Ints
    """First candidate of each group, and the end; a group's candidates are ordered by seconds."""
    meshes: Ints
    """[mesh, MASK FIRST_CELL END_CELL]."""
    cell_bytes: Floats
    """Usable bytes of each GPU of a cell."""
    moves: Ints
    """[move, SOURCE TARGET START WIDTH]."""
    prices: Floats
    """Seconds of all moves, source geometry x target geometry each."""
    sequential: Ints
    """By operation, the operations that can never overlap it: they lie on a common cycle of lag 1."""
    cycles: Floats
    """[cycle, mask and lag] of longer lags: the sum of their times over the lag bounds the period."""


class OrderTables(NamedTuple):
    """Cyclic orders."""

    sequence: Ints
    """[order, place]: the operation dispatched there."""
    waits: Ints
    """[order, place, predecessor, 3]: operation or −1, how many instances back, whether it streams."""


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
    """Usable bytes of each GPU of a cell."""

    def __post_init__(self) -> None:
        if len(self.cell_gpus) > MOST_CELLS:
            raise InputError(f"{len(self.cell_gpus)} cells are too many (at most {MOST_CELLS}): take coarser meshes")
        for name, options in zip(self.schedule.names, self.candidates, strict=False):
            if not options:
                raise InputError(
                    f"call {name!r} fits nowhere: see what would make it fit with `ropewalk plan --memory`"
                )

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
    sequential, longer = cycles(problem.schedule)
    starts = np.concatenate([[0], np.cumsum([table.size for table in problem.move_seconds])])
    rows = [
        (move.source, move.target, start, table.shape[1])
        for move, start, table in zip(problem.schedule.moves, starts, problem.move_seconds, strict=False)
    ]
    call_start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    owner = [(call, c.mesh) for call, options in enumerate(problem.candidates) for c in options]
    first = np.array([i for i, key in enumerate(owner) if i == 0 or owner[i - 1] != key], dtype=np.int64)
    return Tables(
        candidates=np.array([_row(c, problem.meshes[c.mesh], sum(problem.cell_gpus)) for c in flat], dtype=np.float64),
        call_start=call_start,
        group_start=np.searchsorted(first, call_start).astype(np.int64),
        group_first=np.append(first, len(flat)).astype(np.int64),
        meshes=np.array([(m.mask, m.first_cell, m.first_cell + m.cells) for m in problem.meshes], dtype=np.int64),
        cell_bytes=np.array(problem.cell_bytes, dtype=np.float64),
        moves=np.array(rows, dtype=np.int64).reshape(-1, 4),
        prices=np.concatenate([np.zeros(0), *(table.ravel() for table in problem.move_seconds)]),
        sequential=sequential,
        cycles=longer,
    )


def _row(c: Candidate, mesh: Mesh, gpus: int) -> tuple[float, ...]:
    first, end = mesh.first_rank / gpus, (mesh.first_rank + mesh.gpus) / gpus
    return (c.seconds, c.static_bytes, c.active_bytes, first, end, c.mesh, c.geometry)


def order_tables(schedule: Schedule, orders: Sequence[Order]) -> OrderTables:
    """Orders as arrays."""
    n = schedule.operations
    waits = [[d for d in schedule.dependencies if d.after == o] for o in range(n)]
    most = max(len(w) for w in waits)
    sequence = np.array([order.sequence for order in orders], dtype=np.int64).reshape(len(orders), n)
    table = np.full((len(orders), n, most + 1, 3), -1, dtype=np.int64)
    for k, order in enumerate(orders):
        place = {o: i for i, o in enumerate(order.sequence)}
        for i, o in enumerate(order.sequence):
            for j, d in enumerate(waits[o]):
                age = round_lag(d, order.shift) - (0 if place[d.before] < i else 1)
                table[k, i, j] = d.before, age, d.stream
    return OrderTables(sequence, table)


STREAMED = 0.9
"""Share of a forward call that can be done on finished samples while the last ones are still being generated."""


def cycles(schedule: Schedule) -> tuple[Ints, Floats]:
    """Pairs that can never overlap, and the longer cycles.

    If instance i of one operation ends before instance i + a of another starts, and that before instance i + 1 of the
    first, no two instances of the two overlap. The longer cycles are those without streaming.
    """
    n = schedule.operations
    after = _after(schedule)
    sequential = [sum(1 << j for j in range(n) if j != i and after[i][j] + after[j][i] <= 1) for i in range(n)]
    solid = [d for d in schedule.dependencies if not d.stream]
    longer = sorted({(mask, lag) for mask, lag in _simple_cycles(n, solid) if lag > 1})
    return np.array(sequential, dtype=np.int64), np.array(longer, dtype=np.float64).reshape(-1, 2)


def _after(schedule: Schedule) -> list[list[float]]:
    """Least lag with which j starts after i has ended; FAR if it does not have to.

    What streams starts no sooner and ends no sooner than what it streams from, though it may start before that ends.
    """
    n = schedule.operations
    starts = [[FAR] * n for _ in range(n)]
    ends = [[0.0 if i == j else FAR for j in range(n)] for i in range(n)]  # least lag with which j ends no sooner
    for _ in range(n):  # a chain without a circle in it has at most n links
        for i in range(n):
            for d in schedule.dependencies:
                begin = starts[i][d.before] if d.stream else ends[i][d.before]
                starts[i][d.after] = min(starts[i][d.after], begin + d.lag)
                ends[i][d.after] = min(ends[i][d.after], ends[i][d.before] + d.lag)
    return starts


def _simple_cycles(n: int, edges: Sequence[Dependency]) -> list[tuple[int, int]]:
    """(mask of operations, lag) of every simple cycle."""
    following: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for d in edges:
        following[d.before].append((d.after, d.lag))
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
