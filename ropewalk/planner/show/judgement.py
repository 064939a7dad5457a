"""A plan that was given, against the best that is found and proven for the same case."""

from dataclasses import dataclass

from ropewalk.plan.execution import ExecutionPlan
from ropewalk.plan.profile import ProfileTable
from ropewalk.planner.case.describe import Case
from ropewalk.planner.placed import Judged
from ropewalk.planner.planning import Asked, plan_case
from ropewalk.planner.show.mend import Mend, mends_of_plan
from ropewalk.planner.written import judge_plan, placements_in
from ropewalk.records.errors import InputError


@dataclass(frozen=True, slots=True)
class Checked:
    """A given plan, judged."""

    judged: Judged
    best_seconds: float | None
    """Of the best plan that is known, the given one among them where it fits; None if the search finds none."""
    bound_seconds: float | None
    """No plan of the space takes less. A plan by hand may lie outside it."""
    mends: tuple[Mend, ...]
    """What would make it fit, where it does not."""

    @property
    def gap(self) -> float | None:
        """How far above the bound; below 0 for a plan outside the space."""
        return None if self.bound_seconds is None else self.judged.period_seconds / self.bound_seconds - 1.0


def checked(case: Case, plan: ExecutionPlan, asked: Asked, *, profile: ProfileTable | None = None) -> Checked:
    """Judge a plan file that has no problems, and look for the best plan beside it."""
    judged = judge_plan(case, plan, mode=asked.mode, profile=profile)
    mends = () if judged.fits else mends_of_plan(case, placements_in(case, plan), mode=asked.mode)
    try:
        best = plan_case(case, asked, profile=profile)
    except InputError:
        return Checked(judged, None, None, mends)
    known = [best.judged.period_seconds, *([judged.period_seconds] if judged.fits else [])]
    return Checked(judged, min(known), best.bound_seconds, mends)
