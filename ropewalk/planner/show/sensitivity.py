"""What if: the same plan and a new one on a slower network, with longer answers, with more GPUs; time and cost.

Every change is a pure function of a case. The same plan is judged again; where it would not fit, that is said.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ropewalk.plan.cluster import Cluster
from ropewalk.plan.profile import ProfileTable
from ropewalk.planner.case.describe import Case
from ropewalk.planner.placed import Judged, Placement, judge
from ropewalk.planner.planning import Asked, Planned, plan_case
from ropewalk.planner.show.mend import grown, on_cluster, scaled
from ropewalk.records.errors import InputError

ITERATIONS = 1000
"""For which costs are given."""

Placements: TypeAlias = Mapping[str, Placement]


@dataclass(frozen=True, slots=True)
class Cost:
    """Of so many iterations."""

    period_seconds: float
    gpu_hours: float
    dollars: float | None
    """None where a GPU has no price."""
    dollars_how: Literal["given", "assumed"]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One change."""

    name: str
    """For machines: stays the same."""
    words: str
    gpus: int
    same: Cost | None
    """With the plan as it is; None if it does not fit then, or cannot be carried over."""
    new: Cost | None
    """With a plan found for the changed case; None if nothing fits."""


def cost(period_seconds: float, cluster: Cluster) -> Cost:
    """GPU-hours and dollars of `ITERATIONS` iterations; every GPU is paid for all the time."""
    hours = ITERATIONS * period_seconds / 3600
    prices = [(group.gpus, group.gpu) for group in cluster.groups]
    known = all(gpu.dollars_per_hour is not None for _, gpu in prices)
    dollars = hours * sum(count * (gpu.dollars_per_hour or 0.0) for count, gpu in prices) if known else None
    given = all(gpu.dollars_source == "given" for _, gpu in prices)
    return Cost(period_seconds, hours * cluster.gpus, dollars, "given" if given else "assumed")


def slower_network(case: Case) -> Case:
    """The network between nodes is half as fast."""
    cluster = case.cluster
    return replace(case, cluster=replace(cluster, between_bytes_per_second=cluster.between_bytes_per_second / 2))


def slower_memory(case: Case) -> Case:
    """The GPUs' own memory is half as fast."""
    groups = tuple(
        replace(group, gpu=replace(group.gpu, memory_bytes_per_second=group.gpu.memory_bytes_per_second / 2))
        for group in case.cluster.groups
    )
    return replace(case, cluster=replace(case.cluster, groups=groups))


def longer_answers(case: Case) -> Case:
    """Answers are twice as long."""
    return replace(case, workload=replace(case.workload, generated_tokens=scaled(case.workload.generated_tokens, 2)))


def larger_batch(case: Case) -> Case:
    """Twice the prompts of an iteration."""
    return replace(case, workload=replace(case.workload, prompts=2 * case.workload.prompts))


def twice_the_gpus(case: Case) -> Case:
    """Twice the nodes."""
    return grown(case, 2)


def more_generation(case: Case, placements: Placements) -> tuple[Case, list[dict[str, Placement]]] | None:
    """As many GPUs more as generate, in whole nodes of their kind; and the same plan with its generation spread over
    twice the ranks, in the ways to place it. None where nothing generates."""
    makers = [call.name for call in case.graph.of_kind("generate")]
    if not makers:
        return None
    spot, first, groups, end = placements[makers[0]], 0, [], 0
    for group in case.cluster.groups:
        if first <= spot.first_rank < first + group.gpus:
            more = -(-spot.gpus // group.gpus_per_node)
            end, added = first + group.gpus, more * group.gpus_per_node
            groups.append(replace(group, nodes=group.nodes + more))
        else:
            groups.append(group)
        first += group.gpus
    cluster = replace(case.cluster, name=f"{case.cluster.name} + {added}", groups=tuple(groups))
    moved = {
        name: replace(at, first_rank=at.first_rank + added) if at.first_rank >= end else at
        for name, at in placements.items()
    }
    wide = replace(spot.strategy, dp=2 * spot.strategy.dp)
    starts = dict.fromkeys((spot.first_rank, end + added - 2 * spot.gpus))
    spread = [{**moved, makers[0]: Placement(start, 2 * spot.gpus, wide)} for start in starts if start >= 0]
    straddles = any(at.first_rank < end < at.first_rank + at.gpus for at in placements.values())
    return on_cluster(case, cluster), [] if straddles else [*spread, moved]


Changed: TypeAlias = tuple[str, str, Case, list[Placements]]


def changes(planned: Planned) -> list[Changed]:
    """(name, words, the changed case, ways to carry the plan over)."""
    case = planned.case
    places = {name: placed.placement for name, placed in planned.judged.calls.items()}
    found: list[Changed] = []
    if case.cluster.nodes > 1:
        found.append(("network_half", "the network between nodes is half as fast", slower_network(case), [places]))
    if case.graph.of_kind("generate"):
        found.append(("answers_double", "answers are twice as long", longer_answers(case), [places]))
    more = more_generation(case, places)
    if more is not None:
        bigger, ways = more
        extra = bigger.cluster.gpus - case.cluster.gpus
        found.append(("generation_gpus_double", f"twice the GPUs for generation (+{extra})", bigger, [*ways]))
    found.append(("gpus_double", "twice the GPUs", twice_the_gpus(case), [places]))
    found.append(("memory_half", "the GPUs' memory is half as fast", slower_memory(case), [places]))
    found.append(("batch_double", "twice the prompts of an iteration", larger_batch(case), [places]))
    return found


def sensitivity(
    planned: Planned,
    *,
    budget_seconds: float = 0.5,
    profile: ProfileTable | None = None,
    told: Callable[[str], None] = lambda words: None,
) -> tuple[WhatIf, ...]:
    """All changes, each judged with the old plan and with a new one."""
    asked = replace(planned.asked, budget_seconds=budget_seconds, gap=0.01, baselines=False, robust=False)
    found = []
    for name, words, case, ways in changes(planned):
        told(words)
        same = _same(case, ways, planned, profile)
        new = _new(case, asked, profile)
        if new is None or (same is not None and same.period_seconds < new.period_seconds):
            new = same
        found.append(WhatIf(name, words, case.cluster.gpus, same, new))
    return tuple(found)


def _same(case: Case, ways: list[Placements], planned: Planned, profile: ProfileTable | None) -> Cost | None:
    judged: list[Judged] = []
    for places in ways:
        try:
            judged.append(judge(case, places, mode=planned.asked.mode, profile=profile))
        except InputError:
            continue
    fitting = [found.period_seconds for found in judged if found.fits]
    return cost(min(fitting), case.cluster) if fitting else None


def _new(case: Case, asked: Asked, profile: ProfileTable | None) -> Cost | None:
    try:
        return cost(plan_case(case, asked, profile=profile).judged.period_seconds, case.cluster)
    except InputError:
        return None
