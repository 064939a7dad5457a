"""Plans under wrong estimates: what is proven of the worst case, and what tells plans apart."""

import numpy as np
import pytest

from ropewalk.planner.search.problem import Problem
from ropewalk.planner.search.robust import NOISE, least_regret, periods, regrets
from tests.planner.oracle.brute import everything
from tests.planner.search.problems import random_problem


def some(seed: int) -> tuple[Problem, list[tuple[int, ...]]]:
    problem = random_problem(seed, cells=3, per_call=3)
    plans = [tuple(int(k) for k in plan) for plan in everything(problem).plans]
    rng = np.random.default_rng(seed)
    return problem, [plans[i] for i in rng.permutation(len(plans))[:30]]


@pytest.mark.parametrize("seed", range(6))
def test_the_worst_case_of_every_plan_is_its_period_times_the_noise(seed: int) -> None:
    """So the plan whose worst case is best is the fastest one: no time that is less wrong takes longer."""
    problem, plans = some(seed)
    plain, worst = periods(problem, plans, 1.0, 1.0), periods(problem, plans, 1.0 + NOISE, 1.0 + NOISE)
    assert worst == pytest.approx((1.0 + NOISE) * plain, rel=1e-9)
    rng = np.random.default_rng(seed)
    for _ in range(30):
        calls = rng.uniform(1.0 - NOISE, 1.0 + NOISE, len(problem.tables.candidates))
        noisy = periods(problem, plans, calls, float(rng.uniform(1.0 - NOISE, 1.0 + NOISE)))
        assert (noisy <= worst * (1 + 1e-9)).all()
        assert (noisy >= (1.0 - NOISE) * plain * (1 - 1e-9)).all()


@pytest.mark.parametrize("seed", range(6))
def test_the_plan_of_least_worst_regret_is_taken_and_the_fastest_told_beside_it(seed: int) -> None:
    problem, plans = some(seed)
    found = least_regret(problem, [*plans, plans[0]], seed=seed)
    table = regrets(problem, plans, seed=seed).max(axis=0)
    assert found.plan in plans and found.looked_at == len(plans)
    assert found.worst.regret == pytest.approx(table.min(), abs=1e-11)
    assert table[plans.index(found.plan)] == pytest.approx(found.worst.regret)
    assert 0 <= found.worst.regret <= found.fastest.regret + 1e-11
    assert found.fastest.period_seconds <= found.worst.period_seconds
    assert found.fastest.period_seconds == pytest.approx(1.1 * periods(problem, plans, 1.0, 1.0).min())


def test_regret_is_bounded_by_the_noise_and_none_without_it() -> None:
    """Regret is at most 1.1 x period / (0.9 x best) - 1, as every period lies within the noise of what it was."""
    problem, plans = some(1)
    assert regrets(problem, plans, noise=0.0).min(axis=1) == pytest.approx(0.0)
    plain = periods(problem, plans, 1.0, 1.0)
    most = (1.0 + NOISE) / (1.0 - NOISE) * plain / plain.min() - 1.0
    assert (regrets(problem, plans) <= most * (1 + 1e-9) + 1e-12).all()
