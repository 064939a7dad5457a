"""The certificate: anytime, resumable, indifferent to where it starts, and true to scale."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import ropewalk.planner.search.prove as proving
from ropewalk.planner.jit import COMPILED
from ropewalk.planner.search.branching import branch
from ropewalk.planner.search.kernels import scratch
from ropewalk.planner.search.problem import FAR, Candidate, Mesh, Problem
from ropewalk.planner.search.prove import LADDER, Proof, _state, branching, gap_of, prove
from ropewalk.planner.search.temper import search
from tests.planner.oracle.brute import everything, fitting, truth
from tests.planner.search.problems import GRPO, PPO, any_problem, random_problem, runs

PROBLEMS = 12 if COMPILED else 4
MOST_PLAYS = 40_000 if COMPILED else 3_000
ALWAYS = 1e9


def some(seed: int, count: int = PROBLEMS) -> list[Problem]:
    """Problems that have a plan."""
    rng = np.random.default_rng(seed)
    found: list[Problem] = []
    while len(found) < count:
        problem = any_problem(int(rng.integers(2**32)), most_plays=MOST_PLAYS)
        if len(everything(problem).plans):
            found.append(problem)
    return found


def ticking() -> Callable[[], float]:
    """A clock that goes on by a second whenever it is looked at."""
    now = [0.0]

    def look() -> float:
        now[0] += 1.0
        return now[0]

    return look


def close(one: float, other: float) -> bool:
    return one == pytest.approx(other, rel=1e-9)


# -- anytime -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("break_symmetry", [True, False])
def test_a_proof_that_is_cut_short_claims_too_little_never_too_much(
    grid_seed: int, break_symmetry: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proving, "SLICE", 11)
    cut = 0
    for problem in some(grid_seed, 8 if COMPILED else 3):
        wanted = truth(problem)
        whole = prove(problem, budget_seconds=ALWAYS, break_symmetry=break_symmetry)
        before: Proof | None = None
        for looks in range(0, 40, 3):
            proof = prove(problem, budget_seconds=looks + 0.5, break_symmetry=break_symmetry, clock=ticking())
            cut += proof.epsilon != 0.0
            assert proof.bound_seconds <= wanted.bound * (1 + 1e-9)
            assert proof.period_seconds >= wanted.period * (1 - 1e-9)
            assert proof.nodes <= 11 * looks
            if proof.period_seconds < FAR:
                assert fitting(problem, np.array([proof.plan])).all()
            if proof.epsilon is not None:
                assert proof.period_seconds <= wanted.period * (1 + proof.epsilon) * (1 + 1e-9)
            if before is not None:  # more time, no worse
                assert proof.bound_seconds >= before.bound_seconds * (1 - 1e-9)
                assert proof.period_seconds <= before.period_seconds
            before = proof
        assert close(whole.period_seconds, wanted.period)
        assert close(whole.bound_seconds, min(wanted.bound, wanted.period))
    assert cut


def test_without_any_time_the_first_bound_is_left() -> None:
    problem = random_problem(1)
    proof = prove(problem, budget_seconds=0.0)
    assert (proof.epsilon, proof.nodes, proof.period_seconds) == (None, 0, FAR)
    assert 0 < proof.bound_seconds <= truth(problem).bound * (1 + 1e-9)


def test_a_plan_tried_under_many_orders_does_not_outrun_the_clock() -> None:
    """Trying it takes as much of a slice as its orders would as nodes, so that no further node is looked at."""
    problem = random_problem(3, graph=PPO, mode="one-step-off", tight=4.0)
    tree, room = branching(problem), scratch(problem.tables)
    state = _state(tree, np.full(6, -1, dtype=np.int64), FAR, 0.0)
    looks = 1
    while not branch(problem.tables, tree, problem.orders, state, room, 1):
        looks += 1
    assert len(problem.orders.sequence) == 404
    nodes, tried = (int(x) for x in state.tally)
    assert nodes + 1 < looks <= nodes + tried + 1


@pytest.mark.parametrize("slices", [1, 2, 7, 100])
def test_a_search_taken_up_again_is_the_search_in_one_go(slices: int) -> None:
    for problem in some(slices, 4 if COMPILED else 2):
        tree, room = branching(problem), scratch(problem.tables)
        nothing = np.full(problem.schedule.calls, -1, dtype=np.int64)
        whole, parts = (_state(tree, nothing, FAR, 0.01) for _ in range(2))
        assert branch(problem.tables, tree, problem.orders, whole, room, 10**9)
        while not branch(problem.tables, tree, problem.orders, parts, scratch(problem.tables), slices):
            pass
        for one, other in zip(whole, parts, strict=True):
            assert np.array_equal(one, other)


# -- where it starts -----------------------------------------------------------------------------------------------


def test_the_start_does_not_change_what_is_proven(grid_seed: int) -> None:
    rng = np.random.default_rng(grid_seed)
    for problem in some(grid_seed):
        alone = prove(problem, budget_seconds=ALWAYS)
        plans = everything(problem).plans
        starts = [tuple(int(k) for k in plans[rng.integers(len(plans))]), alone.plan]
        starts.append(search(problem, budget_seconds=3.0, clock=ticking()).plan)
        for start in starts:
            proof = prove(problem, start, budget_seconds=ALWAYS)
            assert close(proof.period_seconds, alone.period_seconds)
            assert close(proof.bound_seconds, alone.bound_seconds)
            assert proof.epsilon == alone.epsilon == 0.0


def test_a_start_that_does_not_fit_is_left_behind() -> None:
    problem = random_problem(5, graph=GRPO, tight=1.3)
    low, high = problem.tables.call_start[:-1], problem.tables.call_start[1:]
    plans = np.random.default_rng(0).integers(low, high, (500, len(low)))
    overflowing = plans[~fitting(problem, plans)][0]
    proof = prove(problem, [int(k) for k in overflowing], budget_seconds=ALWAYS)
    assert close(proof.period_seconds, truth(problem).period)
    assert fitting(problem, np.array([proof.plan])).all()


def test_a_gap_that_the_first_bound_grants_needs_no_node() -> None:
    problem = random_problem(2, graph=GRPO)
    best = prove(problem, budget_seconds=ALWAYS)
    proof = prove(problem, best.plan, gap=1e6, budget_seconds=ALWAYS)
    assert (proof.nodes, proof.epsilon, proof.plan) == (0, None, best.plan)
    assert proof.bound_seconds <= best.bound_seconds


def test_the_ladder_goes_down_to_nothing() -> None:
    assert sorted(LADDER, reverse=True) == list(LADDER)
    assert LADDER[-1] == 0.0


def test_a_gap_is_a_share_of_the_bound() -> None:
    assert gap_of(3.0, 2.0) == 0.5
    assert gap_of(3.0, 0.0) == float("inf")
    assert gap_of(0.0, 0.0) == 0.0


# -- scale and space -----------------------------------------------------------------------------------------------


def scaled(problem: Problem, factor: float) -> Problem:
    return replace(
        problem,
        candidates=tuple(tuple(replace(c, seconds=factor * c.seconds) for c in o) for o in problem.candidates),
        move_seconds=tuple(factor * table for table in problem.move_seconds),
    )


def test_twice_the_times_are_twice_the_period_and_twice_the_bound(grid_seed: int) -> None:
    for problem in some(grid_seed):
        one, two = (prove(p, budget_seconds=ALWAYS) for p in (problem, scaled(problem, 2.0)))
        assert two.period_seconds == 2.0 * one.period_seconds
        assert two.bound_seconds == 2.0 * one.bound_seconds
        assert (two.plan, two.nodes) == (one.plan, one.nodes)


def with_more_gpus(problem: Problem, seed: int) -> Problem:
    """One cell more; all that there was, and for every call something on the new cell."""
    rng = np.random.default_rng(seed)
    gpus, cells = sum(problem.cell_gpus), len(problem.cell_gpus)
    new = len(problem.meshes)
    added = tuple(
        (*options, Candidate(new, options[0].strategy, 1 + max(c.geometry for c in options), seconds, 0.5, 0.2))
        for options, seconds in zip(problem.candidates, rng.uniform(1, 10, problem.schedule.calls), strict=True)
    )
    moves = tuple(np.pad(table, ((0, 1), (0, 1)), constant_values=0.7) for table in problem.move_seconds)
    return Problem(
        problem.schedule,
        (*problem.meshes, Mesh(cells, 1, gpus, 1)),
        added,
        moves,
        (*problem.cell_gpus, 1),
        (*problem.cell_bytes, 1.0),
    )


def test_more_gpus_never_make_the_best_plan_worse(grid_seed: int) -> None:
    for seed, problem in enumerate(some(grid_seed)):
        larger = with_more_gpus(problem, seed)
        before, after = (prove(p, budget_seconds=ALWAYS).period_seconds for p in (problem, larger))
        assert after <= before * (1 + 1e-9)


def test_more_memory_and_faster_calls_never_make_it_worse_either(grid_seed: int) -> None:
    for problem in some(grid_seed):
        before = prove(problem, budget_seconds=ALWAYS)
        roomier = replace(problem, cell_bytes=tuple(2 * b for b in problem.cell_bytes))
        faster = scaled(problem, 0.9)
        for better in (roomier, faster):
            assert prove(better, budget_seconds=ALWAYS).period_seconds <= before.period_seconds * (1 + 1e-9)


# -- corners -------------------------------------------------------------------------------------------------------


def with_seconds(problem: Problem, change: Callable[[float], float]) -> Problem:
    options = tuple(
        tuple(sorted((replace(c, seconds=change(c.seconds)) for c in o), key=lambda c: (c.mesh, c.seconds)))
        for o in problem.candidates
    )
    return replace(problem, candidates=options)


def usual() -> Problem:
    return random_problem(1, graph=PPO, cells=4, per_call=3, variants=2 if COMPILED else 1, tight=4.0)


CORNERS: dict[str, Callable[[], Problem]] = {
    "no call takes time": lambda: with_seconds(usual(), lambda s: 0.0),
    "nothing takes time": lambda: scaled(usual(), 0.0),
    "all calls take the same time": lambda: with_seconds(usual(), lambda s: 1.0),
    "huge times": lambda: scaled(usual(), 1e15),
    "tiny times": lambda: scaled(usual(), 1e-15),
    "huge moves": lambda: replace(usual(), move_seconds=tuple(1e12 * t for t in usual().move_seconds)),
    "every candidate twice": lambda: replace(
        random_problem(4, graph=GRPO, per_call=3),
        candidates=tuple(
            tuple(sorted(o + o, key=lambda c: (c.mesh, c.seconds)))
            for o in random_problem(4, graph=GRPO, per_call=3).candidates
        ),
    ),
    "one mesh": lambda: random_problem(2, graph=GRPO, cells=1, per_call=1, variants=3, tight=9.0),
    "sixty-two cells": lambda: random_problem(2, graph=GRPO, cells=62, per_call=4, tight=9.0),
    "memory without end": lambda: replace(usual(), cell_bytes=(float("inf"),) * 4),
    "calls that hold nothing": lambda: replace(
        usual(),
        candidates=tuple(
            tuple(replace(c, static_bytes=0.0, active_bytes=0.0) for c in o) for o in usual().candidates
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("make", CORNERS.values(), ids=CORNERS)
def test_corners(make: Callable[[], Problem]) -> None:
    problem = make()
    wanted = truth(problem)
    found = search(problem, budget_seconds=4.0, clock=ticking())
    assert found.period_seconds >= wanted.period * (1 - 1e-9)
    for start in (None, found.plan):
        proof = prove(problem, start, budget_seconds=ALWAYS)
        assert close(proof.period_seconds, wanted.period)
        assert close(proof.bound_seconds, min(wanted.bound, wanted.period))


def test_meshes_of_all_cells_at_once() -> None:
    # the mask of 62 cells is the largest there is
    whole = runs(62, aligned=False)[-1]
    assert whole.mask == 2**62 - 1
