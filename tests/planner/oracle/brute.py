"""The truth about a small problem, by looking at every plan: written apart from the search, and slow.

    memory      cell by cell, what is held there and the largest of what comes on top
    bound       area; every set of operations no two of which can overlap, by trying all sets; every cycle of waiting
    period      the rounds of every order, played for all plans at once, until they repeat

"Can never overlap" is taken from its meaning: in the unrolled iterations, whichever instances of the two one takes, the
end of one of them comes before the start of the other.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ropewalk.planner.search.problem import Problem
from ropewalk.planner.search.schedule import Dependency, Schedule
from tests.planner.oracle.simulator import LAST_SHARE, PATTERN, period_in_order, work_of

Array = NDArray[np.float64]
Bits = NDArray[np.int64]
UNROLLED = 9
BLOCKS = 6
"""Of `PATTERN` rounds each, before an order that has not settled is handed to the simulator."""
AT_ONCE = 16_384
"""Plans times orders that are played together."""


@dataclass(frozen=True)
class Everything:
    """All plans that fit, with their operations."""

    problem: Problem
    plans: Bits
    """[plan, call]: candidate numbers."""
    seconds: Array
    """[plan, operation]."""
    cells: Bits
    """[plan, operation]: mask."""
    apart: NDArray[np.bool_]
    """[operation, operation, plan]: they share a cell."""


@dataclass(frozen=True)
class Truth:
    """What is to be proven of a problem; infinite where nothing fits."""

    plans: int
    period: float
    """Least, over plans and listed orders."""
    bound: float
    """Least, over plans, of what no schedule of the plan can beat."""


def truth(problem: Problem) -> Truth:
    every = everything(problem)
    if not len(every.plans):
        return Truth(0, np.inf, np.inf)
    return Truth(len(every.plans), least_period(every), float(bounds(every).min()))


def everything(problem: Problem) -> Everything:
    starts = problem.tables.call_start
    choices = [range(starts[c], starts[c + 1]) for c in range(problem.schedule.calls)]
    plans = np.array(list(product(*choices)), dtype=np.int64)
    return of_plans(problem, plans[fitting(problem, plans)])


def fitting(problem: Problem, plans: Bits) -> NDArray[np.bool_]:
    """Which plans overflow no cell."""
    held = np.zeros((len(plans), len(problem.cell_bytes)))
    most = np.zeros_like(held)
    for call, options in enumerate(problem.candidates):
        on = np.array([[problem.meshes[c.mesh].mask >> cell & 1 for cell in range(held.shape[1])] for c in options])
        mine = plans[:, call] - problem.offset(call)
        held += (np.array([c.static_bytes for c in options])[:, None] * on)[mine]
        most = np.maximum(most, (np.array([c.active_bytes for c in options])[:, None] * on)[mine])
    fits: NDArray[np.bool_] = (held + most <= np.array(problem.cell_bytes)).all(axis=1)
    return fits


def of_plans(problem: Problem, plans: Bits) -> Everything:
    seconds, cells, geometry = [], [], []
    for call, options in enumerate(problem.candidates):
        mine = plans[:, call] - problem.offset(call)
        seconds.append(np.array([c.seconds for c in options])[mine])
        cells.append(np.array([problem.meshes[c.mesh].mask for c in options], dtype=np.int64)[mine])
        geometry.append(np.array([c.geometry for c in options])[mine])
    for move, table in zip(problem.schedule.moves, problem.move_seconds, strict=True):
        price = table[geometry[move.source], geometry[move.target]]
        seconds.append(price)
        cells.append(np.where(price > 0, cells[move.source] | cells[move.target], 0))
    masks = np.stack(cells, axis=1)
    meet = (masks.T[:, None] & masks.T[None]) != 0
    return Everything(problem, plans, np.stack(seconds, axis=1), masks, meet)


# -- what no schedule beats ----------------------------------------------------------------------------------------


def bounds(every: Everything) -> Array:
    """By plan, seconds per iteration that no schedule of it can beat."""
    found: Array = np.maximum(np.maximum(areas(every), exclusive(every)), turns(every))
    return found


def areas(every: Everything) -> Array:
    """GPU-seconds of an iteration over the GPUs there are."""
    gpus = every.problem.cell_gpus
    total = np.zeros(len(every.plans))
    for cell, count in enumerate(gpus):
        total += (every.seconds * (every.cells >> cell & 1)).sum(axis=1) * count
    found: Array = total / sum(gpus)
    return found


def exclusive(every: Everything) -> Array:
    """Longest time of operations of which no two can overlap: all 2ⁿ sets, each grown from one without its first."""
    n = every.seconds.shape[1]
    never = np.array(in_turn(every.problem.schedule))
    weights = 1 << np.arange(n)
    beside = ((every.apart | never[:, :, None]) * weights[None, :, None]).sum(axis=1)
    valid = np.ones((1 << n, len(every.plans)), dtype=bool)
    time = np.zeros((1 << n, len(every.plans)))
    best = np.zeros(len(every.plans))
    for chosen in range(1, 1 << n):
        first = (chosen & -chosen).bit_length() - 1
        rest = chosen & (chosen - 1)
        valid[chosen] = valid[rest] & (rest & ~beside[first] == 0)
        time[chosen] = time[rest] + every.seconds[:, first]
        best = np.maximum(best, np.where(valid[chosen], time[chosen], 0.0))
    return best


def turns(every: Everything) -> Array:
    """Largest time over lag of a closed chain of waiting."""
    found = np.zeros(len(every.plans))
    for mask, lag in circles(every.problem.schedule):
        members = [o for o in range(every.seconds.shape[1]) if mask >> o & 1]
        found = np.maximum(found, every.seconds[:, members].sum(axis=1) / lag)
    return found


@lru_cache
def in_turn(plan: Schedule) -> tuple[tuple[bool, ...], ...]:
    """Which operations can never overlap, wherever they run."""
    n, middle = plan.operations, UNROLLED // 2
    starts, ends = np.arange(2 * UNROLLED * n).reshape(2, UNROLLED, n)
    before = np.zeros((2 * UNROLLED * n, 2 * UNROLLED * n), dtype=bool)
    before[starts, ends] = True
    for d in plan.dependencies:
        for i in range(d.lag, UNROLLED):
            if d.stream:
                before[starts[i - d.lag, d.before], starts[i, d.after]] = True
                before[ends[i - d.lag, d.before], ends[i, d.after]] = True
            else:
                before[ends[i - d.lag, d.before], starts[i, d.after]] = True
    for k in range(len(before)):
        before |= before[:, [k]] & before[[k]]

    def apart(o: int, p: int, i: int) -> bool:
        return bool(before[ends[middle, o], starts[i, p]] or before[ends[i, p], starts[middle, o]])

    others = range(middle - 3, middle + 4)
    return tuple(tuple(o != p and all(apart(o, p, i) for i in others) for p in range(n)) for o in range(n))


@lru_cache
def circles(plan: Schedule) -> frozenset[tuple[int, int]]:
    """(mask of operations, lag) of every circle of waiting, by growing sets from their lowest member."""
    after: dict[int, list[Dependency]] = {}
    for d in plan.dependencies:
        if not d.stream:
            after.setdefault(d.before, []).append(d)
    found = set()
    paths = {(1 << o, o, o, 0) for o in range(plan.operations)}
    while paths:
        longer = set()
        for mask, first, last, lag in paths:
            for d in after.get(last, []):
                if d.after == first:
                    found.add((mask, lag + d.lag))
                elif d.after > first and not mask >> d.after & 1:
                    longer.add((mask | 1 << d.after, first, d.after, lag + d.lag))
        paths = longer
    return frozenset(found)


# -- periods -------------------------------------------------------------------------------------------------------


def least_period(every: Everything) -> float:
    """Least period over plans and orders. Plans come by the time of their busiest cell, which none can beat."""
    busy = every.seconds.max(axis=1)
    for cell in range(len(every.problem.cell_gpus)):
        busy = np.maximum(busy, (every.seconds * (every.cells >> cell & 1)).sum(axis=1))
    ranked = np.argsort(busy)
    step = max(1, AT_ONCE // len(every.problem.schedule.orders))
    best = np.inf
    for at in range(0, len(ranked), step):
        mine = ranked[at : at + step]
        if busy[mine[0]] >= best:
            break
        best = min(best, float(periods(every, mine, best).min()))
    return best


def periods(every: Everything, which: Bits, enough: float = np.inf) -> Array:
    """Period of each of some plans under each order, as [order, plan]; where it is clear that it is not below
    `enough` the number may be any that is not either."""
    orders = every.problem.schedule.orders
    rounds = Rounds(every, which)
    x = rounds.now()
    for _ in range(BLOCKS):
        before = x
        rounds.play(PATTERN)
        x = rounds.now()
        growth = (x - before) / PATTERN
        low, high = growth.min(axis=(0, 1)), growth.max(axis=(0, 1))
        settled = high - low <= 1e-12 * high
        if (settled | (low >= enough)).all():
            break
    for order, plan in zip(*np.nonzero(~settled & (low < enough)), strict=True):
        chosen = [int(k) for k in every.plans[which[plan]]]
        high[order, plan] = period_in_order(work_of(every.problem, chosen), orders[order])
    found: Array = high
    return found


class Rounds:
    """Ends of the last instances of all operations, for all orders and some plans: [back, operation, order, plan]."""

    def __init__(self, every: Everything, which: Bits) -> None:
        schedule = every.problem.schedule
        self.seconds = every.seconds[which].T
        self.dependencies = schedule.dependencies
        shift = np.array([order.shift for order in schedule.orders])
        self.lag = np.stack([d.lag + shift[:, d.after] - shift[:, d.before] for d in schedule.dependencies])
        self.back = 2 + int(self.lag.max())
        self.ends = np.zeros((self.back, schedule.operations, len(shift), len(which)))
        sequence = np.array([order.sequence for order in schedule.orders])
        place = np.argsort(sequence, axis=1)
        blocked = np.where(every.apart[:, :, which], 0.0, -np.inf)
        self.steps = [
            (
                o,
                blocked[o].transpose(1, 0, 2),
                (i > place.T)[:, :, None],
                [np.flatnonzero(o == d.after) for d in schedule.dependencies],
            )
            for i, o in enumerate(sequence.T)
        ]

    def now(self) -> Array:
        return self.ends[: self.back - 1].copy()

    def play(self, rounds: int) -> None:
        for _ in range(rounds):
            self.ends = np.concatenate([np.full_like(self.ends[:1], np.nan), self.ends[:-1]])
            for step in self.steps:
                self._dispatch(*step)

    def _dispatch(self, o: Bits, blocked: Array, done: NDArray[np.bool_], waiting: list[Bits]) -> None:
        """Row 0 of `ends` is this round, not yet known (nan) for what comes later in it."""
        orders = np.arange(len(o))
        start = (np.where(done, self.ends[0], self.ends[1]) + blocked).max(axis=0)
        start = np.maximum(start, self.ends[1, o, orders])
        for d, lag, mine in zip(self.dependencies, self.lag, waiting, strict=True):
            if len(mine):
                end = self.ends[lag[mine], d.before, mine]
                if d.stream:
                    body, whole = (1 - LAST_SHARE) * self.seconds[d.after], self.seconds[d.before]
                    end = np.maximum(end - body, end - whole)
                start[mine] = np.maximum(start[mine], end)
        self.ends[0, o, orders] = start + self.seconds[o]
