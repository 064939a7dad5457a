"""Every call on all GPUs, each cut in its own way: the simplest placement, and the check of rules on sharding by size.

A set of choices fits when on every GPU  Σ static bytes + the largest active bytes <= usable bytes. The choice is
greedy, so it is no best plan (`ropewalk plan` proves one); where it finds nothing, nothing of this kind fits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ropewalk.plan.cluster import Cluster
from ropewalk.planner.estimate.calibration import Calibration
from ropewalk.planner.estimate.cost import estimate
from ropewalk.planner.estimate.footprint import Footprint, footprint
from ropewalk.planner.estimate.place import Place, place
from ropewalk.planner.estimate.work import CallWork, Shard, Strategy

TP = (1, 2, 4, 8)
MOST_PP = 16
MOST_MICRO_BATCHES = 64
MOST_GPUS = 4096
CAPS = 24
"""Levels of active bytes that are tried."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to run one call."""

    work: CallWork
    strategy: Strategy
    bytes: Footprint
    seconds: float = 0.0
    """Of one iteration; 0 where it was not asked for."""


@dataclass(frozen=True, slots=True)
class Colocated:
    """A choice for every call, by the call's name."""

    choices: Mapping[str, Choice]

    @property
    def seconds(self) -> float:
        """Of one iteration, the calls one after another."""
        return sum(choice.seconds for choice in self.choices.values())

    @property
    def bytes(self) -> float:
        """On every GPU at the fullest moment."""
        static = sum(choice.bytes.static_bytes for choice in self.choices.values())
        return static + max(choice.bytes.active_bytes for choice in self.choices.values())


@dataclass(frozen=True, slots=True)
class Rung:
    """One way to shard a trained model, from the simplest on."""

    name: str
    strategy: Strategy
    bytes: float
    """Per GPU, states and activations, with micro-batches as small as they can be."""
    fits: bool
    seconds: float | None
    """Of an iteration's training; None where it does not fit."""


def colocate(works: Sequence[CallWork], where: Place, constants: Calibration) -> Colocated | None:
    """The calls on one mesh, or None where they do not fit together."""
    usable = constants.usable_share * where.gpu.memory_bytes
    ways = [_options(work, where, constants, usable) for work in works]
    if not all(ways):
        return None
    timed = [[replace(way, seconds=_seconds(way, where, constants)) for way in call] for call in ways]
    found = [kept for cap in _caps(ways) if (kept := _assign(timed, cap, usable))]
    return min(found, key=lambda kept: kept.seconds, default=None)


def fits(works: Sequence[CallWork], where: Place, constants: Calibration) -> bool:
    """Whether the calls fit together on one mesh, in any of the ways looked at."""
    usable = constants.usable_share * where.gpu.memory_bytes
    ways = [_options(work, where, constants, usable) for work in works]
    return all(ways) and any(_least(ways, cap) <= usable - cap for cap in _caps(ways))


def fewest_gpus(works: Sequence[CallWork], cluster: Cluster, constants: Calibration) -> int | None:
    """The smallest mesh of the cluster's first kind of node on which the calls fit; None beyond 4,096 GPUs."""
    for gpus in mesh_sizes(cluster.groups[0].gpus_per_node):
        if fits(works, place(resized(cluster, gpus), 0, gpus), constants):
            return gpus
    return None


def resized(cluster: Cluster, gpus: int) -> Cluster:
    """A cluster of `gpus` in nodes of the first kind, the last one filled."""
    group = cluster.groups[0]
    return replace(cluster, groups=(replace(group, nodes=-(-gpus // group.gpus_per_node)),))


def mesh_sizes(gpus_per_node: int) -> Iterator[int]:
    """Divisors of a node, then whole nodes in steps of about a quarter."""
    yield from (size for size in range(1, gpus_per_node + 1) if gpus_per_node % size == 0)
    nodes = 2
    while nodes * gpus_per_node <= MOST_GPUS:
        yield nodes * gpus_per_node
        nodes += max(1, nodes // 4)


def ladder(work: CallWork, where: Place, constants: Calibration) -> tuple[Rung, ...]:
    """A train call sharded more and more: nothing, the optimizer, everything, tensor and pipeline parallel."""
    usable = constants.usable_share * where.gpu.memory_bytes
    rungs = []
    for name, strategy in _steps(work, where):
        ways = [_choice(work, replace(strategy, micro_batches=m), constants) for m in _micro_batches(work, strategy.dp)]
        smallest = min(ways, key=_total)
        fitting = [way for way in ways if _total(way) <= usable]
        seconds = min((_seconds(way, where, constants) for way in fitting), default=None)
        rungs.append(Rung(name, strategy, _total(smallest), bool(fitting), seconds))
    return tuple(rungs)


def _steps(work: CallWork, where: Place) -> Iterator[tuple[str, Strategy]]:
    gpus = where.gpus
    yield "data parallel, nothing sharded", Strategy(dp=gpus, shard="none")
    yield "ZeRO-1", Strategy(dp=gpus, shard="optimizer")
    yield "ZeRO-3", Strategy(dp=gpus, shard="full")
    tps = [tp for tp in TP if tp > 1 and _cuts(work, where, tp, 1)]
    for tp in tps:
        yield f"tp {tp}, ZeRO-1", Strategy(dp=gpus // tp, tp=tp)
    widest = max(tps, default=1)
    for pp in (2, 4, 8, 16):
        if _cuts(work, where, widest, pp):
            yield f"tp {widest}, pp {pp}, ZeRO-1", Strategy(dp=gpus // (widest * pp), tp=widest, pp=pp)


def _options(work: CallWork, where: Place, constants: Calibration, usable: float) -> list[Choice]:
    """Ways that fit alone."""
    found = (_choice(work, strategy, constants) for strategy in _strategies(work, where))
    return [choice for choice in found if _total(choice) <= usable]


def _choice(work: CallWork, strategy: Strategy, constants: Calibration) -> Choice:
    return Choice(work, strategy, footprint(work, strategy, constants))


def _strategies(work: CallWork, where: Place) -> Iterator[Strategy]:
    frozen = work.kind == "forward" and not work.trained
    shards: tuple[Shard, ...] = ("optimizer", "full") if work.kind == "train" else ("optimizer",)
    for tp in TP:
        for pp in range(1, MOST_PP + 1):
            if not _cuts(work, where, tp, pp):
                continue
            dp = where.gpus // (tp * pp)
            for shard in shards if dp > 1 else shards[:1]:
                for micro in _micro_batches(work, dp):
                    for offload in (False, True) if frozen else (False,):
                        yield Strategy(dp, tp, pp, 1, micro, offload, shard)


def _cuts(work: CallWork, where: Place, tp: int, pp: int) -> bool:
    """Whether a mesh and a model can be cut so: tp within a node, no idle data-parallel rank."""
    if where.gpus % (tp * pp) or where.gpus_per_node % tp or work.shape.heads % tp or pp > work.shape.layers:
        return False
    return where.gpus // (tp * pp) <= max(1, work.amount.sequences // work.amount.unit)


def _micro_batches(work: CallWork, dp: int) -> Iterator[int]:
    most = max(1, work.amount.sequences // (work.amount.unit * dp))
    count = 1
    while count <= min(most, MOST_MICRO_BATCHES):
        yield count
        count *= 2


def _total(choice: Choice) -> float:
    return choice.bytes.static_bytes + choice.bytes.active_bytes


def _seconds(choice: Choice, where: Place, constants: Calibration) -> float:
    return estimate(choice.work, choice.strategy, where, constants).seconds


def _caps(ways: Sequence[Sequence[Choice]]) -> list[float]:
    """Levels of active bytes, from the least that every call can keep to."""
    least = max(min(way.bytes.active_bytes for way in call) for call in ways)
    levels = sorted({way.bytes.active_bytes for call in ways for way in call if way.bytes.active_bytes >= least})
    return levels[:: max(1, len(levels) // CAPS)]


def _least(ways: Sequence[Sequence[Choice]], cap: float) -> float:
    """Static bytes if every call takes its smallest way with at most `cap` active bytes."""
    return sum(min(way.bytes.static_bytes for way in call if way.bytes.active_bytes <= cap) for call in ways)


def _assign(ways: Sequence[Sequence[Choice]], cap: float, usable: float) -> Colocated | None:
    """The fastest way of every call, then the cheapest exchanges for smaller ones until all fit."""
    if _least(ways, cap) > usable - cap:
        return None
    allowed = [_frontier([way for way in call if way.bytes.active_bytes <= cap]) for call in ways]
    at = [0] * len(allowed)
    while sum(call[i].bytes.static_bytes for call, i in zip(allowed, at, strict=True)) > usable - cap:
        steps = [
            (_rate(call[i], call[i + 1]), n)
            for n, (call, i) in enumerate(zip(allowed, at, strict=True))
            if call[i + 1 :]
        ]
        at[min(steps)[1]] += 1
    return Colocated({call[i].work.name: call[i] for call, i in zip(allowed, at, strict=True)})


def _frontier(ways: Sequence[Choice]) -> list[Choice]:
    """From the fastest on, each slower one that is smaller."""
    kept: list[Choice] = []
    for way in sorted(ways, key=lambda way: (way.seconds, way.bytes.static_bytes)):
        if not kept or way.bytes.static_bytes < kept[-1].bytes.static_bytes:
            kept.append(way)
    return kept


def _rate(now: Choice, then: Choice) -> float:
    """Seconds lost per byte won."""
    return (then.seconds - now.seconds) / (now.bytes.static_bytes - then.bytes.static_bytes)
