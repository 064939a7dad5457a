"""Symmetry is broken only where it holds: elsewhere it would prove falsehoods, and here it is seen to."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ropewalk.planner.jit import COMPILED
from ropewalk.planner.search.branching import BEST, FIXED, SMALLER, Branching, branch
from ropewalk.planner.search.kernels import bounds_all, evaluate, evaluate_all, scratch
from ropewalk.planner.search.problem import FAR, MESH, Candidate, Ints, Problem
from ropewalk.planner.search.prove import _state, branching, prove
from ropewalk.planner.search.symmetry import symmetries
from tests.planner.search.problems import GRPO, PPO, any_problem, random_problem

PLANS = 60 if COMPILED else 12
NODES = 10**9


def closed(seed: int = 3, *, aligned: bool = False) -> Problem:
    """A problem that its mirror image leaves as it is."""
    return random_problem(seed, graph=PPO, cells=4, variants=2, closed=True, aligned=aligned, tight=4.0)


def holds(problem: Problem, image: Ints, seed: int = 0) -> bool:
    """Whether plans and their images have equal periods and bounds, and fit alike."""
    low, high = problem.tables.call_start[:-1], problem.tables.call_start[1:]
    plans = np.random.default_rng(seed).integers(low, high, (PLANS, len(low)))
    seen = []
    for rows in (plans, image[plans]):
        found, order, floor = np.zeros(PLANS), np.zeros(PLANS, dtype=np.int64), np.zeros(PLANS)
        evaluate_all(problem.tables, problem.orders, rows, scratch(problem.tables), found, order)
        bounds_all(problem.tables, rows, scratch(problem.tables), floor)
        seen.append(np.stack([found, floor]))
    return bool(np.allclose(*seen, rtol=1e-12, atol=0))


@pytest.mark.parametrize("aligned", [False, True], ids=["runs", "aligned"])
def test_closed_problems_have_their_symmetries(aligned: bool) -> None:
    found = symmetries(closed(aligned=aligned))
    assert len(found) >= (2 if aligned else 1)  # aligned pieces can be swapped as well as mirrored
    for image in found:
        assert sorted(image) == list(range(len(image)))
        assert holds(closed(aligned=aligned), image)


def test_whatever_is_returned_holds(grid_seed: int) -> None:
    rng = np.random.default_rng(grid_seed)
    some = 0
    for done in range(600):
        if some and done >= (60 if COMPILED else 15):
            break
        seed = int(rng.integers(2**32))
        problem = any_problem(seed)
        for image in symmetries(problem):
            some += 1
            assert holds(problem, image, seed), seed
    assert some


def test_prices_that_no_candidate_has_do_not_matter() -> None:
    """A cut of which pruning has left no candidate keeps its row of prices."""
    whole = closed()
    table = np.pad(whole.move_seconds[0], ((0, 1), (0, 1)), constant_values=7.0)
    table[-1, 0] = 3.0
    assert len(symmetries(replace(whole, move_seconds=(table, *whole.move_seconds[1:])))) == len(symmetries(whole))


# -- planted breaks ------------------------------------------------------------------------------------------------


def off_centre(problem: Problem, call: int) -> int:
    """A candidate whose mesh the mirror moves."""
    cells = len(problem.cell_gpus)
    for i, c in enumerate(problem.candidates[call]):
        mesh = problem.meshes[c.mesh]
        if mesh.first_cell != cells - mesh.first_cell - mesh.cells:
            return i
    raise AssertionError("every mesh is its own mirror image")


def with_candidate(problem: Problem, change: Callable[[Candidate], Candidate | None], call: int = 1) -> Problem:
    at = off_centre(problem, call)
    kept = [change(c) if i == at else c for i, c in enumerate(problem.candidates[call])]
    options = tuple(sorted((c for c in kept if c is not None), key=lambda c: (c.mesh, c.seconds)))
    return replace(problem, candidates=(*problem.candidates[:call], options, *problem.candidates[call + 1 :]))


def one_price_more(problem: Problem) -> Problem:
    source = problem.candidates[4][off_centre(problem, 4)].geometry
    table = problem.move_seconds[0].copy()
    table[source, 0] += 0.1
    return replace(problem, move_seconds=(table, *problem.move_seconds[1:]))


BREAKS: dict[str, Callable[[Problem], Problem]] = {
    "candidate missing": lambda p: with_candidate(p, lambda c: None),
    "another way to cut": lambda p: with_candidate(p, lambda c: replace(c, strategy=replace(c.strategy, pp=2))),
    "time": lambda p: with_candidate(p, lambda c: replace(c, seconds=c.seconds * (1 + 1e-6))),
    "bytes held": lambda p: with_candidate(p, lambda c: replace(c, static_bytes=c.static_bytes * 1.5)),
    "bytes at work": lambda p: with_candidate(p, lambda c: replace(c, active_bytes=c.active_bytes + 0.01)),
    "move price": one_price_more,
    "memory of a cell": lambda p: replace(p, cell_bytes=(*p.cell_bytes[:-1], p.cell_bytes[-1] * 0.9)),
    "GPUs of a cell": lambda p: replace(p, cell_gpus=(*p.cell_gpus[:-1], 2)),
}


@pytest.mark.parametrize("plant", BREAKS.values(), ids=BREAKS)
@pytest.mark.parametrize("aligned", [False, True], ids=["runs", "aligned"])
def test_a_broken_symmetry_is_not_returned(plant: Callable[[Problem], Problem], aligned: bool) -> None:
    whole = closed(aligned=aligned)
    broken = plant(whole)
    mirror = symmetries(whole)[0]
    left = symmetries(broken)
    assert not any(np.array_equal(image, mirror) for image in left)
    assert len(left) < len(symmetries(whole))
    assert all(holds(broken, image) for image in left)
    with_it, without = (prove(broken, break_symmetry=b, budget_seconds=1e9) for b in (True, False))
    assert with_it.period_seconds == pytest.approx(without.period_seconds, rel=1e-12)
    assert with_it.bound_seconds == pytest.approx(without.bound_seconds, rel=1e-12)


# -- that these tests can fail -------------------------------------------------------------------------------------


def forced_mirror(problem: Problem) -> Branching:
    """As if the mirror image of every plan were as good, whatever the tables say."""
    tree = branching(problem, break_symmetry=False)
    cells = len(problem.cell_gpus)
    mesh_of = problem.tables.candidates[tree.groups[:-1, 3], MESH].astype(int)
    for call in range(problem.schedule.calls):
        mine = range(tree.group_start[call], tree.group_start[call + 1])
        spans = {(problem.meshes[mesh_of[g]].first_cell, problem.meshes[mesh_of[g]].cells): g for g in mine}
        for (first, count), g in spans.items():
            image = spans.get((cells - first - count, count))
            tree.groups[g, SMALLER] = int(image is not None and image < g)
            tree.groups[g, FIXED] = int(image == g)
    return tree


def test_a_symmetry_that_does_not_hold_proves_falsehoods() -> None:
    wrong = 0
    for seed in range(40 if COMPILED else 12):
        problem = random_problem(seed, graph=GRPO, cells=4, per_call=6, tight=3.0)
        assert not symmetries(problem)
        state = _state(forced_mirror(problem), np.full(4, -1, dtype=np.int64), FAR, 0.0)
        assert branch(problem.tables, forced_mirror(problem), problem.orders, state, scratch(problem.tables), NODES)
        proof = prove(problem, budget_seconds=1e9)
        wrong += state.value[BEST] > proof.period_seconds * (1 + 1e-9)
        again, _ = evaluate(problem.tables, problem.orders, np.array(proof.plan), scratch(problem.tables))
        assert again == pytest.approx(proof.period_seconds, rel=1e-12)
    assert wrong > 0
