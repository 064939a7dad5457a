"""From a case to a plan with its certificate: search, prove, compare with the baselines, choose.

case ──▶ problem ──▶ temper ──▶ branch and bound ──▶ plan, period, bound
              └─────▶ baselines
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ropewalk.plan.profile import ProfileTable
from ropewalk.planner.case.describe import Case
from ropewalk.planner.jit import COMPILED
from ropewalk.planner.placed import Judged, Placement, judge
from ropewalk.planner.search.baselines import Baseline, asymmetric, classical, heuristic, symmetric
from ropewalk.planner.search.candidates import problem_of
from ropewalk.planner.search.kernels import evaluate, scratch
from ropewalk.planner.search.problem import Problem
from ropewalk.planner.search.prove import Proof, prove
from ropewalk.planner.search.robust import Robust, least_regret
from ropewalk.planner.search.schedule import Mode, Order
from ropewalk.planner.search.temper import Found, polished, search
from ropewalk.records.errors import InputError

SEARCH_SHARE = 0.1
POLISH_SHARE = 0.2
"""Of the budget that goes to tempering, and at most to polishing, before the proof."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How hard to look."""

    gap: float = 0.0
    """Certified gap at which to stop; 0 asks for the best plan itself."""
    budget_seconds: float = 5.0
    """Of search and proof. The problem is built before it starts, and baselines are looked for after it."""
    seed: int = 0
    mode: Mode = "synchronous"
    robust: bool = False
    """Choose, among the best plans, the one whose worst regret under noisy times is least."""
    baselines: bool = True


@dataclass(frozen=True, slots=True)
class Compared:
    """A baseline, and how much longer its iterations take."""

    name: str
    about: str
    period_seconds: float | None
    """None where no plan of that kind fits in memory."""
    ratio: float | None
    placements: dict[str, Placement]


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, judged and certified."""

    case: Case
    asked: Asked
    judged: Judged
    bound_seconds: float
    """No schedule of any plan of the space has a shorter period."""
    gap: float
    optimal: bool
    """The search is complete: no plan of the space is better under the listed orders."""
    compared: tuple[Compared, ...]
    candidates: dict[str, int]
    """By call, how many ways to run it were left after the memory filter and dominance."""
    orders: int
    nodes: int
    proposals: int
    build_seconds: float
    search_seconds: float
    proof_seconds: float
    robust: Robust | None = None
    """In robust mode: what the chosen plan and the fastest one come to when every time may be off."""


def plan_case(
    case: Case,
    asked: Asked | None = None,
    *,
    profile: ProfileTable | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Planned:
    """Plan a case. Raises InputError where nothing fits, with what would make it fit."""
    asked = asked or Asked()
    began = clock()
    problem = problem_of(case, mode=asked.mode, profile=profile)
    problem.tables, problem.orders  # noqa: B018 - built now, so that they count as building
    built = clock() - began
    found, proof = solve(problem, asked, clock=clock)
    robust = None
    if asked.robust:
        robust = least_regret(problem, [proof.plan, *(plan for _, plan in found.best)], seed=asked.seed)
    chosen = proof.plan if robust is None else robust.plan
    order = order_of(problem, chosen)
    judged = judge(case, placements_of(problem, chosen), mode=asked.mode, order=order, profile=profile)
    return Planned(
        case=case,
        asked=asked,
        judged=judged,
        bound_seconds=proof.bound_seconds,
        gap=judged.period_seconds / proof.bound_seconds - 1.0,
        optimal=proof.epsilon == 0.0,
        compared=tuple(compare(case, problem, judged.period_seconds, asked, profile)) if asked.baselines else (),
        candidates={
            name: len(options) for name, options in zip(problem.schedule.names, problem.candidates, strict=False)
        },
        orders=len(problem.schedule.orders),
        nodes=proof.nodes,
        proposals=found.proposals,
        build_seconds=built,
        search_seconds=found.seconds,
        proof_seconds=proof.seconds,
        robust=robust,
    )


def solve(problem: Problem, asked: Asked, *, clock: Callable[[], float] = time.perf_counter) -> tuple[Found, Proof]:
    """Temper, polish, then prove with what is left of the budget; the proof may find a better plan."""
    began = clock()
    found = search(problem, seed=asked.seed, budget_seconds=asked.budget_seconds * SEARCH_SHARE, clock=clock)
    share = asked.budget_seconds * POLISH_SHARE if COMPILED else 0.0  # one pair of calls alone would take minutes
    plan, _ = polished(problem, found.plan, found.period_seconds, budget_seconds=share, clock=clock)
    left = max(asked.budget_seconds - (clock() - began), 0.0)
    return found, prove(problem, plan, gap=asked.gap, budget_seconds=left, clock=clock)


def order_of(problem: Problem, plan: Sequence[int]) -> Order:
    """The order under which a plan's period is shortest."""
    _, chosen = evaluate(problem.tables, problem.orders, np.asarray(plan, dtype=np.int64), scratch(problem.tables))
    return problem.schedule.orders[chosen]


def placements_of(problem: Problem, plan: Sequence[int]) -> dict[str, Placement]:
    """By call, where a plan puts it."""
    found = {}
    for name, candidate in zip(problem.schedule.names, problem.chosen(plan), strict=False):
        mesh = problem.meshes[candidate.mesh]
        found[name] = Placement(mesh.first_rank, mesh.gpus, candidate.strategy)
    return found


def compare(
    case: Case, problem: Problem, period_seconds: float, asked: Asked, profile: ProfileTable | None = None
) -> list[Compared]:
    """The named baselines under the same estimates."""
    found = []
    for source, baseline in baselines(case, problem, asked, profile):
        ratio = baseline.period_seconds / period_seconds if baseline.period_seconds is not None else None
        placed = placements_of(source, baseline.plan) if baseline.plan is not None else {}
        found.append(Compared(baseline.name, baseline.about, baseline.period_seconds, ratio, placed))
    return found


def baselines(
    case: Case, problem: Problem, asked: Asked, profile: ProfileTable | None = None
) -> list[tuple[Problem, Baseline]]:
    """Each with the problem its plan is a plan of: those on all GPUs are chosen from every way to cut a call."""
    gpus = case.cluster.gpus
    node, nodes = max(group.gpus_per_node for group in case.cluster.groups), case.cluster.nodes
    try:
        whole = problem_of(case, mode=asked.mode, profile=profile, only=lambda mesh: mesh.gpus == gpus, prune=False)
    except InputError:
        nothing = "on all GPUs a call does not fit"
        on_all = [(problem, Baseline(name, nothing, None, None)) for name in ("symmetric", "heuristic")]
    else:
        on_all = [(whole, symmetric(whole)), (whole, heuristic(whole, gpus_per_node=node, nodes=nodes))]
    return [*on_all, (problem, asymmetric(problem)), (problem, classical(problem, seed=asked.seed)[0])]
