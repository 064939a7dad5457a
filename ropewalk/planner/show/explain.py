"""Why a plan is this one: what binds its period, how far it can be from the best, and what the next best would cost."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from ropewalk.plan.profile import ProfileTable
from ropewalk.planner.case.describe import Case
from ropewalk.planner.estimate.work import Strategy
from ropewalk.planner.jit import COMPILED
from ropewalk.planner.placed import Judged, PlacedCall, Placement
from ropewalk.planner.planning import Asked, Planned
from ropewalk.planner.search.candidates import problem_of
from ropewalk.planner.search.kernels import evaluate_all, scratch
from ropewalk.planner.search.problem import FAR, Candidate, Problem
from ropewalk.planner.search.robust import NOISE, Robust
from ropewalk.planner.search.temper import polished, search
from ropewalk.records.errors import InputError

TRIED = 10_000 if COMPILED else 100
"""Most candidates of a call that are put in its place one by one, the fastest first."""


@dataclass(frozen=True, slots=True)
class Second:
    """What happens if one call may not run as the plan has it."""

    call: str
    chosen: Placement
    other: Placement | None
    """Where the call runs then; None if nothing else fits."""
    period_seconds: float | None
    ratio: float | None
    """How much longer iterations are: 1.02 is 2 %."""


def robustness(found: Robust) -> str:
    """What a plan chosen by its regret comes to at worst, beside the fastest one."""
    chosen, fastest = found.worst, found.fastest
    return (
        f"with every time off by up to {NOISE:.0%} an iteration takes at worst {chosen.period_seconds:.4g} s, and at "
        f"most {chosen.regret:.2%} more than the best of {found.looked_at} plans in the same case; the fastest plan: "
        f"{fastest.period_seconds:.4g} s, {fastest.regret:.2%}"
    )


def second_best(
    planned: Planned,
    *,
    budget_seconds: float = 0.5,
    profile: ProfileTable | None = None,
    told: Callable[[str], None] = lambda call: None,
) -> tuple[Second, ...]:
    """For each call the best plan found in which it has another number of GPUs, or another cut.

    The same number of the same GPUs elsewhere does not count as another choice: on equal nodes a mirrored plan is as
    good. What is found is a plan, so the price is what one pays at most.
    """
    problem = problem_of(planned.case, mode=planned.asked.mode, profile=profile)
    asked = replace(planned.asked, budget_seconds=budget_seconds)
    here = [_number(problem, call, planned) for call in range(problem.schedule.calls)]
    found = []
    for call, name in enumerate(problem.schedule.names[: problem.schedule.calls]):
        told(name)
        found.append(_second(problem, call, here, planned, asked))
    return tuple(found)


def _number(problem: Problem, call: int, planned: Planned) -> int:
    """Of the call's candidate that the plan has taken, among all candidates."""
    spot = planned.judged.calls[problem.schedule.names[call]].placement
    for i, candidate in enumerate(problem.candidates[call]):
        mesh = problem.meshes[candidate.mesh]
        if (mesh.first_rank, mesh.gpus, candidate.strategy) == (spot.first_rank, spot.gpus, spot.strategy):
            return problem.offset(call) + i
    raise ValueError(f"{spot} of the plan is not a candidate")


def _second(problem: Problem, call: int, here: Sequence[int], planned: Planned, asked: Asked) -> Second:
    name = problem.schedule.names[call]
    chosen = planned.judged.calls[name].placement
    kept = [c for c in problem.candidates[call] if not _same_choice(planned.case, problem, c, chosen)]
    best = _without(problem, call, kept, here, asked) if kept else None
    if best is None:
        return Second(name, chosen, None, None, None)
    candidate, period = best
    mesh = problem.meshes[candidate.mesh]
    other = Placement(mesh.first_rank, mesh.gpus, candidate.strategy)
    return Second(name, chosen, other, period, period / planned.judged.period_seconds)


def _without(
    problem: Problem, call: int, kept: Sequence[Candidate], here: Sequence[int], asked: Asked
) -> tuple[Candidate, float] | None:
    """The best plan with one of these candidates: from the given one with this call replaced, and from a search."""
    rest = replace(problem, candidates=(*problem.candidates[:call], tuple(kept), *problem.candidates[call + 1 :]))
    lost = len(problem.candidates[call]) - len(kept)
    tried = sorted(range(len(kept)), key=lambda i: kept[i].seconds)[:TRIED]
    plans = np.tile(np.array([n - lost * (c > call) for c, n in enumerate(here)], dtype=np.int64), (len(tried), 1))
    plans[:, call] = rest.offset(call) + np.array(tried)
    periods, orders = np.zeros(len(tried)), np.zeros(len(tried), dtype=np.int64)
    evaluate_all(rest.tables, rest.orders, plans, scratch(rest.tables), periods, orders)
    starts = [(float(periods.min()), tuple(int(k) for k in plans[periods.argmin()]))]
    with suppress(InputError):  # nothing fits that the search can find; the replaced plan may
        found = search(rest, seed=asked.seed, budget_seconds=asked.budget_seconds / 2)
        starts.append((found.period_seconds, found.plan))
    period, plan = min(starts)
    if not period < FAR:
        return None
    plan, period = polished(rest, plan, period, budget_seconds=asked.budget_seconds / 2 if COMPILED else 0.0)
    return rest.chosen(plan)[call], period


def _same_choice(case: Case, problem: Problem, candidate: Candidate, chosen: Placement) -> bool:
    mesh = problem.meshes[candidate.mesh]
    return (
        mesh.gpus == chosen.gpus
        and _cut(candidate.strategy) == _cut(chosen.strategy)
        and case.cluster.group_of(mesh.first_rank) == case.cluster.group_of(chosen.first_rank)
    )


def _cut(strategy: Strategy) -> tuple[object, ...]:
    return strategy.dp, strategy.tp, strategy.pp, strategy.ep, strategy.shard


@dataclass(frozen=True, slots=True)
class Binding:
    """An operation on the chain that makes up the bound of a plan's period."""

    name: str
    seconds: float
    share: float
    """Of the period."""


def binding(judged: Judged) -> tuple[Binding, ...]:
    """The operations that bind, in the order they are dispatched; none where no such chain makes up the bound."""
    times = operation_seconds(judged)
    order = [name for name in judged.order if name in judged.binding]
    return tuple(Binding(name, times[name], times[name] / judged.period_seconds) for name in order)


def operation_seconds(judged: Judged) -> dict[str, float]:
    """Of calls and moves, by the names they are dispatched under."""
    calls = {name: placed.estimate.seconds for name, placed in judged.calls.items()}
    return calls | {f"move to {move.target}": move.seconds for move in judged.moves}


def busy_share(judged: Judged, gpus: int) -> float:
    """Share of all GPU-seconds in which a call runs."""
    used = sum(placed.estimate.seconds * placed.placement.gpus for placed in judged.calls.values())
    return used / (judged.period_seconds * gpus)


def why(judged: Judged, gpus: int) -> list[str]:
    """What holds the period, in sentences."""
    bound, waiting = judged.plan_bound_seconds, judged.period_seconds - judged.plan_bound_seconds
    chain = binding(judged)
    idle = 1.0 - busy_share(judged, gpus)
    if chain:
        parts = " + ".join(f"{part.name} {part.seconds:.3g} s" for part in chain)
        said = [f"no two of these can overlap, and together they take {bound:.4g} s: {parts}"]
    else:
        said = [
            f"with these places no order can be shorter than {bound:.4g} s: the work of all calls together, or a cycle "
            "over several iterations, fills it"
        ]
    late = f"; {waiting:.3g} s of waiting come on top" if waiting > 1e-6 * bound else "; nothing waits on top of it"
    said.append(f"an iteration takes {judged.period_seconds:.4g} s{late}; GPUs stand idle for {idle:.0%} of their time")
    slowest = max(judged.calls.values(), key=lambda placed: placed.estimate.seconds)
    said.append(f"the longest call is {slowest.work.name} with {slowest.estimate.seconds:.3g} s: {_parts(slowest)}")
    return said


def certificate(gap: float, bound_seconds: float, *, optimal: bool) -> str:
    """The gap in words."""
    if optimal and gap <= 1e-9:
        return "this plan is the best of the space: the search was complete, and no order of dispatch can beat it"
    if optimal:
        return (
            f"no plan of the space is faster in the listed orders of dispatch (the search was complete), and under any "
            f"order whatsoever none takes less than {bound_seconds:.4g} s, which this one is {gap:.2%} above"
        )
    return (
        f"no plan in this space can be more than {gap:.2%} faster, under any order of dispatch: none takes less than "
        f"{bound_seconds:.4g} s"
    )


def _parts(placed: PlacedCall, most: int = 3) -> str:
    parts: Sequence[tuple[str, float]] = sorted(placed.estimate.parts.items(), key=lambda pair: -pair[1])
    total = placed.estimate.seconds
    return ", ".join(f"{name} {seconds / total:.0%}" for name, seconds in parts[:most] if seconds > 0)
