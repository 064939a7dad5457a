"""What waits for what: the operations of an iteration, their dependencies across iterations, and dispatch orders.

An operation is a call, or the move of a trained role's parameters to where another call of that role runs.

    (o, p, lag): instance i of o starts after instance i − lag of p has ended

A cyclic order is a sequence of all operations, repeated round after round; an operation with shift 1 is, in round r,
that of iteration r − 1. Training of the last batch beside the next generation is such a shift.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias

from ropewalk.plan.graph import CallGraph, Kind
from ropewalk.records.errors import InputError

Mode: TypeAlias = Literal["synchronous", "one-step-off", "streaming"]
MODES: tuple[Mode, ...] = ("synchronous", "one-step-off", "streaming")
MOST_OPERATIONS = 16


@dataclass(frozen=True, slots=True)
class Move:
    """Parameters of `role` go from where call `source` trains them to where call `target` uses them."""

    role: str
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Dependency:
    """Operation `after` of iteration i waits for operation `before` of iteration i − lag."""

    after: int
    before: int
    lag: int
    stream: bool = False
    """It may start with `before` and work on what is there; it cannot end before it, but for its last share."""


@dataclass(frozen=True, slots=True)
class Order:
    """One cyclic order: operations in the order they are dispatched, and their shifts by operation."""

    sequence: tuple[int, ...]
    shift: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """All that the timing of a plan depends on beside its times and meshes."""

    names: tuple[str, ...]
    """Of the operations: the calls in graph order, then the moves."""
    calls: int
    roles: tuple[str, ...]
    """By call."""
    kinds: tuple[Kind, ...]
    moves: tuple[Move, ...]
    dependencies: tuple[Dependency, ...]
    orders: tuple[Order, ...]

    @property
    def operations(self) -> int:
        return len(self.names)


def schedule(graph: CallGraph, mode: Mode = "synchronous") -> Schedule:
    """Operations, dependencies and orders of a call graph.

    one-step-off: generation uses the parameters of the iteration before (staleness 1). streaming: the forward calls
    start on the samples that are finished.
    """
    calls = graph.calls
    index = {call.name: i for i, call in enumerate(calls)}
    trains = {call.role: index[call.name] for call in calls if call.kind == "train"}
    moves = tuple(
        Move(call.role, trains[call.role], index[call.name])
        for call in calls
        if call.kind in ("generate", "forward") and call.role in trains
    )
    names = (*(call.name for call in calls), *(f"move to {calls[move.target].name}" for move in moves))
    if len(names) > MOST_OPERATIONS:
        raise InputError(f"this call graph has {len(names)} operations; the planner takes at most {MOST_OPERATIONS}")
    streams = {index[call.name] for call in calls if call.kind == "forward"} if mode == "streaming" else set()
    makers = {index[call.name] for call in calls if call.kind == "generate"}
    found = [
        Dependency(index[later], index[earlier], 0, index[later] in streams and index[earlier] in makers)
        for earlier, later in _reduced(graph.edges())
    ]
    stale = 1 if mode == "one-step-off" else 0
    for number, move in enumerate(moves, start=len(calls)):
        found.append(Dependency(number, move.source, 1 + stale * (move.target in makers)))
        found.append(Dependency(move.target, number, 0))
    found += _held_back(len(names), found, set(trains.values()))
    dependencies = tuple(found)
    return Schedule(
        names=names,
        calls=len(calls),
        roles=tuple(call.role for call in calls),
        kinds=tuple(call.kind for call in calls),
        moves=moves,
        dependencies=dependencies,
        orders=_orders(len(names), len(calls), moves, dependencies),
    )


def _reduced(edges: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Without the edges that follow from others."""
    after: dict[str, set[str]] = {}
    for earlier, later in edges:
        after.setdefault(earlier, set()).add(later)

    def reach(name: str, skip: str) -> set[str]:
        seen: set[str] = set()
        todo = [other for other in after.get(name, ()) if other != skip]
        while todo:
            here = todo.pop()
            if here not in seen:
                seen.add(here)
                todo += after.get(here, ())
        return seen

    return [(earlier, later) for earlier, later in edges if later not in reach(earlier, later)]


def _held_back(count: int, found: Sequence[Dependency], trains: set[int]) -> list[Dependency]:
    """A call that waits for nothing of an earlier iteration runs at most two iterations ahead of training."""
    waits = {d.after for d in found}
    return [Dependency(o, train, 2) for o in range(count) if o not in waits for train in sorted(trains)]


# -- orders --------------------------------------------------------------------------------------------------------


def round_lag(dependency: Dependency, shift: Sequence[int]) -> int:
    """Rounds between the two operations of a dependency; 0: the earlier one stands before the later in the sequence."""
    return shift[dependency.after] + dependency.lag - shift[dependency.before]


def _orders(names: int, calls: int, moves: Sequence[Move], dependencies: Sequence[Dependency]) -> tuple[Order, ...]:
    """Orders worth having, each once: the first call opens the round (any other start is a rotation of the same order).

    Calls come in every sequence and with every shift of 0 or 1 that the dependencies allow. A move is dispatched
    directly before its call; one that serves the opening call closes the round, or follows its training directly.
    """
    found = []
    for shifts in product((0, 1), repeat=calls - 1):
        shift = [0, *shifts, *(-1 if move.target == 0 else 0 for move in moves)]
        for number, move in enumerate(moves, start=calls):
            shift[number] += shift[move.target]
        if all(round_lag(d, shift) >= 0 for d in dependencies):
            found += [
                Order(sequence, tuple(shift)) for sequence in _sequences(names, calls, moves, dependencies, shift)
            ]
    return tuple(dict.fromkeys(found))


def _sequences(
    names: int, calls: int, moves: Sequence[Move], dependencies: Sequence[Dependency], shift: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    closers = [number for number, move in enumerate(moves, start=calls) if move.target == 0]
    before = {move.target: number for number, move in enumerate(moves, start=calls) if move.target != 0}
    needs = [(d.before, d.after) for d in dependencies if round_lag(d, shift) == 0]
    between = {(b, a) for b, a in needs if b < calls and a < calls}
    between |= {(b, moves[a - calls].target) for b, a in needs if b < calls <= a and moves[a - calls].target != 0}
    for sequence in _linear_extensions(calls, between):
        whole = [o for call in sequence for o in ((before[call], call) if call in before else (call,))]
        endings = [[*whole, *closers]]
        for number in closers:
            at = whole.index(moves[number - calls].source) + 1
            if len(closers) == 1 and at < len(whole):
                endings.append([*whole[:at], number, *whole[at:]])
        for ending in endings:
            place = {o: i for i, o in enumerate(ending)}
            if len(place) == names and all(place[b] < place[a] for b, a in needs):
                yield tuple(ending)


def _linear_extensions(count: int, before: set[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    """Sequences of 0..count−1 that start with 0 and respect the pairs."""

    def grow(done: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(done) == count:
            yield done
            return
        for o in range(1, count):
            if o not in done and all(b in done for b, a in before if a == o):
                yield from grow((*done, o))

    if not any(a == 0 for _, a in before):
        yield from grow((0,))
