"""Baselines are plans of the space, of the kind they say, and none is better than what is proven best."""

import numpy as np
import pytest

from ropewalk.planner.case.describe import describe
from ropewalk.planner.jit import COMPILED
from ropewalk.planner.search.baselines import Baseline, asymmetric, classical, heuristic, symmetric
from ropewalk.planner.search.candidates import problem_of
from ropewalk.planner.search.kernels import evaluate, scratch
from ropewalk.planner.search.problem import Problem
from ropewalk.planner.search.prove import prove
from tests.planner.oracle.brute import everything, fitting, of_plans, periods
from tests.planner.search.problems import any_problem, random_problem

STEPS = 2_000 if COMPILED else 200


def all_of(problem: Problem) -> list[Baseline]:
    found = [symmetric(problem), heuristic(problem, gpus_per_node=4, nodes=1), asymmetric(problem)]
    return [*found, classical(problem, steps=STEPS)[0]]


def check(problem: Problem, best: float) -> int:
    """How many of the baselines exist."""
    there = 0
    for baseline in all_of(problem):
        assert (baseline.plan is None) == (baseline.period_seconds is None)
        if baseline.plan is None or baseline.period_seconds is None:
            continue
        there += 1
        plan = np.array([baseline.plan])
        assert (plan >= problem.tables.call_start[:-1]).all()
        assert (plan < problem.tables.call_start[1:]).all()
        assert fitting(problem, plan).all()
        exact = periods(of_plans(problem, plan), np.zeros(1, dtype=int)).min()
        assert baseline.period_seconds == pytest.approx(exact, rel=1e-9)
        assert baseline.period_seconds >= best * (1 - 1e-9)
    return there


def test_no_baseline_beats_the_proof(grid_seed: int) -> None:
    rng = np.random.default_rng(grid_seed)
    there = 0
    for _ in range(15 if COMPILED else 6):
        problem = any_problem(int(rng.integers(2**32)), most_plays=40_000 if COMPILED else 3_000)
        if len(everything(problem).plans):
            there += check(problem, prove(problem, budget_seconds=1e9).period_seconds)
    assert there


def small() -> Problem:
    """One node of four, GRPO: there all baselines exist."""
    workload = {"prompts": 8, "prompt_tokens": 64, "generated_tokens": 64}
    case = describe({"method": "grpo", "models": {"actor": "0.5b"}, "cluster": "4xa100", "workload": workload})
    return problem_of(case, prune=False)


def test_each_is_of_the_kind_it_says() -> None:
    problem = small()
    check(problem, prove(problem, budget_seconds=1e9).period_seconds)
    whole = max(mesh.gpus for mesh in problem.meshes)

    plan = symmetric(problem).plan
    assert plan is not None
    chosen = problem.chosen(plan)
    assert {problem.meshes[c.mesh].gpus for c in chosen} == {whole}
    assert len({(c.strategy.dp, c.strategy.tp, c.strategy.pp) for c in chosen}) == 1

    plan = heuristic(problem, gpus_per_node=4, nodes=1).plan
    assert plan is not None
    # 14 heads: of 1, 2, 4, 8 only 1 and 2 divide them
    assert {(problem.meshes[c.mesh].gpus, c.strategy.tp, c.strategy.pp) for c in problem.chosen(plan)} == {
        (whole, 2, 1)
    }

    plan = asymmetric(problem).plan
    assert plan is not None
    by_group: dict[tuple[str, bool], set[int]] = {}
    names = zip(problem.schedule.roles, problem.schedule.kinds, problem.chosen(plan), strict=True)
    for role, kind, c in names:
        by_group.setdefault((role, kind == "generate"), set()).add(problem.meshes[c.mesh].mask)
    assert all(len(masks) == 1 for masks in by_group.values())
    masks = [next(iter(m)) for m in by_group.values()]
    assert all(a & b == 0 for i, a in enumerate(masks) for b in masks[:i])
    assert sum(mask.bit_count() for mask in masks) >= 0.85 * len(problem.cell_gpus)


def test_the_best_symmetric_plan_is_the_best_of_all_of_them() -> None:
    problem = small()
    whole = max(range(len(problem.meshes)), key=lambda m: problem.meshes[m].gpus)
    cuts = {(c.strategy.dp, c.strategy.tp, c.strategy.pp) for c in problem.candidates[0] if c.mesh == whole}
    best = np.inf
    for cut in cuts:
        fastest = [
            problem.offset(call)
            + min(
                (i for i, c in enumerate(options) if c.mesh == whole
                 and (c.strategy.dp, c.strategy.tp, c.strategy.pp) == cut),
                key=lambda i, options=options: options[i].seconds,  # type: ignore[misc]
            )
            for call, options in enumerate(problem.candidates)
        ]  # fmt: skip
        best = min(best, float(evaluate(problem.tables, problem.orders, np.array(fastest), scratch(problem.tables))[0]))
    assert symmetric(problem).period_seconds == pytest.approx(best, rel=1e-12)


def test_the_classical_chain_is_the_same_for_the_same_seed() -> None:
    problem = random_problem(3, tight=4.0)
    one, two, other = (classical(problem, seed=seed, steps=STEPS)[0] for seed in (0, 0, 1))
    assert one == two
    assert other.plan is not None


def test_where_nothing_fits_there_is_no_baseline() -> None:
    problem = random_problem(3, tight=1e-3)
    assert [baseline.plan for baseline in all_of(problem)] == [None] * 4
