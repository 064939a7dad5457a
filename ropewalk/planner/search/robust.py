"""A plan that stays good when the estimates are wrong by some 10 %.

The period is monotone in the times and scales with them, so if every time may be off by a factor between 0.9 and 1.1
on its own, the worst case of every plan is 1.1 times its period: it ranks nothing. What tells plans apart is regret:

    regret(plan, scenario) = period(plan, scenario) / least period of any plan looked at, in that scenario − 1

The scenarios are the corners of one factor a call, and draws of one factor a candidate; the plan whose largest regret
is least is chosen.
"""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from ropewalk.planner.search.kernels import evaluate_all, scratch
from ropewalk.planner.search.problem import SECONDS, Floats, Problem

NOISE = 0.1
DRAWN = 64
MOST_CORNERS = 64


def least_regret(
    problem: Problem, plans: Sequence[tuple[int, ...]], *, seed: int = 0, noise: float = NOISE
) -> tuple[tuple[int, ...], float]:
    """The plan of least worst regret among those given, and that regret; ties go to the earlier one."""
    listed = list(dict.fromkeys(plans))
    worst = regrets(problem, listed, seed=seed, noise=noise).max(axis=0)
    chosen = int(np.argmin(np.round(worst, 12)))
    return listed[chosen], float(worst[chosen])


def regrets(problem: Problem, plans: Sequence[tuple[int, ...]], *, seed: int = 0, noise: float = NOISE) -> Floats:
    """Regret of every plan in every scenario, as [scenario, plan]."""
    rows = np.array(plans, dtype=np.int64)
    room = scratch(problem.tables)
    periods = []
    for factors in _scenarios(problem, np.random.default_rng(seed), noise):
        candidates = problem.tables.candidates.copy()
        candidates[:, SECONDS] *= factors
        found, order = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.int64)
        evaluate_all(problem.tables._replace(candidates=candidates), problem.orders, rows, room, found, order)
        periods.append(found)
    table = np.array(periods)
    regret: Floats = table / table.min(axis=1, keepdims=True) - 1.0
    return regret


def _scenarios(problem: Problem, rng: np.random.Generator, noise: float) -> Iterator[Floats]:
    """Factors of all candidates: equal within a call, at the ends of the noise; then one of its own for each."""
    sizes = np.diff(problem.tables.call_start)
    corners = list(product((1.0 - noise, 1.0 + noise), repeat=len(sizes)))
    if len(corners) > MOST_CORNERS:
        corners = [corners[i] for i in rng.choice(len(corners), MOST_CORNERS, replace=False)]
    for corner in corners:
        yield np.repeat(corner, sizes)
    for _ in range(DRAWN):
        yield rng.uniform(1.0 - noise, 1.0 + noise, sizes.sum())
