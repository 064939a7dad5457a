"""The certificate: branch and bound to an asked gap, within a time budget; anytime, and honest when cut short."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ropewalk.planner.jit import COMPILED
from ropewalk.planner.search.branching import (
    ALIVE,
    BEST,
    LOWEST,
    Branching,
    State,
    branch,
    node_bound,
    place_calls,
    place_moves,
)
from ropewalk.planner.search.kernels import conflicts, evaluate, scratch
from ropewalk.planner.search.problem import FAR, FROM, GEOMETRY, MESH, SECONDS, TO, Floats, Ints, Problem
from ropewalk.planner.search.symmetry import symmetries

MIXTURES = (1.0, 0.5, 0.0)
"""More of them drop hardly more nodes."""
LADDER = (0.1, 0.05, 0.03, 0.02, 0.015, 0.01, 0.0075, 0.005, 0.003, 0.002, 0.001, 0.0)
"""Gaps tried one after another: each complete pass is a certificate, so that a budget that ends leaves the last one."""
SLICE = 200_000 if COMPILED else 200
"""Most nodes between two looks at the clock."""
FIRST_SLICE = 1_000
LOOK_SECONDS = 0.05
"""Looks come about so often: with hundreds of orders a node takes a thousand times as long as with few."""


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
        return gap_of(self.period_seconds, self.bound_seconds)


def gap_of(period_seconds: float, bound_seconds: float) -> float:
    """How much longer a period is than its bound, as a share; infinite where the bound says nothing."""
    if bound_seconds > 0.0:
        return period_seconds / bound_seconds - 1.0
    return 0.0 if period_seconds <= bound_seconds else float("inf")


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
    best = np.full(problem.schedule.calls, -1, dtype=np.int64)
    period = FAR
    if start is not None:
        best[:] = start
        period, _ = evaluate(tables, orders, best, room)
    lower, done, nodes = root_bound(problem, tree), None, 0
    for epsilon in [e for e in LADDER if e > gap] + [gap]:
        if period < FAR and gap_of(period, lower) <= max(gap, epsilon) and epsilon > 0.0:
            continue
        state = _state(tree, best, period, epsilon)
        complete, size = False, min(FIRST_SLICE, SLICE)
        while not complete and (looked := clock()) - began < budget_seconds:
            complete = branch(tables, tree, orders, state, room, size)
            size = min(2 * size, SLICE) if clock() - looked < LOOK_SECONDS else max(size // 2, 1)
        nodes += int(state.tally[0])
        if state.value[BEST] < period:
            period = float(state.value[BEST])
            best = state.best.copy()
        if not complete:
            break
        lower = max(lower, min(float(state.value[LOWEST]), period))
        done = epsilon
        if gap_of(period, lower) <= gap and (gap > 0.0 or epsilon == 0.0):
            break
    return Proof(tuple(int(k) for k in best), period, min(lower, period), done, nodes, clock() - began)


def root_bound(problem: Problem, tree: Branching) -> float:
    """Bound before anything is chosen."""
    state, w = _state(tree, np.zeros(0, dtype=np.int64), FAR, 0.0), scratch(problem.tables)
    place_calls(problem.tables.candidates, tree.least, tree.groups, tree.mixed, state.chosen, w.ops, w.bits)
    place_moves(problem.tables.candidates, tree.groups, tree.moves, tree.prices, state.chosen, w.ops, w.bits)
    conflicts(w.bits)
    hint = np.array([FAR, 0.0])
    return float(node_bound(tree.mixed, problem.tables.cycles, state.chosen, w.ops, w.bits, w.stack, hint))


def _state(tree: Branching, best: Ints, period: float, epsilon: float) -> State:
    calls = len(tree.level_call)
    path = np.zeros((2, 2 * calls + 1), dtype=np.int64)
    path[ALIVE] = -1
    return State(
        level=np.zeros(1, dtype=np.int64),
        path=path,
        chosen=np.full((2, calls), -1, dtype=np.int64),
        best=best.copy(),
        value=np.array([period, FAR, epsilon]),
        tally=np.zeros(2, dtype=np.int64),
        hint=np.zeros((2 * calls, 2)),
    )


def branching(problem: Problem, *, break_symmetry: bool = True) -> Branching:
    """Group the candidates by mesh and take the least of everything."""
    t = problem.tables
    mesh = t.candidates[:, MESH].astype(np.int64)
    calls = len(t.call_start) - 1
    call = np.repeat(np.arange(calls), np.diff(t.call_start))
    first = np.flatnonzero(np.r_[True, (mesh[1:] != mesh[:-1]) | (call[1:] != call[:-1])])
    group_start = np.searchsorted(call[first], np.arange(calls + 1))
    least = np.minimum.reduceat(t.candidates[:, : TO + 1], first, axis=0)
    seconds, share = least[:, SECONDS], least[:, TO] - least[:, FROM]
    mixed = np.array(
        [[*np.minimum.reduceat(seconds * (part + (1 - part) * share), group_start[:-1]), part] for part in MIXTURES]
    )
    starts = list(pairwise(group_start))
    moves, prices = _floors(problem, first, group_start)
    number = np.concatenate([np.arange(b - a) for a, b in starts])
    lower, fixed = _symmetry_bits(problem, first) if break_symmetry else (np.zeros_like(first), np.zeros_like(first))
    rows = np.column_stack([t.meshes[mesh[first]], first, number, lower, fixed])
    return Branching(
        level_call=_levels(problem, mixed),
        group_start=group_start.astype(np.int64),
        groups=np.vstack([rows, [0, 0, 0, len(mesh), 0, 0, 0]]).astype(np.int64),
        least=least,
        turn=np.concatenate([a + np.argsort((seconds * (1 + share))[a:b], kind="stable") for a, b in starts]),
        mixed=mixed,
        moves=moves,
        prices=prices,
    )


def _levels(problem: Problem, mixed: Floats) -> Ints:
    """Calls in the order they are decided: those whose parameters move first, then by weight."""
    moved = {call for move in problem.schedule.moves for call in (move.source, move.target)}
    weight = mixed[len(MIXTURES) // 2, :-1]
    return np.array(sorted(range(len(weight)), key=lambda c: (c not in moved, -weight[c])), dtype=np.int64)


def _floors(problem: Problem, first: Ints, group_start: Ints) -> tuple[Ints, Floats]:
    """The moves' rows, and all prices: exact ones, then the least between groups, with an open end first and last."""
    t = problem.tables
    ends = np.r_[first, len(t.candidates)]
    geometry = t.candidates[:, GEOMETRY].astype(np.int64)
    rows, prices, used = [], [t.prices], len(t.prices)
    for j, move in enumerate(problem.schedule.moves):
        sources, targets = (
            [geometry[ends[g] : ends[g + 1]] for g in range(group_start[c], group_start[c + 1])]
            for c in (move.source, move.target)
        )
        by_row = np.stack([problem.move_seconds[j][s].min(axis=0) for s in sources])
        floor = np.stack([by_row[:, d].min(axis=1) for d in targets], axis=1)
        floor = np.vstack([floor.min(axis=0), floor])
        floor = np.column_stack([floor, floor.min(axis=1)])
        rows.append((*t.moves[j], used, floor.shape[1]))
        prices.append(floor.ravel())
        used += floor.size
    return np.array(rows, dtype=np.int64).reshape(-1, 6), np.concatenate(prices)


def _symmetry_bits(problem: Problem, first: Ints) -> tuple[Ints, Ints]:
    """By group: which symmetries lower its number, which leave it."""
    group_of = np.repeat(np.arange(len(first)), np.diff(np.r_[first, len(problem.tables.candidates)]))
    smaller = np.zeros(len(first), dtype=np.int64)
    fixed = np.zeros(len(first), dtype=np.int64)
    for bit, image in enumerate(symmetries(problem)):
        to = group_of[image[first]]
        here = np.arange(len(first))
        smaller |= np.where(to < here, 1 << bit, 0)
        fixed |= np.where(to == here, 1 << bit, 0)
    return smaller, fixed
