"""Plans as files: from a plan that was found to what is written, and from a file to a plan that can be judged.

Writing and reading again gives the same plan: the same places and cuts, and so the same period to the last digit.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path

from ropewalk.plan.cluster import Cluster
from ropewalk.plan.execution import CallPlan, ExecutionPlan
from ropewalk.plan.layout import Layout
from ropewalk.plan.profile import ProfileTable
from ropewalk.plan.workload import Workload
from ropewalk.planner.case.describe import Case
from ropewalk.planner.estimate.work import CallWork, Strategy, works
from ropewalk.planner.placed import Judged, Placement, judge
from ropewalk.planner.planning import Planned
from ropewalk.planner.search.schedule import MODES, Mode, Order, schedule
from ropewalk.records.errors import InputError


def written(planned: Planned) -> ExecutionPlan:
    """The plan file of a plan."""
    case, judged, asked = planned.case, planned.judged, planned.asked
    jobs = {job.name: job for job in works(case.graph, case.shapes, case.workload)}
    calls = {name: _written(jobs[name], placed.placement) for name, placed in judged.calls.items()}
    return ExecutionPlan(
        calls=calls,
        order=tuple(name for name in judged.order if name in calls),
        late=tuple(name for name in judged.late if name in calls),
        estimate_seconds=judged.period_seconds,
        bound_seconds=planned.bound_seconds,
        provenance={
            "planner": f"ropewalk {version('ropewalk')}",
            "case": case.name,
            "method": case.method,
            "cluster": case.cluster.name,
            "cluster_fingerprint": fingerprint(case.cluster),
            "calibration": case.calibration,
            "workload": workload_text(case.workload),
            "models": models_text(case),
            "mode": asked.mode,
            "seed": str(asked.seed),
            "gap": f"{planned.gap:.6f}",
        },
    )


def fingerprint(cluster: Cluster) -> str:
    """What tells clusters apart that a plan cannot be carried between: their figures, not their names and prices."""
    groups = []
    for group in asdict(cluster)["groups"]:
        gpu = group["gpu"]
        figures = {key: gpu[key] for key in ("flops", "memory_bytes", "memory_bytes_per_second")}
        groups.append({**group, "gpu": figures})
    links = [cluster.between_bytes_per_second, cluster.between_latency_seconds]
    return hashlib.sha256(json.dumps([groups, links], sort_keys=True).encode()).hexdigest()[:12]


def workload_text(workload: Workload) -> str:
    """prompts x samples : prompt + answer tokens, means where lengths differ."""
    prompt, answer = workload.prompt_tokens.mean, workload.generated_tokens.mean
    counts = (("mini-batches", workload.minibatches), ("epochs", workload.epochs))
    steps = "".join(f", {count} {what}" for what, count in counts if count > 1)
    return f"{workload.prompts}x{workload.group_size}:{prompt:.6g}+{answer:.6g}{steps}, {workload.dtype}"


def models_text(case: Case) -> str:
    """Every role with the number of its parameters."""
    return ", ".join(f"{role} {shape.parameters:,}" for role, shape in case.shapes.items())


def differences(case: Case, plan: ExecutionPlan) -> list[str]:
    """What a plan file says it was made for, where that is something else than what it is judged for here."""
    here = {
        "method": case.method,
        "calibration": case.calibration,
        "workload": workload_text(case.workload),
        "models": models_text(case),
    }
    said = {what: plan.provenance.get(what, value) for what, value in here.items()}
    return [
        f"the plan was made for {what} {said[what]!r}, and is judged for {value!r}: plan again for that"
        for what, value in here.items()
        if said[what] != value
    ]


def misjudged(plan: ExecutionPlan, judged: Judged) -> list[str]:
    """Where the seconds that a file claims are not those of its plan."""
    said = plan.estimate_seconds
    if said is None or math.isclose(said, judged.period_seconds, rel_tol=1e-6):
        return []
    return [f"the file says {said:.4g} s an iteration, and here it is {judged.period_seconds:.4g} s: plan again"]


def read_plan(path: Path) -> ExecutionPlan:
    """The plan of a file. Raises InputError naming the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a plan file, which is JSON in UTF-8: name a file made with --out") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): name a plan file made with --out") from None
    try:
        return ExecutionPlan.from_json(text)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def mode_of(plan: ExecutionPlan) -> Mode:
    """What a plan was made for; synchronous unless it says otherwise."""
    said = plan.provenance.get("mode", "synchronous")
    for mode in MODES:
        if mode == said:
            return mode
    raise InputError(f"this plan was made for mode {said!r}, which is not known: give one of {', '.join(MODES)}")


def problems(case: Case, plan: ExecutionPlan, *, mode: Mode = "synchronous") -> list[str]:
    """Why a plan cannot be carried out for a case, one sentence each; none if it can (but for memory)."""
    elsewhere = _elsewhere(case, plan)
    if elsewhere:
        return elsewhere
    jobs = {job.name: job for job in works(case.graph, case.shapes, case.workload)}
    found = _listing("places", list(plan.calls), list(jobs))
    for name, call in plan.calls.items():
        if name in jobs:
            found += [f"call {name!r} {problem}" for problem in _impossible(jobs[name], call, case.cluster)]
    listing = _listing("orders", list(plan.order), list(jobs))
    listing += _strange("calls late", plan.late, list(jobs))
    late = [name for name in plan.late if name in jobs and name not in plan.order]
    listing += [f"call {name!r} is late, and the order does not name it: add it" for name in late]
    if not listing and not matching(case, plan, mode):
        listing.append(
            f"the order {_shown(plan.order, plan.late)} lets a call run before what it waits for: "
            f"one that does not is {_one_order(case, mode)}"
        )
    return [*found, *listing]


def placements_in(case: Case, plan: ExecutionPlan) -> dict[str, Placement]:
    """By call, where a plan file puts it. The plan has no problems."""
    jobs = works(case.graph, case.shapes, case.workload)
    return {job.name: _placement(job, plan.calls[job.name]) for job in jobs}


def matching(case: Case, plan: ExecutionPlan, mode: Mode = "synchronous") -> list[Order]:
    """The dispatch orders that a plan's list of calls leaves open: where a move stands is not in the file."""
    found = schedule(case.graph, mode)
    late = set(plan.late)
    return [
        order
        for order in found.orders
        if tuple(found.names[o] for o in order.sequence if o < found.calls) == plan.order
        and {found.names[o] for o in range(found.calls) if order.shift[o] > 0} == late
    ]


def judge_plan(
    case: Case, plan: ExecutionPlan, *, mode: Mode = "synchronous", profile: ProfileTable | None = None
) -> Judged:
    """Judge a plan file without problems under its own order of calls."""
    places = placements_in(case, plan)
    judged = [judge(case, places, mode=mode, order=order, profile=profile) for order in matching(case, plan, mode)]
    return min(judged, key=lambda found: found.period_seconds)


def _written(work: CallWork, spot: Placement) -> CallPlan:
    s = spot.strategy
    layout = Layout(tuple(spot.ranks), dp=s.dp, tp=s.tp, pp=s.pp, ep=s.ep, shard=s.shard)
    tokens = _tokens_of(_shard_tokens(work, s.dp), s.micro_batches)
    recompute = s.recompute and work.kind == "train"
    return CallPlan(layout, micro_batch_tokens=tokens, offload=s.offload, recompute=recompute)


def _placement(work: CallWork, call: CallPlan) -> Placement:
    at, total = call.layout, _shard_tokens(work, call.layout.dp)
    rows = -(-work.amount.sequences // at.dp)
    strategy = Strategy(
        dp=at.dp,
        tp=at.tp,
        pp=at.pp,
        ep=at.ep,
        micro_batches=min(_count_of(total, call.micro_batch_tokens), rows),
        offload=call.offload,
        shard=at.shard,
        recompute=call.recompute or work.kind != "train",
    )
    return Placement(min(at.ranks), len(at.ranks), strategy)


def _shard_tokens(work: CallWork, dp: int) -> float:
    """Tokens of the fullest dp rank, of one optimizer step where the call trains."""
    return -(-work.amount.sequences // dp) * work.amount.length


def _tokens_of(total: float, count: int) -> int:
    return max(1, math.ceil(total / count - 1e-9))


def _count_of(total: float, tokens: int) -> int:
    """Micro-batches under a budget. Of the counts that it may stand for a power of two is meant, if there is one."""
    fewest = max(1, math.ceil(total / tokens - 1e-9))
    power = 1 << (fewest - 1).bit_length()
    return power if _tokens_of(total, power) == tokens else fewest


def _elsewhere(case: Case, plan: ExecutionPlan) -> list[str]:
    said = plan.provenance.get("cluster_fingerprint")
    if said is None or said == fingerprint(case.cluster):
        return []
    name = plan.provenance.get("cluster", "another one")
    return [
        f"this plan was made for cluster {name!r} ({said}), and here is {case.cluster.name!r} "
        f"({fingerprint(case.cluster)}): plan for this one, or take cluster_fingerprint out to judge it here"
    ]


def _listing(verb: str, given: Sequence[str], known: Sequence[str]) -> list[str]:
    """Calls that are missing, unknown or named twice."""
    found = []
    for name in known:
        if name not in given:
            found.append(f"the plan {verb} no call {name!r}: add it")
        elif given.count(name) > 1:
            found.append(f"the plan {verb} call {name!r} twice: name it once")
    return [*found, *_strange(verb, given, known)]


def _strange(verb: str, given: Sequence[str], known: Sequence[str]) -> list[str]:
    """Calls that the method does not have."""
    strange = [name for name in dict.fromkeys(given) if name not in known]
    near = {name: get_close_matches(name, known, n=1, cutoff=0.0)[0] for name in strange}
    return [
        f"the plan {verb} a call {name!r}, which this method does not have: did you mean {near[name]!r}?"
        for name in strange
    ]


def _impossible(work: CallWork, call: CallPlan, cluster: Cluster) -> list[str]:
    at, shape = call.layout, work.shape
    first, last = min(at.ranks), max(at.ranks)
    found = []
    if work.kind != "train" and (at.shard != "none" or call.recompute):
        what = "recompute" if call.recompute else f"shard {at.shard!r}"
        found.append(f"has {what}, which is for a call that trains, and this one does not: leave it out")
    if first < 0 or last >= cluster.gpus:
        found.append(f"is placed on ranks {first} to {last}, and cluster {cluster.name!r} has 0 to {cluster.gpus - 1}")
    if at.ranks != tuple(range(first, first + len(at.ranks))):
        found.append("has ranks that are not consecutive and ascending: give it one run of neighbouring ranks")
    if shape.heads % at.tp:
        found.append(f"has tp {at.tp}, which does not divide {shape.heads} heads: give a divisor")
    if at.pp > shape.layers:
        found.append(f"has pp {at.pp} for {shape.layers} layers: give fewer stages")
    if at.dp > work.amount.sequences:
        found.append(f"has dp {at.dp} for {work.amount.sequences} sequences of a step: give fewer replicas")
    if at.ep > 1 and shape.experts is None:
        found.append(f"has ep {at.ep}, and its model has no experts: give 1")
    elif shape.experts and (shape.experts.count % at.ep or (at.dp * at.tp) % at.ep):
        counts = f"{shape.experts.count} experts on dp x tp = {at.dp * at.tp} ranks"
        found.append(f"has ep {at.ep} for {counts}: give a divisor of both")
    return found


def _shown(order: Sequence[str], late: Sequence[str]) -> str:
    return " → ".join(order) + (f" (late: {', '.join(late)})" if late else "")


def _one_order(case: Case, mode: Mode) -> str:
    """Some order of dispatch that a plan may have, without its moves."""
    found = schedule(case.graph, mode)
    calls, order = range(found.calls), found.orders[0]
    named = [found.names[o] for o in order.sequence if o in calls]
    return _shown(named, [found.names[o] for o in calls if order.shift[o] > 0])


def as_mapping(plans: Sequence[tuple[str, ExecutionPlan]]) -> Mapping[str, ExecutionPlan]:
    """Plans by name; a name that comes twice is numbered."""
    found: dict[str, ExecutionPlan] = {}
    for name, plan in plans:
        number, free = 2, name
        while free in found:
            free, number = f"{name} ({number})", number + 1
        found[free] = plan
    return found
