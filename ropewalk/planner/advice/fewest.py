"""The fewest GPUs of one kind on which an iteration fits, every call on all of them, in any way the planner knows.

A set of ways fits when on every GPU  Σ static bytes + the largest active bytes <= usable bytes; so it is enough to try
every level of active bytes, each with the smallest statics below it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from ropewalk.plan.cluster import NodeGroup
from ropewalk.planner.case.describe import Case
from ropewalk.planner.estimate.calibration import calibration
from ropewalk.planner.estimate.footprint import footprint
from ropewalk.planner.estimate.place import place
from ropewalk.planner.estimate.work import CallWork, works
from ropewalk.planner.search.candidates import cuts

MOST_GPUS = 4096


@dataclass(frozen=True, slots=True)
class Fewest:
    """How many, of which kind, and how many of that kind there are."""

    gpus: int | None
    """None: more than 4,096."""
    kind: str
    have: int

    @property
    def met(self) -> bool:
        return self.gpus is not None and self.gpus <= self.have


def fewest_gpus(case: Case, calls: Sequence[str] = ()) -> Fewest:
    """For some calls of a case, or all; of the kinds of its cluster the one that needs the smallest share of what
    there is of it."""
    groups: dict[str, NodeGroup] = {}
    have: dict[str, int] = {}
    for group in case.cluster.groups:
        groups.setdefault(group.gpu.name, group)
        have[group.gpu.name] = have.get(group.gpu.name, 0) + group.gpus
    jobs = [job for job in works(case.graph, case.shapes, case.workload) if not calls or job.name in calls]
    found = [Fewest(_fewest(case, jobs, group), kind, have[kind]) for kind, group in groups.items()]
    return min(found, key=lambda few: (few.gpus or float("inf")) / few.have)


def fits(case: Case, jobs: Sequence[CallWork]) -> bool:
    """Whether calls fit together on the whole of the case's cluster."""
    constants = calibration(case.calibration)
    where = place(case.cluster, 0, case.cluster.gpus)
    usable = constants.usable_share * where.gpu.memory_bytes
    ways = []
    for job in jobs:
        needs = (footprint(job, strategy, constants) for cut in cuts(job, where, case.space) for strategy in cut)
        ways.append([(need.active_bytes, need.static_bytes) for need in needs])
    return all(ways) and _together(ways, usable)


def resized(case: Case, group: NodeGroup, gpus: int) -> Case:
    """The case on `gpus` of one kind: a part of a node, or whole nodes."""
    each = min(gpus, group.gpus_per_node)
    nodes = replace(group, nodes=-(-gpus // each), gpus_per_node=each)
    return replace(case, cluster=replace(case.cluster, groups=(nodes,)))


def mesh_sizes(gpus_per_node: int) -> Iterator[int]:
    """Divisors of a node, then whole nodes in steps of about a quarter."""
    yield from (size for size in range(1, gpus_per_node + 1) if gpus_per_node % size == 0)
    nodes = 2
    while nodes * gpus_per_node <= MOST_GPUS:
        yield nodes * gpus_per_node
        nodes += max(1, nodes // 4)


def _fewest(case: Case, jobs: Sequence[CallWork], group: NodeGroup) -> int | None:
    usable = calibration(case.calibration).usable_share * group.gpu.memory_bytes
    for gpus in mesh_sizes(group.gpus_per_node):
        if _floor(jobs) <= gpus * usable and fits(resized(case, group, gpus), jobs):
            return gpus
    return None


def _floor(jobs: Sequence[CallWork]) -> float:
    """States that no way to cut or to offload makes smaller, over all GPUs."""
    trained = {job.role: job for job in jobs if job.kind == "train" and job.lora_rank is None}
    return float(sum(2 * job.shape.parameters for job in trained.values()))


def _together(ways: Sequence[Sequence[tuple[float, float]]], usable: float) -> bool:
    """Whether some level of active bytes leaves room for the smallest statics below it."""
    levels = sorted({active for call in ways for active, _ in call})
    smallest = []
    for call in ways:
        ordered = sorted(call)
        least = dict(zip((active for active, _ in ordered), accumulate((s for _, s in ordered), min), strict=True))
        now, row = float("inf"), []
        for level in levels:
            now = min(now, least.get(level, now))
            row.append(now)
        smallest.append(row)
    return any(level + sum(row[i] for row in smallest) <= usable for i, level in enumerate(levels))
