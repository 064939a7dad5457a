"""From a case to the planning problem: every way to run every call, what fits, and what is worth keeping.

A candidate goes only where another one of the same call on the same mesh is at least as good in everything: seconds,
bytes held, bytes at the peak, and the price of every move from or to it. So no plan is lost that could be best.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ropewalk.plan.cluster import Cluster
from ropewalk.plan.profile import ProfileTable
from ropewalk.planner.case.describe import Case
from ropewalk.planner.case.space import Space
from ropewalk.planner.estimate.calibration import Calibration, calibration
from ropewalk.planner.estimate.cost import estimate
from ropewalk.planner.estimate.footprint import footprint
from ropewalk.planner.estimate.place import Place, place
from ropewalk.planner.estimate.work import CallWork, Strategy, works
from ropewalk.planner.moving.experts import model_table
from ropewalk.planner.moving.move import Geometries, Shares
from ropewalk.planner.search.meshes import Cells, cells
from ropewalk.planner.search.problem import Candidate, Floats, Ints, Mesh, Problem
from ropewalk.planner.search.schedule import Mode, Schedule, schedule
from ropewalk.records.errors import InputError

YEAR = 365.25 * 24 * 3600
LONGEST_SECONDS = 1000 * YEAR
"""Of a call: above it something that was given is a mistake."""
MOST_UNEVEN = 1.15
"""Layers of the fullest stage times the stages, over all layers."""


@dataclass(frozen=True, slots=True)
class Option:
    """A strategy on a mesh of one kind, with its price."""

    strategy: Strategy
    seconds: float
    static_bytes: float
    active_bytes: float

    @property
    def peak_bytes(self) -> float:
        return self.static_bytes + self.active_bytes


@dataclass
class Pricing:
    """Options by (call, kind of place), worked out once for all meshes of that kind."""

    cluster: Cluster
    space: Space
    constants: Calibration
    profile: ProfileTable | None = None
    known: dict[tuple[object, ...], tuple[Option, ...]] = field(default_factory=dict)
    priced: int = 0

    def options(self, work: CallWork, mesh: Mesh, memory_bytes: float) -> tuple[Option, ...]:
        """What fits in a GPU's memory, alone; none of it worse in everything than another of the same cut."""
        where = place(self.cluster, mesh.first_rank, mesh.gpus)
        key = (work.name, *_kind(where), memory_bytes)
        if key not in self.known:
            self.known[key] = tuple(self._price(work, where, memory_bytes))
        return self.known[key]

    def _price(self, work: CallWork, where: Place, memory_bytes: float) -> Iterator[Option]:
        for cut in cuts(work, where, self.space):
            found = []
            for strategy in cut:
                need = footprint(work, strategy, self.constants)
                if need.static_bytes + need.active_bytes <= memory_bytes:
                    seconds = estimate(work, strategy, where, self.constants, self.profile).seconds
                    found.append(Option(strategy, seconds, need.static_bytes, need.active_bytes))
                self.priced += 1
            yield from undominated(found)


def _kind(where: Place) -> tuple[object, ...]:
    return (
        where.gpu.name,
        where.gpus,
        where.gpus_per_node,
        where.inside_bytes_per_second,
        where.inside_latency_seconds,
        where.host_bytes_per_second,
    )


def cuts(work: CallWork, where: Place, space: Space) -> Iterator[list[Strategy]]:
    """Strategies of a call on a mesh; those of one list differ only in micro-batches and offloading."""
    shape, gpus = work.shape, where.gpus
    for tp in space.tp:
        if gpus % tp or shape.heads % tp or where.gpus_per_node % tp:
            continue
        for pp in range(1, min(space.pp_max, gpus // tp, shape.layers) + 1):
            if (gpus // tp) % pp or not _stages_allowed(shape.layers, pp, space):
                continue
            dp = gpus // tp // pp
            if dp > work.amount.sequences:
                continue
            for ep in space.ep:
                if ep > 1 and (shape.experts is None or shape.experts.count % ep or (dp * tp) % ep):
                    continue
                for shard in space.shard if work.kind == "train" else ("none",):
                    yield _variants(work, space, Strategy(dp=dp, tp=tp, pp=pp, ep=ep, shard=shard))


def _stages_allowed(layers: int, pp: int, space: Space) -> bool:
    fullest = -(-layers // pp) * pp
    return fullest == layers or (space.uneven_stages and fullest <= MOST_UNEVEN * layers)


def _variants(work: CallWork, space: Space, cut: Strategy) -> list[Strategy]:
    replica = -(-work.amount.sequences // cut.dp)
    counts = [2**i for i in range(replica.bit_length()) if 2**i <= replica]
    parked = (False, True) if space.offload and work.kind == "forward" and not work.trained else (False,)
    return [
        Strategy(cut.dp, cut.tp, cut.pp, cut.ep, micro_batches=m, offload=offload, shard=cut.shard)
        for m in counts
        for offload in parked
    ]


def undominated(options: Sequence[Option]) -> list[Option]:
    """Those that no other beats, or equals, in seconds, bytes held and bytes at the peak."""
    kept: list[Option] = []
    for option in sorted(options, key=lambda o: (o.seconds, o.static_bytes, o.peak_bytes)):
        if not any(k.static_bytes <= option.static_bytes and k.peak_bytes <= option.peak_bytes for k in kept):
            kept.append(option)
    return kept


def problem_of(
    case: Case,
    *,
    mode: Mode = "synchronous",
    profile: ProfileTable | None = None,
    only: Callable[[Mesh], bool] | None = None,
    prune: bool = True,
) -> Problem:
    """The planning problem of a case, over the meshes that `only` lets through. Raises InputError naming a call that
    fits nowhere and what would help. Without pruning every way to cut a call is kept, also those that cannot be best.
    """
    constants = calibration(case.calibration)
    plan = schedule(case.graph, mode)
    pieces = cells(case.cluster, case.space)
    if only is not None:
        pieces = replace(pieces, meshes=tuple(mesh for mesh in pieces.meshes if only(mesh)))
    usable = tuple(bytes_ * constants.usable_share for bytes_ in pieces.memory_bytes)
    pricing = Pricing(case.cluster, case.space, constants, profile)
    jobs = works(case.graph, case.shapes, case.workload)
    offered = []
    for job in jobs:
        per_mesh = [pricing.options(job, mesh, _least(usable, mesh)) for mesh in pieces.meshes]
        if not any(per_mesh):
            raise InputError(fits_nowhere(job, pricing, pieces, max(usable)))
        fastest = min(option.seconds for options in per_mesh for option in options)
        if not fastest < LONGEST_SECONDS:
            raise InputError(
                f"call {job.name!r} takes {fastest:.3g} s under every plan, which is over {LONGEST_SECONDS / YEAR:.0f} "
                "years: check the FLOP/s and bandwidths of the cluster, and the workload"
            )
        offered.append(per_mesh)
    listed, cuts_of = _numbered(offered, plan, prune=prune)
    tables = [
        model_table(
            jobs[move.source].shape,
            _geometries(cuts_of[move.source], pieces),
            _geometries(cuts_of[move.target], pieces),
            (_ways(cuts_of[move.source]), _ways(cuts_of[move.target])),
            case.cluster,
            shares=Shares(constants.inside_share, constants.between_share),
        )
        for move in plan.moves
    ]
    kept = [_prune(call, rows, plan, tables) if prune else rows for call, rows in enumerate(listed)]
    ordered = tuple(tuple(sorted(rows, key=lambda c: (c.mesh, c.seconds))) for rows in kept)
    return Problem(plan, pieces.meshes, ordered, tuple(tables), pieces.gpus, usable)


def _numbered(
    offered: Sequence[Sequence[tuple[Option, ...]]], plan: Schedule, *, prune: bool
) -> tuple[list[list[Candidate]], list[list[tuple[int, Strategy]]]]:
    """By call: its candidates, and the (mesh, cut) behind every geometry number. Where no move depends on the cut, an
    option that another on the same mesh beats in everything is left out."""
    moved = {call for move in plan.moves for call in (move.source, move.target)}
    listed: list[list[Candidate]] = []
    cuts_of: list[list[tuple[int, Strategy]]] = []
    for call, per_mesh in enumerate(offered):
        known: dict[tuple[object, ...], int] = {}
        cut_of: list[tuple[int, Strategy]] = []
        rows = []
        for mesh, options in enumerate(per_mesh):
            for option in options if call in moved or not prune else undominated(options):
                s = option.strategy
                number = known.setdefault((mesh, s.dp, s.tp, s.pp, s.ep, s.shard), len(known))
                if number == len(cut_of):
                    cut_of.append((mesh, s))
                rows.append(Candidate(mesh, s, number, option.seconds, option.static_bytes, option.active_bytes))
        listed.append(rows)
        cuts_of.append(cut_of)
    return listed, cuts_of


def _geometries(cuts_of: Sequence[tuple[int, Strategy]], pieces: Cells) -> Geometries:
    plain = Geometries.of((pieces.meshes[mesh].first_rank, s.dp, s.tp, s.pp) for mesh, s in cuts_of)
    return replace(plain, full=np.array([s.shard == "full" for _, s in cuts_of], dtype=bool))


def _ways(cuts_of: Sequence[tuple[int, Strategy]]) -> Ints:
    return np.array([s.ep for _, s in cuts_of], np.int64)


def _prune(call: int, rows: list[Candidate], plan: Schedule, tables: Sequence[Floats]) -> list[Candidate]:
    """Drop what another candidate on the same mesh equals or beats in everything, moves included."""
    prices = [tables[j] for j, move in enumerate(plan.moves) if move.source == call]
    prices += [tables[j].T for j, move in enumerate(plan.moves) if move.target == call]
    if not prices:
        return rows
    price = np.concatenate(prices, axis=1)
    kept: list[Candidate] = []
    by_mesh: dict[int, list[Candidate]] = {}
    cheaper: dict[tuple[int, int], bool] = {}
    for row in sorted(rows, key=lambda c: (c.mesh, c.seconds, c.static_bytes, c.static_bytes + c.active_bytes)):
        mine = by_mesh.setdefault(row.mesh, [])
        if not any(_beats(other, row, price, cheaper) for other in mine):
            mine.append(row)
            kept.append(row)
    return kept


def _beats(one: Candidate, other: Candidate, price: Floats, cheaper: dict[tuple[int, int], bool]) -> bool:
    if (
        one.static_bytes > other.static_bytes
        or one.static_bytes + one.active_bytes > other.static_bytes + other.active_bytes
    ):
        return False
    pair = (one.geometry, other.geometry)
    if pair not in cheaper:
        cheaper[pair] = pair[0] == pair[1] or bool((price[pair[0]] <= price[pair[1]]).all())
    return cheaper[pair]


def _least(usable: Sequence[float], mesh: Mesh) -> float:
    return min(usable[mesh.first_cell : mesh.first_cell + mesh.cells])


def fits_nowhere(job: CallWork, pricing: Pricing, pieces: Cells, usable: float) -> str:
    """One sentence: how much the call needs at least, of what, and what would make it fit."""
    best: tuple[float, dict[str, float]] | None = None
    for mesh in pieces.meshes:
        for cut in cuts(job, place(pricing.cluster, mesh.first_rank, mesh.gpus), pricing.space):
            for strategy in cut:
                need = footprint(job, strategy, pricing.constants)
                bytes_ = need.static_bytes + need.active_bytes
                if best is None or bytes_ < best[0]:
                    best = bytes_, {**need.static, **need.active}
    if best is None:
        return _no_cut(job, pricing, pieces)
    largest = max(best[1], key=lambda item: best[1][item])
    return (
        f"call {job.name!r} of role {job.role!r} needs at least {best[0] / 1e9:.3g} GB on each GPU under every plan, "
        f"of {usable / 1e9:.3g} GB usable (mostly {largest}, {best[1][largest] / 1e9:.3g} GB): {_mend(job, largest)}"
    )


def _no_cut(job: CallWork, pricing: Pricing, pieces: Cells) -> str:
    """Why a call cannot be cut on any mesh, whatever memory it needs."""
    space, places = pricing.space, [place(pricing.cluster, mesh.first_rank, mesh.gpus) for mesh in pieces.meshes]
    if any(True for where in places for _ in cuts(job, where, replace(space, ep=(1,)))):
        experts = f"the {job.shape.experts.count} experts" if job.shape.experts else "no experts, as there are none,"
        return f"no ep of {list(space.ep)} spreads {experts} of {job.name!r} on any mesh: give 1 among them"
    if any(job.shape.heads % tp == 0 and where.gpus_per_node % tp == 0 for where in places for tp in space.tp):
        smallest = min(where.gpus for where in places)
        return (
            f"call {job.name!r} has {job.amount.sequences:,} sequences of a step, too few for the replicas that "
            f"{smallest:,} GPUs, the smallest mesh, make of its {job.shape.layers} layers and {job.shape.heads} heads: "
            "take fewer GPUs, more prompts, or smaller meshes (slice_sizes, blocks)"
        )
    tp, heads = list(space.tp), job.shape.heads
    return f"no tp of {tp} divides the {heads} heads of {job.name!r} on any mesh: give other tp sizes"


def _mend(job: CallWork, largest: str) -> str:
    trained = job.kind == "train" and job.lora_rank is None
    mends = {
        "KV": "shorten the answers or take more GPUs",
        "logits": "take a smaller batch or more GPUs",
        "activations": "take shorter sequences, or more GPUs",
    }
    states = "take more GPUs, or train LoRA adapters of the role" if trained else "take more GPUs or a smaller model"
    return mends.get(largest, states)
