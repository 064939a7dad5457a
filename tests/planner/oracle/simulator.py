"""What happens when a plan is carried out: a heap of events, cells that are taken and given back, nothing else.

Written apart from the fast evaluator: it shares with it the nouns (operations, dependencies, orders) and no arithmetic.

    fixed order   every cell serves the instances that want it in the order of dispatch, round after round
    greedy        whatever is ready and finds its cells free starts; a rule says which one goes first
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ropewalk.planner.search.problem import Problem
from ropewalk.planner.search.schedule import Dependency, Order

LAST_SHARE = 0.1
"""Of a streaming call: what can only be done once the last sample is there."""
PATTERN = 12
"""A steady state repeats after 1, 2, 3 or 4 rounds: no cycle of waiting reaches further back."""
ROUNDS = 96
MOST_ROUNDS = 6144

Instance = tuple[int, int]
"""(operation, number of the iteration or of the round)."""
Rule = Callable[[int, int, float], tuple[float, ...]]
"""(operation, iteration, when it became ready) → rank; the least goes first."""


@dataclass(frozen=True)
class Work:
    """One plan: by operation its seconds and its cells, and what waits for what."""

    seconds: tuple[float, ...]
    cells: tuple[frozenset[int], ...]
    dependencies: tuple[Dependency, ...]


def work_of(problem: Problem, plan: Sequence[int]) -> Work:
    """The operations of a plan. A move takes the cells at both its ends; one that takes no time takes no cells."""
    chosen = problem.chosen(plan)
    meshes = [problem.meshes[candidate.mesh] for candidate in chosen]
    cells = [frozenset(range(mesh.first_cell, mesh.first_cell + mesh.cells)) for mesh in meshes]
    seconds = [candidate.seconds for candidate in chosen]
    for move, table in zip(problem.schedule.moves, problem.move_seconds, strict=True):
        price = float(table[chosen[move.source].geometry, chosen[move.target].geometry])
        seconds.append(price)
        cells.append(cells[move.source] | cells[move.target] if price > 0 else frozenset())
    return Work(tuple(seconds), tuple(cells), problem.schedule.dependencies)


@dataclass
class Clock:
    """Events to come: at `now`, or later."""

    now: float = 0.0
    heap: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    said: int = 0

    def at(self, when: float, happens: Callable[[], None]) -> None:
        heapq.heappush(self.heap, (when, self.said, happens))
        self.said += 1

    def run(self, after: Callable[[], None]) -> None:
        """Let everything happen; `after` all events of one moment it is asked what starts now."""
        after()
        while self.heap:
            self.now = self.heap[0][0]
            while self.heap and self.heap[0][0] == self.now:
                heapq.heappop(self.heap)[2]()
            after()


class Run:
    """Instances that wait, run and end. `lag(dependency)` counts in the numbers that instances carry."""

    def __init__(self, work: Work, count: int, lag: Callable[[Dependency], int]) -> None:
        self.work, self.count = work, count
        self.clock = Clock()
        self.waiting: dict[Instance, int] = {}
        self.ready: dict[Instance, float] = {}
        self.ended: dict[Instance, float] = {}
        self.wakes: dict[Instance, list[tuple[Instance, bool]]] = {}
        for o in range(len(work.seconds)):
            for number in range(count):
                self._enter((o, number), lag)

    def _enter(self, instance: Instance, lag: Callable[[Dependency], int]) -> None:
        o, number = instance
        needs = [d for d in self.work.dependencies if d.after == o and number - lag(d) >= 0]
        self.waiting[instance] = len(needs) + (number > 0)
        for d in needs:
            self.wakes.setdefault((d.before, number - lag(d)), []).append((instance, d.stream))
        if number > 0:  # an operation is never beside itself
            self.wakes.setdefault((o, number - 1), []).append((instance, False))
        if not self.waiting[instance]:
            self.ready[instance] = 0.0

    def start(self, instance: Instance, give_back: Callable[[], None]) -> None:
        del self.ready[instance]
        begins, ends = self.clock.now, self.clock.now + self.work.seconds[instance[0]]

        def end() -> None:
            self.ended[instance] = ends
            give_back()
            for other, stream in self.wakes.get(instance, ()):
                if not stream:
                    self._wake(other)

        self.clock.at(ends, end)
        for other, stream in self.wakes.get(instance, ()):
            if stream:
                body = (1.0 - LAST_SHARE) * self.work.seconds[other[0]]
                self.clock.at(max(begins, ends - body), lambda woken=other: self._wake(woken))  # type: ignore[misc]

    def _wake(self, instance: Instance) -> None:
        self.waiting[instance] -= 1
        if not self.waiting[instance]:
            self.ready[instance] = self.clock.now

    def ends(self) -> np.ndarray:
        """[number, operation]."""
        return np.array([[self.ended[o, n] for o in range(len(self.work.seconds))] for n in range(self.count)])


def in_order(work: Work, order: Order, rounds: int) -> np.ndarray:
    """Ends by [round, operation] under a fixed cyclic order."""

    def lag(d: Dependency) -> int:
        return d.lag + order.shift[d.after] - order.shift[d.before]

    run = Run(work, rounds, lag)
    queues: dict[int, deque[Instance]] = {cell: deque() for cells in work.cells for cell in cells}
    for number in range(rounds):
        for o in order.sequence:
            for cell in work.cells[o]:
                queues[cell].append((o, number))

    def give_back(o: int) -> Callable[[], None]:
        return lambda: deque((queues[cell].popleft() for cell in work.cells[o]), maxlen=0).clear()

    def dispatch() -> None:
        for instance in list(run.ready):
            if all(queues[cell][0] == instance for cell in work.cells[instance[0]]):
                run.start(instance, give_back(instance[0]))

    run.clock.run(dispatch)
    return run.ends()


def period_in_order(work: Work, order: Order) -> float:
    """Steady seconds per round: of the slowest operation, where they do not keep pace."""
    rounds = ROUNDS
    while rounds <= MOST_ROUNDS:
        ends = in_order(work, order, rounds)
        growth = (ends[PATTERN:] - ends[:-PATTERN]) / PATTERN
        last, before = growth[-PATTERN:], growth[-2 * PATTERN : -PATTERN]
        if np.ptp(last, axis=0).max() <= 1e-11 * last.max() and np.abs(last - before).max() <= 1e-11 * last.max():
            return float(last.max())
        rounds *= 4
    raise AssertionError("no steady state in sight")


def greedy(work: Work, iterations: int, rule: Rule) -> np.ndarray:
    """Ends by [iteration, operation] where whatever can start does, in the order of the rule."""
    run = Run(work, iterations, lambda d: d.lag)
    taken: set[int] = set()

    def give_back(o: int) -> Callable[[], None]:
        return lambda: taken.difference_update(work.cells[o])

    def dispatch() -> None:
        ranked = sorted(run.ready, key=lambda i: (*rule(*i, run.ready[i]), i[1], i[0]))
        for instance in ranked:
            if not taken & work.cells[instance[0]]:
                taken.update(work.cells[instance[0]])
                run.start(instance, give_back(instance[0]))

    run.clock.run(dispatch)
    return run.ends()


def arrival(_operation: int, _iteration: int, since: float) -> tuple[float, ...]:
    """First come, first served."""
    return (since,)


def longest(work: Work) -> Rule:
    """What takes longest goes first."""
    return lambda operation, _iteration, _since: (-work.seconds[operation],)


def by_chance(seed: int) -> Rule:
    """In random order, drawn anew at every moment."""
    rng = np.random.default_rng(seed)
    return lambda _operation, _iteration, _since: (rng.random(),)


def rules(work: Work, seeds: Iterable[int] = ()) -> dict[str, Rule]:
    """Those that the tests try."""
    return {"arrival": arrival, "longest first": longest(work), **{f"chance {s}": by_chance(s) for s in seeds}}


def pace(ends: np.ndarray) -> float:
    """Seconds per iteration over the second half of a run."""
    half = len(ends) // 2
    return float((ends[-1] - ends[half - 1]).max() / (len(ends) - half))


def close(found: float, wanted: float) -> bool:
    """Equal to 1e-9."""
    return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-12)
