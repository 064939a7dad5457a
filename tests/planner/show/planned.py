"""Small cases, planned once."""

from functools import cache

from ropewalk.planner.case.describe import Case, describe
from ropewalk.planner.planning import Asked, Planned, plan_case


@cache
def small_case(method: str = "ppo", cluster: str = "2x4xa100") -> Case:
    return describe(
        {"name": "small", "method": method, "models": {"actor": "1.5b"}, "cluster": cluster, "workload": "64:64+64"}
    )


@cache
def small_plan(mode: str = "synchronous", cluster: str = "2x4xa100", method: str = "ppo") -> Planned:
    asked = Asked(budget_seconds=0.2, mode=mode, gap=0.01, baselines=False)  # type: ignore[arg-type]
    return plan_case(small_case(method, cluster), asked)


class Silent:
    """Hears and tells nothing."""

    def begin(self, what: str, total: int, done: int = 0) -> None:
        return None

    def advance(self, done: int, note: str = "") -> None:
        return None
