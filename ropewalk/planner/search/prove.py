"""The certificate: branch and bound to an asked gap, within a time budget; anytime, and honest when cut short."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ropewalk.planner.search.branching import BEST, EPSILON, LOWEST, Branching, State, branch
from ropewalk.planner.jit import COMPILED
from ropewalk.planner.search.kernels import evaluate, scratch
from ropewalk.planner.search.problem import FAR, Floats, Ints, Problem
from ropewalk.planner.search.symmetry import symmetries

MIXTURES = (1.0, 0.75, 0.5, 0.25, 0.0)
LADDER = (0.1, 0.05, 0.03, 0.02, 0.015, 0.01, 0.0075, 0.005, 0.003, 0.002, 0.001, 0.0)
"""Gaps tried one after another: each complete pass is a certificate, so that a budget that ends leaves the last one."""
SLICE = 200_000 if COMPILED else 200
"""Nodes between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proven: no schedule of any plan of the problem has a period below `bound_seconds`."""

    plan: tuple[int, ...]
    period_seconds: float
    bound_seconds: float
    epsilon: float | None
    """Of the last complete pass; 0: the plan is the best of all plans under the listed orders. None: no pass ended."""
    nodes: int
    seconds: float

    @property
    def gap(self) -> float:
        return self.period_seconds / self.bound_seconds - 1.0 if self.bound_seconds > 0 else float("inf")


def prove(
    problem: Problem,
    start: Sequence[int] | None = None,
    *,
    gap: float = 0.0,
    budget_seconds: float = 5.0,
    break_symmetry: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> Proof:
    """Prove from a starting plan (or none) until the certified gap is at most `gap`, or the budget is used up."""
    began = clock()
    tables, orders, room = problem.tables, problem.orders, scratch(problem.tables)
    tree = branching(problem, break_symmetry=break_symmetry)
    best = np.full(tables.calls, -1, dtype=np.int64)
    period = FAR
    if start is not None:
        best[:] = start
        period, _ = evaluate(tables, orders, best, room)
    lower, done, nodes = root_bound(problem, tree), None, 0
    for epsilon in [e for e in LADDER if e > gap] + [gap]:
        if period < FAR and period / lower - 1.0 <= max(gap, epsilon) and epsilon > 0.0:
            continue
        state = _state(tables.calls, best, period, epsilon, len(tree.smaller))
        complete = False
        while not complete and clock() - began < budget_seconds:
            complete = branch(tables, tree, orders, state, room, SLICE)
        nodes += int(state.count[0])
        if state.value[BEST] < period:
            period = float(state.value[BEST])
            best = state.best.copy()
        if not complete:
            break
        lower = max(lower, min(float(state.value[LOWEST]), period))
        done = epsilon
        if period / lower - 1.0 <= gap and (gap > 0.0 or epsilon == 0.0):
            break
    return Proof(tuple(int(k) for k in best), period, min(lower, period), done, nodes, clock() - began)


def root_bound(problem: Problem, tree: Branching) -> float:
    """Bound before anything is chosen."""
    from ropewalk.planner.search.branching import node_bound

    state = _state(problem.tables.calls, np.full(problem.tables.calls, -1, dtype=np.int64), FAR, 0.0, 0)
    return float(node_bound(problem.tables, tree, state, scratch(problem.tables), FAR))


def _state(calls: int, best: Ints, period: float, epsilon: float, groups: int) -> State:
    del groups
    alive = np.full(2 * calls + 1, -1, dtype=np.int64)
    return State(
        level=np.zeros(1, dtype=np.int64),
        cursor=np.zeros(2 * calls + 1, dtype=np.int64),
        alive=alive,
        group=np.full(calls, -1, dtype=np.int64),
        plan=np.full(calls, -1, dtype=np.int64),
        best=best.copy(),
        value=np.array([period, FAR, epsilon]),
        count=np.zeros(2, dtype=np.int64),
    )


def branching(problem: Problem, *, break_symmetry: bool = True) -> Branching:
    """Group the candidates by mesh and take the least of everything."""
    t = problem.tables
    call = np.repeat(np.arange(t.calls), np.diff(t.call_start))
    new = np.r_[True, (t.mesh[1:] != t.mesh[:-1]) | (call[1:] != call[:-1])]
    first = np.flatnonzero(new)
    group_call, mesh = call[first], t.mesh[first]
    group_start = np.searchsorted(group_call, np.arange(t.calls + 1))
    seconds = np.minimum.reduceat(t.seconds, first)
    area = seconds * t.mesh_gpus[mesh] / t.gpus
    mixed = np.array(
        [np.minimum.reduceat(share * seconds + (1 - share) * area, group_start[:-1]) for share in MIXTURES]
    )
    turn = np.concatenate(
        [a + np.argsort((seconds + area)[a:b], kind="stable") for a, b in zip(group_start[:-1], group_start[1:])]
    )
    floors, sources, targets = _floors(problem, first, group_start)
    smaller, fixed = _symmetry_bits(problem, first) if break_symmetry else (np.zeros_like(first), np.zeros_like(first))
    return Branching(
        level_call=np.argsort(-mixed[2], kind="stable").astype(np.int64),
        group_start=group_start.astype(np.int64),
        mesh=mesh,
        first=np.r_[first, len(t.mesh)].astype(np.int64),
        seconds=seconds,
        static=np.minimum.reduceat(t.static, first),
        active=np.minimum.reduceat(t.active, first),
        turn=turn.astype(np.int64),
        mixed=mixed,
        mixtures=np.array(MIXTURES),
        floor_start=np.r_[0, np.cumsum([f.size for f in floors])].astype(np.int64),
        floor_width=np.array([f.shape[1] for f in floors], dtype=np.int64),
        floor=np.concatenate([np.zeros(0), *(f.ravel() for f in floors)]),
        floor_source=sources,
        floor_target=targets,
        smaller=smaller,
        fixed=fixed,
    )


def _floors(problem: Problem, first: Ints, group_start: Ints) -> tuple[list[Floats], Floats, Floats]:
    """By move: least price between the candidates of two groups; by group, least over the other side."""
    t = problem.tables
    ends = np.r_[first, len(t.mesh)]
    widest = int(np.diff(group_start).max())
    moves = problem.schedule.moves
    sources, targets = np.zeros((len(moves), widest)), np.zeros((len(moves), widest))
    floors = []
    for j, move in enumerate(moves):
        rows, columns = (
            [t.geometry[ends[g] : ends[g + 1]] for g in range(group_start[c], group_start[c + 1])]
            for c in (move.source, move.target)
        )
        by_row = np.stack([problem.move_seconds[j][r].min(axis=0) for r in rows])
        floor = np.stack([by_row[:, c].min(axis=1) for c in columns], axis=1)
        floors.append(floor)
        sources[j, : len(rows)] = floor.min(axis=1)
        targets[j, : len(columns)] = floor.min(axis=0)
    return floors, sources, targets


def _symmetry_bits(problem: Problem, first: Ints) -> tuple[Ints, Ints]:
    """By group: which symmetries lower its number, which leave it."""
    group_of = np.repeat(np.arange(len(first)), np.diff(np.r_[first, len(problem.tables.mesh)]))
    smaller = np.zeros(len(first), dtype=np.int64)
    fixed = np.zeros(len(first), dtype=np.int64)
    for bit, image in enumerate(symmetries(problem)):
        to = group_of[image[first]]
        here = np.arange(len(first))
        smaller |= np.where(to < here, 1 << bit, 0)
        fixed |= np.where(to == here, 1 << bit, 0)
    return smaller, fixed
