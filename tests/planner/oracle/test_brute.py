"""What is proven is true: the proof, and what it is made of, against every plan of many small problems."""

import numpy as np
import pytest

from ropewalk.plan.graph import CallGraph
from ropewalk.planner.jit import COMPILED
from ropewalk.planner.search.kernels import bounds_all, evaluate_all, scratch
from ropewalk.planner.search.problem import FAR, Problem, cycles
from ropewalk.planner.search.prove import Proof, prove
from ropewalk.planner.search.schedule import MODES, Mode, schedule
from tests.planner.oracle.brute import (
    Truth,
    areas,
    bounds,
    circles,
    everything,
    exclusive,
    fitting,
    in_turn,
    of_plans,
    periods,
    truth,
)
from tests.planner.oracle.simulator import close, greedy, rules, work_of
from tests.planner.search.problems import GRAPHS, ODD_GRAPHS, any_problem

SAMPLE = 24 if COMPILED else 8
ODD_SAMPLE = 15 if COMPILED else 6
WHOLE = 540 if COMPILED else 24
MOST_PLAYS = 150_000 if COMPILED else 3_000
FEW = 12 if COMPILED else 6
ITERATIONS = 40
ALWAYS = 1e9
"""Seconds: no budget."""


def problems(seed: int, count: int, *, odd: bool = False) -> list[tuple[int, Problem]]:
    """So many that have a plan that fits, with the seeds that make them again."""
    rng = np.random.default_rng(seed)
    found: list[tuple[int, Problem]] = []
    while len(found) < count:
        again = int(rng.integers(2**32))
        problem = any_problem(again, most_plays=MOST_PLAYS, odd=odd)
        if len(everything(problem).plans):
            found.append((again, problem))
    return found


def check(seed: int, problem: Problem) -> None:
    """With and without symmetry, to the end and to a gap."""
    wanted = truth(problem)
    for break_symmetry in (True, False):
        proof = prove(problem, break_symmetry=break_symmetry, budget_seconds=ALWAYS)
        assert proof.epsilon == 0.0
        assert close(proof.period_seconds, wanted.period), (seed, break_symmetry)
        check_certificate(seed, problem, proof, wanted)
        for gap in (0.02, 0.1):
            proof = prove(problem, gap=gap, break_symmetry=break_symmetry, budget_seconds=ALWAYS)
            check_certificate(seed, problem, proof, wanted)


def check_certificate(seed: int, problem: Problem, proof: Proof, wanted: Truth) -> None:
    """The plan is one, the bound holds under every schedule, and it is as good as the last complete pass says."""
    tiny = 1 + 1e-9
    alone = np.array([proof.plan])
    assert fitting(problem, alone).all(), seed
    each = periods(of_plans(problem, alone), np.zeros(1, dtype=int), enough=proof.period_seconds * tiny)
    assert close(proof.period_seconds, float(each.min())), seed
    assert proof.bound_seconds <= wanted.bound * tiny, seed
    assert proof.bound_seconds <= proof.period_seconds
    assert close(proof.gap, proof.period_seconds / proof.bound_seconds - 1.0)
    if proof.epsilon is None:  # nothing had to be looked at: the first bound was enough
        assert proof.nodes == 0
    else:
        assert proof.period_seconds <= wanted.period * (1 + proof.epsilon) * tiny, seed
        assert proof.bound_seconds * tiny >= min(wanted.bound, proof.period_seconds / (1 + proof.epsilon)), seed


# -- the proof -----------------------------------------------------------------------------------------------------


def test_what_is_proven_is_true(grid_seed: int) -> None:
    for seed, problem in problems(grid_seed, SAMPLE):
        check(seed, problem)


def test_what_is_proven_is_true_of_odd_call_graphs(grid_seed: int) -> None:
    for seed, problem in problems(grid_seed, ODD_SAMPLE, odd=True):
        check(seed, problem)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("odd", [False, True], ids=["usual", "odd"])
def test_what_is_proven_is_true_of_hundreds(grid_seed: int, odd: bool) -> None:
    for seed, problem in problems(grid_seed + 1, WHOLE, odd=odd):
        check(seed, problem)


def test_where_nothing_fits_nothing_is_claimed() -> None:
    seed = next(s for s in range(100) if not len(everything(any_problem(s, most_plays=MOST_PLAYS)).plans))
    proof = prove(any_problem(seed, most_plays=MOST_PLAYS), budget_seconds=ALWAYS)
    assert proof.period_seconds == FAR
    assert set(proof.plan) == {-1}


# -- what it is made of --------------------------------------------------------------------------------------------


def test_every_plan_is_judged_as_the_oracle_judges_it(grid_seed: int) -> None:
    for seed, problem in problems(grid_seed, FEW):
        every = everything(problem)
        chosen = np.random.default_rng(seed).permutation(len(every.plans))[:50]
        plans = np.ascontiguousarray(every.plans[chosen])
        found, order, floor = np.zeros(len(plans)), np.zeros(len(plans), dtype=np.int64), np.zeros(len(plans))
        evaluate_all(problem.tables, problem.orders, plans, scratch(problem.tables), found, order)
        bounds_all(problem.tables, plans, scratch(problem.tables), floor)
        each = periods(every, chosen)
        assert np.allclose(found, each.min(axis=0), rtol=1e-9, atol=0), seed
        assert np.allclose(found, each[order, np.arange(len(plans))], rtol=1e-9, atol=0), seed
        assert np.allclose(floor, bounds(every)[chosen], rtol=1e-12, atol=0), seed


def test_memory_is_a_wall_for_every_plan(grid_seed: int) -> None:
    rng = np.random.default_rng(grid_seed)
    for _ in range(FEW):
        problem = any_problem(int(rng.integers(2**32)), most_plays=MOST_PLAYS)
        low, high = problem.tables.call_start[:-1], problem.tables.call_start[1:]
        plans = rng.integers(low, high, (200, len(low)))
        found = np.zeros(len(plans))
        bounds_all(problem.tables, plans, scratch(problem.tables), found)
        assert np.array_equal(found < FAR, fitting(problem, plans))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("graph", [*GRAPHS.values(), *ODD_GRAPHS.values()], ids=[*GRAPHS, *ODD_GRAPHS])
def test_what_can_never_overlap_follows_from_the_unrolled_iterations(graph: CallGraph, mode: Mode) -> None:
    plan = schedule(graph, mode)
    sequential, longer = cycles(plan)
    assert [[bool(mask >> p & 1) for p in range(plan.operations)] for mask in sequential] == [
        list(row) for row in in_turn(plan)
    ]
    assert {(int(mask), int(lag)) for mask, lag in longer} == {(mask, lag) for mask, lag in circles(plan) if lag > 1}
    assert all(lag >= 1 for _, lag in circles(plan))


# -- any schedule --------------------------------------------------------------------------------------------------


def test_no_greedy_run_beats_what_excludes_itself_or_turns_in_a_circle(grid_seed: int) -> None:
    """N iterations take N times the area and N times every set that excludes itself, and at least
    floor((N - 1) / lag) turns of every circle."""
    for seed, problem in problems(grid_seed, FEW):
        every = everything(problem)
        row = int(np.random.default_rng(seed).integers(len(every.plans)))
        work = work_of(problem, [int(k) for k in every.plans[row]])
        least = ITERATIONS * max(areas(every)[row], exclusive(every)[row])
        for mask, lag in circles(problem.schedule):
            turn = sum(s for o, s in enumerate(work.seconds) if mask >> o & 1)
            least = max(least, (ITERATIONS - 1) // lag * turn)
        for name, rule in rules(work, range(3)).items():
            assert greedy(work, ITERATIONS, rule).max() >= least * (1 - 1e-9), (seed, name)
