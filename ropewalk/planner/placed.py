"""A plan as people see it: for every call its ranks, its strategy, its time and its memory; and its predicted timeline.

Also the way back: any such plan, found or written by hand, becomes a problem with one candidate a call and is judged by
the same arithmetic as the search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ropewalk.plan.profile import ProfileTable
from ropewalk.planner.case.describe import Case
from ropewalk.planner.estimate.calibration import calibration
from ropewalk.planner.estimate.cost import Estimate, estimate
from ropewalk.planner.estimate.footprint import Footprint, footprint
from ropewalk.planner.estimate.place import place
from ropewalk.planner.estimate.work import CallWork, Strategy, works
from ropewalk.planner.moving.experts import model_table
from ropewalk.planner.moving.move import Geometries, Shares
from ropewalk.planner.search.kernels import bound, dispatch, evaluate, fill, scratch
from ropewalk.planner.search.problem import FAR, Candidate, Ints, Mesh, Problem, order_tables
from ropewalk.planner.search.schedule import Mode, Order, schedule
from ropewalk.records.errors import InputError
from ropewalk.records.span import Span


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one call runs, and how it is cut."""

    first_rank: int
    gpus: int
    strategy: Strategy

    @property
    def ranks(self) -> range:
        return range(self.first_rank, self.first_rank + self.gpus)


@dataclass(frozen=True, slots=True)
class PlacedCall:
    """One call of a judged plan."""

    work: CallWork
    placement: Placement
    estimate: Estimate
    footprint: Footprint
    """A copy of the weights that the call shares with its training, on the same ranks in the same cut, is not in it."""


@dataclass(frozen=True, slots=True)
class PlacedMove:
    """Parameters on their way from where they are trained to where they are used."""

    role: str
    source: str
    target: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Judged:
    """A plan and what the model of times says of it."""

    calls: Mapping[str, PlacedCall]
    moves: tuple[PlacedMove, ...]
    order: tuple[str, ...]
    """Operations in the order they are dispatched in each round, moves among them."""
    late: tuple[str, ...]
    """Those of the order that belong to the iteration before."""
    early: tuple[str, ...]
    """Those that belong to the iteration after: moves that open it."""
    period_seconds: float
    plan_bound_seconds: float
    """What no order of dispatch can beat with these placements."""
    binding: tuple[str, ...]
    """Operations of which no two can overlap and whose times make up that bound; empty where the area does."""
    cell_bytes: tuple[tuple[int, int, float, float], ...]
    """(first rank, GPUs, bytes needed on each, usable bytes), by the smallest pieces of the cluster."""
    spans: tuple[Span, ...]
    """Of a few steady iterations; lanes are runs of ranks."""

    @property
    def fits(self) -> bool:
        return all(need <= usable for _, _, need, usable in self.cell_bytes)


def judge(
    case: Case,
    placements: Mapping[str, Placement],
    *,
    mode: Mode = "synchronous",
    order: Order | None = None,
    profile: ProfileTable | None = None,
) -> Judged:
    """Judge a plan under its best order, or under a given one. Raises InputError for calls that are not there."""
    jobs = works(case.graph, case.shapes, case.workload)
    _check(case, jobs, placements)
    problem, usable = problem_of_placements(case, jobs, placements, mode=mode, profile=profile)
    room, plan = scratch(problem.tables), problem.tables.call_start[:-1].copy()
    fill_all = np.full_like(problem.tables.cell_bytes, FAR)
    orders = problem.orders if order is None else order_tables(problem.schedule, [order])
    period, chosen = evaluate(problem.tables._replace(cell_bytes=fill_all), orders, plan, room)
    needs = room.room.sum(axis=0)
    used = problem.schedule.orders[chosen] if order is None else order
    floor = bound(problem.tables.cycles, room.ops, room.bits, room.stack)
    names = problem.schedule.names
    times = [float(x) for x in room.ops[0]]
    return Judged(
        calls=_placed(case, jobs, placements, profile),
        moves=tuple(
            PlacedMove(move.role, names[move.source], names[move.target], times[problem.schedule.calls + j])
            for j, move in enumerate(problem.schedule.moves)
        ),
        order=tuple(names[o] for o in used.sequence),
        late=tuple(names[o] for o in used.sequence if used.shift[o] > 0),
        early=tuple(names[o] for o in used.sequence if used.shift[o] < 0),
        period_seconds=float(period),
        plan_bound_seconds=float(floor),
        binding=_binding(names, times, [int(x) for x in room.bits[2]], floor),
        cell_bytes=tuple(
            (first, gpus, float(need), float(limit))
            for first, gpus, need, limit in zip(_firsts(problem), problem.cell_gpus, needs, usable, strict=True)
        ),
        spans=timeline(problem, plan, used),
    )


def problem_of_placements(
    case: Case,
    jobs: Sequence[CallWork],
    placements: Mapping[str, Placement],
    *,
    mode: Mode = "synchronous",
    profile: ProfileTable | None = None,
) -> tuple[Problem, tuple[float, ...]]:
    """The problem whose only plan this is, on cells cut where its meshes begin and end; and their usable bytes."""
    constants = calibration(case.calibration)
    plan = schedule(case.graph, mode)
    edges = {0, case.cluster.gpus}
    for spot in placements.values():
        edges |= {spot.first_rank, spot.first_rank + spot.gpus}
    first = 0
    for group in case.cluster.groups:
        first += group.gpus
        edges.add(first)
    cuts = sorted(edges)
    cell_of = {rank: i for i, rank in enumerate(cuts)}
    usable = tuple(case.cluster.group_of(rank).gpu.memory_bytes * constants.usable_share for rank in cuts[:-1])
    spots = [placements[job.name] for job in jobs]
    meshes = tuple(
        Mesh(
            cell_of[spot.first_rank],
            cell_of[spot.first_rank + spot.gpus] - cell_of[spot.first_rank],
            spot.first_rank,
            spot.gpus,
        )
        for spot in spots
    )
    placed = _placed(case, jobs, placements, profile)
    candidates = tuple(
        (
            Candidate(
                i, spot.strategy, 0, found.estimate.seconds, found.footprint.static_bytes, found.footprint.active_bytes
            ),
        )
        for i, (spot, found) in enumerate(zip(spots, placed.values(), strict=True))
    )
    shares = Shares(constants.inside_share, constants.between_share)
    tables = tuple(
        model_table(
            jobs[move.source].shape,
            _geometry(spots[move.source]),
            _geometry(spots[move.target]),
            (_ways(spots[move.source]), _ways(spots[move.target])),
            case.cluster,
            shares=shares,
        )
        for move in plan.moves
    )
    sizes = tuple(b - a for a, b in pairwise(cuts))
    return Problem(plan, meshes, candidates, tables, sizes, usable), usable


def timeline(problem: Problem, plan: Ints, order: Order, *, iterations: int = 3, settle: int = 8) -> tuple[Span, ...]:
    """When every operation of a few steady iterations runs; time 0 is the first start among them."""
    tables, room = problem.tables, scratch(problem.tables)
    rows = order_tables(problem.schedule, [order])
    fill(tables.candidates, tables.meshes, tables.moves, tables.prices, plan, room.ops, room.bits)
    calls, candidates = problem.schedule.calls, problem.chosen([int(k) for k in plan])
    found = []
    for turn in range(settle + iterations + 2):
        dispatch(rows.sequence[0], rows.waits[0], room.ops, room.bits, room.history)
        for o in order.sequence:
            iteration = turn - order.shift[o] - settle
            if 0 <= iteration < iterations and room.ops[0, o] > 0:
                found.append((o, iteration, float(room.history[0, o] - room.ops[0, o]), float(room.history[0, o])))
    start = min((begin for _, _, begin, _ in found), default=0.0)
    spans = []
    for o, iteration, begin, end in sorted(found, key=lambda row: row[2]):
        at = [o] if o < calls else [problem.schedule.moves[o - calls].source, problem.schedule.moves[o - calls].target]
        runs = [problem.meshes[c.mesh] for c in (candidates[call] for call in at)]
        for mesh in dict.fromkeys(runs):
            lane = f"ranks {mesh.first_rank}-{mesh.first_rank + mesh.gpus - 1}"
            info = {"iteration": iteration, "first_rank": mesh.first_rank, "gpus": mesh.gpus}
            spans.append(Span(problem.schedule.names[o], lane, begin - start, end - start, info))
    return tuple(spans)


def _placed(
    case: Case, jobs: Sequence[CallWork], placements: Mapping[str, Placement], profile: ProfileTable | None
) -> dict[str, PlacedCall]:
    constants = calibration(case.calibration)
    trained = {job.role: placements[job.name] for job in jobs if job.kind == "train"}
    found = {}
    for job in jobs:
        spot = placements[job.name]
        where = place(case.cluster, spot.first_rank, spot.gpus)
        need = footprint(job, spot.strategy, constants)
        home = trained.get(job.role)
        if job.kind != "train" and home is not None and _geometry_key(home) == _geometry_key(spot):
            need = Footprint(need.static, {item: size for item, size in need.active.items() if item != "weights copy"})
        found[job.name] = PlacedCall(job, spot, estimate(job, spot.strategy, where, constants, profile), need)
    return found


def _geometry_key(spot: Placement) -> tuple[object, ...]:
    s = spot.strategy
    return spot.first_rank, s.dp, s.tp, s.pp, s.ep, s.shard == "full"


def _geometry(spot: Placement) -> Geometries:
    s = spot.strategy
    return Geometries.of([(spot.first_rank, s.dp, s.tp, s.pp)], full=s.shard == "full")


def _ways(spot: Placement) -> Ints:
    return np.array([spot.strategy.ep], np.int64)


def _check(case: Case, jobs: Sequence[CallWork], placements: Mapping[str, Placement]) -> None:
    """Raises InputError for a call without a place, or one that cannot be cut so."""
    for job in jobs:
        if job.name not in placements:
            raise InputError(
                f"the plan says nothing of call {job.name!r}: give each of {[j.name for j in jobs]} a place"
            )
        spot, s = placements[job.name], placements[job.name].strategy
        if spot.first_rank < 0 or spot.first_rank + spot.gpus > case.cluster.gpus:
            raise InputError(
                f"call {job.name!r} is placed on ranks {spot.first_rank} to {spot.first_rank + spot.gpus - 1}, and "
                f"cluster {case.cluster.name!r} has {case.cluster.gpus}: plan for this cluster, or give the other one"
            )
        if s.gpus != spot.gpus:
            raise InputError(
                f"call {job.name!r} has {spot.gpus} ranks for dp {s.dp} x tp {s.tp} x pp {s.pp}: make them equal"
            )
        if job.shape.heads % s.tp:
            raise InputError(
                f"call {job.name!r} has tp {s.tp}, which does not divide {job.shape.heads} heads: give a divisor"
            )
        if s.pp > job.shape.layers:
            raise InputError(f"call {job.name!r} has pp {s.pp} for {job.shape.layers} layers: give fewer stages")
    unknown = sorted(set(placements) - {job.name for job in jobs})
    if unknown:
        raise InputError(f"the plan places {unknown}, which this method does not call: leave them out")


def _binding(names: Sequence[str], times: Sequence[float], adjacent: Sequence[int], floor: float) -> tuple[str, ...]:
    """A set of operations, no two of which can overlap, whose times add up to the bound."""
    count = len(names)
    for chosen in range(1, 1 << count):
        members = [o for o in range(count) if chosen >> o & 1 and times[o] > 0]
        if abs(sum(times[o] for o in members) - floor) <= 1e-9 * floor and all(
            adjacent[a] >> b & 1 for a in members for b in members if a != b
        ):
            return tuple(names[o] for o in members)
    return ()


def _firsts(problem: Problem) -> list[int]:
    return [int(x) for x in np.concatenate([[0], np.cumsum(problem.cell_gpus)[:-1]])]
