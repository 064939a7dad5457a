"""The search: what it finds is a plan that fits, judged rightly, and being lazy changes nothing."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from ropewalk.plan.graph import CallGraph
from ropewalk.planner.jit import COMPILED
from ropewalk.planner.search.kernels import DRAWS, SKEW, Chains, evaluate, scratch, temper
from ropewalk.planner.search.problem import FAR, Floats, Ints, OrderTables, Problem
from ropewalk.planner.search.prove import prove
from ropewalk.planner.search.temper import few_orders, polished, search, start
from ropewalk.records.errors import InputError
from tests.planner.oracle.brute import everything, fitting, of_plans, periods, truth
from tests.planner.search.problems import GRPO, PPO, SEVEN, any_problem, random_problem

STEPS = 3_000 if COMPILED else 300
BLOCKS = 4.0
ALWAYS = 1e9


def ticking() -> Callable[[], float]:
    now = [0.0]

    def look() -> float:
        now[0] += 1.0
        return now[0]

    return look


def some(seed: int, count: int) -> list[Problem]:
    rng = np.random.default_rng(seed)
    found: list[Problem] = []
    while len(found) < count:
        problem = any_problem(int(rng.integers(2**32)), most_plays=40_000 if COMPILED else 3_000)
        if len(everything(problem).plans):
            found.append(problem)
    return found


# -- lazy rejection ------------------------------------------------------------------------------------------------


def changed(problem: Problem, plan: Ints, u: Floats) -> None:
    """One call (the first number) on one of its meshes (the second) by one of its candidates there (the third)."""
    call = int(u[0] * len(plan))
    meshes = sorted({c.mesh for c in problem.candidates[call]})
    mesh = meshes[int(u[1] * len(meshes))]
    there = [i for i, c in enumerate(problem.candidates[call]) if c.mesh == mesh]
    plan[call] = problem.offset(call) + there[int(u[2] ** SKEW * len(there))]


def plain(problem: Problem, orders: OrderTables, s: Chains, u: Floats) -> Ints:
    """The same chain with every proposal simulated in full before it is judged; plans after each round of replicas."""
    room = scratch(problem.tables)
    plans, costs = s.plan.copy(), s.cost.copy()
    path = []
    for i, row in enumerate(u):
        r = i % len(costs)
        trial = plans[r].copy()
        changed(problem, trial, row[0:3])
        if row[7] < 1 / 3:
            changed(problem, trial, row[3:6])
        cost, _ = evaluate(problem.tables, orders, trial, room)
        if cost < FAR and math.log(row[6]) <= (costs[r] - cost) * s.beta[r]:
            plans[r], costs[r] = trial, cost
        if r == len(costs) - 1:
            a = int(row[7] * (len(costs) - 1))
            if len(costs) > 1 and (s.beta[a] - s.beta[a + 1]) * (costs[a] - costs[a + 1]) >= 0:
                plans[[a, a + 1]], costs[[a, a + 1]] = plans[[a + 1, a]], costs[[a + 1, a]]
            path.append(plans.copy())
    return np.array(path)


@pytest.mark.parametrize("replicas", [1, 5])
@pytest.mark.parametrize("graph", [PPO, GRPO, SEVEN], ids=["ppo", "grpo", "seven"])
def test_lazy_rejection_leaves_the_chain_as_it_was(graph: CallGraph, replicas: int, grid_seed: int) -> None:
    problem = random_problem(grid_seed, graph=graph, cells=4, per_call=5, variants=2, tight=4.0)
    orders, rng = few_orders(problem), np.random.default_rng(grid_seed)
    chains = start(problem, orders, rng, replicas)
    u = rng.random((STEPS // replicas * replicas, DRAWS))
    wanted = plain(problem, orders, chains, u)
    room, found = scratch(problem.tables), []
    for rows in u.reshape(-1, replicas, DRAWS):
        temper(problem.tables, orders, chains, room, rows)
        found.append(chains.plan.copy())
    assert np.array_equal(found, wanted)
    proposals, simulated, accepted = chains.tally
    assert proposals == len(u)
    assert accepted <= simulated < proposals  # lazy it is
    assert len(np.unique(wanted.reshape(-1, wanted.shape[-1]), axis=0)) > 1


# -- what is found -------------------------------------------------------------------------------------------------


def test_the_same_seed_finds_the_same(grid_seed: int) -> None:
    problem = random_problem(grid_seed, graph=PPO, cells=6, per_call=8, variants=3, tight=4.0)
    one, two = (search(problem, seed=grid_seed, budget_seconds=BLOCKS, clock=ticking()) for _ in range(2))
    assert (one.plan, one.best, one.proposals, one.simulated) == (two.plan, two.best, two.proposals, two.simulated)
    other = search(problem, seed=grid_seed + 1, budget_seconds=BLOCKS, clock=ticking())
    assert other.period_seconds > 0


def test_what_is_found_are_distinct_plans_that_fit_rightly_judged(grid_seed: int) -> None:
    for seed, problem in enumerate(some(grid_seed, 10 if COMPILED else 3)):
        found = search(problem, seed=seed, budget_seconds=BLOCKS, clock=ticking())
        plans = np.array([plan for _, plan in found.best])
        assert len(set(map(tuple, plans))) == len(plans)
        assert fitting(problem, plans).all()
        listed = [period for period, _ in found.best]
        assert listed == sorted(listed)
        exact = periods(of_plans(problem, plans), np.arange(len(plans))).min(axis=0)
        assert np.allclose(listed, exact, rtol=1e-9, atol=0)
        assert (found.period_seconds, found.plan) == found.best[0]
        assert found.period_seconds >= truth(problem).period * (1 - 1e-9)
        noticed = [period for _, period in found.history]
        assert noticed == sorted(noticed, reverse=True)


def test_small_problems_are_solved(grid_seed: int) -> None:
    solved = 0
    for seed, problem in enumerate(some(grid_seed, 10 if COMPILED else 3)):
        found = search(problem, seed=seed, budget_seconds=8.0, clock=ticking())
        solved += found.period_seconds <= truth(problem).period * (1 + 1e-9)
    assert solved >= (8 if COMPILED else 1)


def test_a_goal_that_is_met_ends_the_search() -> None:
    problem = random_problem(0)
    best = prove(problem, budget_seconds=ALWAYS).period_seconds
    found = search(problem, budget_seconds=ALWAYS, goal_seconds=1.05 * best)
    assert found.period_seconds <= 1.05 * best


def test_where_nothing_fits_it_says_so() -> None:
    problem = random_problem(0, tight=1e-3)
    with pytest.raises(InputError, match="fits in memory"):
        search(problem, budget_seconds=1.0, clock=ticking())


def test_polishing_leaves_no_pair_of_calls_to_better(grid_seed: int) -> None:
    for problem in some(grid_seed, 6 if COMPILED else 2):
        every = everything(problem)
        begin = tuple(int(k) for k in every.plans[len(every.plans) // 2])
        before, _ = evaluate(problem.tables, problem.orders, np.array(begin), scratch(problem.tables))
        plan, period = polished(problem, begin, float(before))
        near = every.plans[((every.plans != np.array(plan)).sum(axis=1)) <= 2]
        exact = periods(of_plans(problem, near), np.arange(len(near)), enough=period).min()
        again, _ = evaluate(problem.tables, problem.orders, np.array(plan), scratch(problem.tables))
        assert period == again <= before
        assert fitting(problem, np.array([plan])).all()
        assert period <= exact * (1 + 2e-9)


# -- few orders ----------------------------------------------------------------------------------------------------


def test_the_few_orders_are_some_of_all() -> None:
    problem = random_problem(0, graph=SEVEN)
    few = few_orders(problem)
    every = {tuple(row) for row in problem.orders.sequence}
    assert 1 <= len(few.sequence) <= 9
    assert {tuple(row) for row in few.sequence} <= every
    small = random_problem(0, graph=GRPO)
    assert few_orders(small) is small.orders
