"""All that is shown of one plan, gathered: the plan itself, its next best, its what-ifs, and where the time went."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ropewalk.plan.profile import ProfileTable
from ropewalk.planner.case.describe import Case, describe
from ropewalk.planner.jit import COMPILED
from ropewalk.planner.planning import Asked, Planned, plan_case
from ropewalk.planner.show.explain import Second, second_best
from ropewalk.planner.show.sensitivity import Cost, WhatIf, changes, cost, sensitivity

SHARE = 0.1
"""Of the planning budget that each second-best choice and each what-if may take."""
LEAST_SECONDS = 0.05


class Told(Protocol):
    """Who hears how far it is."""

    def begin(self, what: str, total: int, done: int = 0) -> None: ...
    def advance(self, done: int, note: str = "") -> None: ...


@dataclass(frozen=True, slots=True)
class Gathered:
    """A plan and what belongs to it."""

    planned: Planned
    cost: Cost
    second: tuple[Second, ...]
    what_if: tuple[WhatIf, ...]
    seconds: dict[str, float] = field(default_factory=dict)
    """Where the time went; `compile` is the inner loops' own."""
    notes: tuple[str, ...] = ()
    """What the case takes for granted."""


def gather(
    case: Case,
    asked: Asked,
    *,
    profile: ProfileTable | None = None,
    what_if: bool = True,
    notes: tuple[str, ...] = (),
    told: Told,
    clock: Callable[[], float] = time.perf_counter,
) -> Gathered:
    """Plan a case and find all that is shown of the plan. Raises InputError where nothing fits."""
    told.begin("getting the inner loops ready", 1)
    seconds = {"compile": warm(robust=asked.robust, clock=clock)}
    told.begin(f"planning for at most {asked.budget_seconds:g} s", 1)
    began = clock()
    planned = plan_case(case, asked, profile=profile, clock=clock)
    whole = clock() - began
    seconds |= {"build": planned.build_seconds, "search": planned.search_seconds, "proof": planned.proof_seconds}
    seconds["baselines"] = max(whole - sum(seconds.values()) + seconds["compile"], 0.0)
    each, began = max(SHARE * asked.budget_seconds, LEAST_SECONDS), clock()
    told.begin("second-best choices", len(planned.judged.calls))
    second = second_best(planned, budget_seconds=each, profile=profile, told=_counted(told))
    seconds["second best"] = clock() - began
    found: tuple[WhatIf, ...] = ()
    if what_if:
        began = clock()
        told.begin("what if", len(changes(planned)))
        found = sensitivity(planned, budget_seconds=each, profile=profile, told=_counted(told))
        seconds["what if"] = clock() - began
    return Gathered(planned, cost(planned.judged.period_seconds, case.cluster), second, found, seconds, notes)


def warm(*, robust: bool = False, clock: Callable[[], float] = time.perf_counter) -> float:
    """Compile the inner loops, or load them, by planning a tiny case; the seconds it took."""
    if not COMPILED:
        return 0.0
    began = clock()
    tiny = describe({"models": {"actor": "0.5b"}, "cluster": "2xa100", "workload": "8:64+64"})
    planned = plan_case(tiny, Asked(budget_seconds=0.05, robust=robust))
    second_best(planned, budget_seconds=0.0)
    return clock() - began


def _counted(told: Told) -> Callable[[str], None]:
    done = -1

    def advance(note: str) -> None:
        nonlocal done
        done += 1
        told.advance(done, note)

    return advance
