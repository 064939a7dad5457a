"""What would make a plan, or any plan at all, fit in memory: found by trying it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from ropewalk.plan.cluster import Cluster
from ropewalk.plan.workload import Lengths
from ropewalk.planner.case.describe import Case
from ropewalk.planner.case.graphs import trained_roles
from ropewalk.planner.case.space import default_space
from ropewalk.planner.estimate.work import CallWork, Strategy, works
from ropewalk.planner.placed import Placement, judge
from ropewalk.planner.planning import Asked, plan_case
from ropewalk.planner.search.schedule import Mode
from ropewalk.records.errors import InputError

LORA_RANK = 16
MOST_TIMES = 8
"""So many times the GPUs are tried at most."""


@dataclass(frozen=True, slots=True)
class Mend:
    """One thing to change, and what came of trying it."""

    what: str
    period_seconds: float | None
    """Of a plan that fits then; None if still none does."""
    over_bytes: float = 0.0
    """What the fullest GPU still lacks, where that is known."""


def mends_of_case(
    case: Case, *, mode: Mode = "synchronous", budget_seconds: float = 0.3, told: Callable[[str], None] = lambda _: None
) -> tuple[Mend, ...]:
    """What would let some plan fit, each change alone; those that help come first, by their periods."""
    found = []
    for what, changed in _changed_cases(case):
        told(what)
        found.append(Mend(what, fitting_period(changed, mode=mode, budget_seconds=budget_seconds)))
    for times in (2, 4, MOST_TIMES):
        told(f"{times} x the GPUs")
        period = fitting_period(grown(case, times), mode=mode, budget_seconds=budget_seconds)
        if period is not None or times == MOST_TIMES:
            found.append(Mend(f"{times * case.cluster.gpus} GPUs in place of {case.cluster.gpus}", period))
            break
    return tuple(sorted(found, key=_helpful))


def fitting_period(case: Case, *, mode: Mode = "synchronous", budget_seconds: float = 0.3) -> float | None:
    """Of a good plan that fits, or None."""
    asked = Asked(gap=0.1, budget_seconds=budget_seconds, mode=mode, baselines=False)
    try:
        return plan_case(case, asked).judged.period_seconds
    except InputError:
        return None


def grown(case: Case, times: int) -> Case:
    """The case on so many times the nodes."""
    groups = tuple(replace(group, nodes=times * group.nodes) for group in case.cluster.groups)
    cluster = replace(case.cluster, name=f"{times} x {case.cluster.name}", groups=groups)
    return on_cluster(case, cluster)


def on_cluster(case: Case, cluster: Cluster) -> Case:
    """The case on another cluster, with the meshes that are usual there."""
    sizes = default_space(cluster, case.shapes).slice_sizes
    kept = tuple(size for size in case.space.slice_sizes if size in sizes)
    return replace(case, cluster=cluster, space=replace(case.space, slice_sizes=kept))


def mends_of_plan(case: Case, placements: Mapping[str, Placement], *, mode: Mode = "synchronous") -> tuple[Mend, ...]:
    """What would let this very plan fit, one call changed at a time; those that help come first, by their periods."""
    found = []
    for job in works(case.graph, case.shapes, case.workload):
        spot = placements[job.name]
        for what, strategy in _changed_strategies(case, job, spot):
            judged = judge(case, {**placements, job.name: replace(spot, strategy=strategy)}, mode=mode)
            over = max(need - usable for _, _, need, usable in judged.cell_bytes)
            period = judged.period_seconds if judged.fits else None
            found.append(Mend(f"{job.name}: {what}", period, max(over, 0.0)))
    return tuple(sorted(found, key=_helpful))


def _helpful(mend: Mend) -> tuple[bool, float]:
    return mend.period_seconds is None, mend.over_bytes if mend.period_seconds is None else mend.period_seconds


def _changed_cases(case: Case) -> Iterator[tuple[str, Case]]:
    space, work = case.space, case.workload
    if "full" not in space.shard:
        yield "shard all states of training (ZeRO-3)", replace(case, space=replace(space, shard=(*space.shard, "full")))
    if not space.offload:
        yield "offload frozen parameters to the host", replace(case, space=replace(space, offload=True))
    widest = max(group.gpus_per_node for group in case.cluster.groups)
    wider = tuple(tp for tp in (2, 4, 8) if tp <= widest and tp not in space.tp)
    if wider:
        yield f"tp {', '.join(map(str, wider))}", replace(case, space=replace(space, tp=(*space.tp, *wider)))
    roles = [role for role in sorted(trained_roles(case.graph)) if role not in (work.lora_rank or {})]
    if roles:
        ranks = {**(work.lora_rank or {}), **dict.fromkeys(roles, LORA_RANK)}
        adapted = replace(case, workload=replace(work, lora_rank=ranks))
        yield f"train LoRA adapters of rank {LORA_RANK} on {', '.join(roles)}", adapted
    if work.generated_tokens.longest > 1:
        yield (
            "answers half as long",
            replace(case, workload=replace(work, generated_tokens=scaled(work.generated_tokens, 0.5))),
        )
    if work.prompts > work.minibatches and work.prompts > 1:
        fewer = replace(work, prompts=max(work.prompts // 2, work.minibatches))
        yield "half the prompts of an iteration", replace(case, workload=fewer)


def scaled(lengths: Lengths, factor: float) -> Lengths:
    """Every length so many times as long."""
    return Lengths(tuple(max(round(tokens * factor), min(tokens, 1)) for tokens in lengths.tokens), lengths.weights)


def _changed_strategies(case: Case, job: CallWork, spot: Placement) -> Iterator[tuple[str, Strategy]]:
    now = spot.strategy
    if job.kind == "train":
        yield from _sharded(now)
    parked = "the optimizer" if job.kind == "train" else "the parameters"
    if not now.offload and (job.kind == "train" or (job.kind == "forward" and not job.trained)):
        yield f"offload {parked} to the host", replace(now, offload=True)
    most = -(-job.amount.sequences // now.dp)
    pieces = "waves of sequences" if job.kind == "generate" else "micro-batches"
    for count in sorted({min(now.micro_batches * times, most) for times in (4, 16, most)}):
        if count > now.micro_batches:
            yield f"{count} {pieces} in place of {now.micro_batches}", replace(now, micro_batches=count)
    node = case.cluster.group_of(spot.first_rank).gpus_per_node
    for tp in (2, 4, 8):
        dp, rest = divmod(now.dp * now.tp, tp)
        if tp > now.tp and not rest and node % tp == 0 and job.shape.heads % tp == 0 and (dp * tp) % now.ep == 0:
            yield f"tp {tp}, dp {dp} in place of tp {now.tp}, dp {now.dp}", replace(now, tp=tp, dp=dp)


def _sharded(now: Strategy) -> Iterator[tuple[str, Strategy]]:
    if now.shard == "none":
        yield "shard the optimizer (ZeRO-1)", replace(now, shard="optimizer")
    if now.shard != "full" and now.dp > 1:
        yield "shard all states (ZeRO-3)", replace(now, shard="full")
    if not now.recompute:
        yield "recompute activations", replace(now, recompute=True)
