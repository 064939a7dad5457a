"""Why a plan is this one: what binds its period, how far it can be from the best, and what the next best would cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ropewalk.plan.profile import ProfileTable
from ropewalk.planner.case.describe import Case
from ropewalk.planner.estimate.work import Strategy
from ropewalk.planner.placed import Judged, PlacedCall, Placement
from ropewalk.planner.planning import Asked, Planned, solve
from ropewalk.planner.search.candidates import problem_of
from ropewalk.planner.search.problem import FAR, Candidate, Problem


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


def seconds_best(
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
    asked = replace(planned.asked, budget_seconds=budget_seconds, gap=0.002, baselines=False)
    found = []
    for number, name in enumerate(problem.schedule.names[: problem.schedule.calls]):
        told(name)
        found.append(_second(problem, number, name, planned, asked))
    return tuple(found)


def _second(problem: Problem, number: int, name: str, planned: Planned, asked: Asked) -> Second:
    chosen = planned.judged.calls[name].placement
    case = planned.case
    kept = tuple(c for c in problem.candidates[number] if not _same_choice(case, problem, c, chosen))
    if not kept:
        return Second(name, chosen, None, None, None)
    rest = (*problem.candidates[:number], kept, *problem.candidates[number + 1 :])
    without = replace(problem, candidates=rest)
    _, proof = solve(without, asked)
    if not proof.period_seconds < FAR:
        return Second(name, chosen, None, None, None)
    candidate = without.chosen(proof.plan)[number]
    mesh = without.meshes[candidate.mesh]
    other = Placement(mesh.first_rank, mesh.gpus, candidate.strategy)
    return Second(name, chosen, other, proof.period_seconds, proof.period_seconds / planned.judged.period_seconds)


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
            f"order whatsoever none takes less than {bound_seconds:.4g} s, {gap:.2%} below this one's period"
        )
    return (
        f"no plan in this space can be more than {gap:.2%} faster, under any order of dispatch: none takes less than "
        f"{bound_seconds:.4g} s"
    )


def _parts(placed: PlacedCall, most: int = 3) -> str:
    parts: Sequence[tuple[str, float]] = sorted(placed.estimate.parts.items(), key=lambda pair: -pair[1])
    total = placed.estimate.seconds
    return ", ".join(f"{name} {seconds / total:.0%}" for name, seconds in parts[:most] if seconds > 0)
