"""A plan that stays good when the estimates are wrong by some 10 %.

The period is monotone in the times and scales with them, so if every time may be off by a factor between 0.9 and 1.1
on its own, the worst case of every plan is 1.1 times its period, and the plan whose worst case is best is the fastest
one itself. What a fast plan can lose by being chosen on wrong estimates is regret:

    regret(plan, scenario) = period(plan, scenario) / least period of any plan looked at, in that scenario − 1

The scenarios are the corners of one factor a call and one for all moves, and draws of one factor a candidate; the plan
whose largest regret is least is chosen. Both figures are given for it and for the fastest plan.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ropewalk.planner.search.kernels import evaluate_all, scratch
from ropewalk.planner.search.problem import SECONDS, Floats, Problem

NOISE = 0.1
DRAWN = 64
MOST_CORNERS = 128


@dataclass(frozen=True, slots=True)
class Worst:
    """What a plan comes to at worst when every time may be off by the noise."""

    period_seconds: float
    regret: float
    """How much longer than the best plan looked at takes in the same scenario; 0.08 is 8 %."""


@dataclass(frozen=True, slots=True)
class Robust:
    """A plan chosen by its regret, beside the fastest one."""

    plan: tuple[int, ...]
    worst: Worst
    fastest: Worst
    looked_at: int
    """Plans that were compared."""


def least_regret(problem: Problem, plans: Sequence[tuple[int, ...]], *, seed: int = 0, noise: float = NOISE) -> Robust:
    """The plan of least worst regret among those given; ties go to the earlier one."""
    listed = list(dict.fromkeys(plans))
    regret = regrets(problem, listed, seed=seed, noise=noise).max(axis=0)
    worst = periods(problem, listed, 1.0 + noise, 1.0 + noise)
    found = [Worst(float(seconds), float(share)) for seconds, share in zip(worst, regret, strict=True)]
    chosen, fastest = int(np.argmin(np.round(regret, 12))), int(np.argmin(worst))
    return Robust(listed[chosen], found[chosen], found[fastest], len(listed))


def regrets(problem: Problem, plans: Sequence[tuple[int, ...]], *, seed: int = 0, noise: float = NOISE) -> Floats:
    """Regret of every plan in every scenario, as [scenario, plan]."""
    table = np.array([periods(problem, plans, *one) for one in _scenarios(problem, np.random.default_rng(seed), noise)])
    regret: Floats = table / table.min(axis=1, keepdims=True) - 1.0
    return regret


def periods(problem: Problem, plans: Sequence[tuple[int, ...]], calls: Floats | float, moves: float) -> Floats:
    """Seconds of every plan's iteration, with the times of candidates and those of all moves times a factor."""
    candidates = problem.tables.candidates.copy()
    candidates[:, SECONDS] *= calls
    tables = problem.tables._replace(candidates=candidates, prices=problem.tables.prices * moves)
    found, order = np.zeros(len(plans)), np.zeros(len(plans), dtype=np.int64)
    evaluate_all(tables, problem.orders, np.array(plans, dtype=np.int64), scratch(tables), found, order)
    return found


def _scenarios(problem: Problem, rng: np.random.Generator, noise: float) -> Iterator[tuple[Floats, float]]:
    """Factors of all candidates, and of the moves: equal within a call, at the ends of the noise; then one of its own
    for each candidate."""
    sizes = np.diff(problem.tables.call_start)
    corners = list(product((1.0 - noise, 1.0 + noise), repeat=len(sizes) + 1))
    if len(corners) > MOST_CORNERS:
        corners = [corners[i] for i in rng.choice(len(corners), MOST_CORNERS, replace=False)]
    for *calls, moves in corners:
        yield np.repeat(calls, sizes), moves
    for _ in range(DRAWN):
        yield rng.uniform(1.0 - noise, 1.0 + noise, sizes.sum()), float(rng.uniform(1.0 - noise, 1.0 + noise))
