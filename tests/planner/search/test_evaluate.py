"""What a plan is judged by: the growth of its schedule, not the end of a short one; in memory, a wall."""

import numpy as np

from ropewalk.planner.estimate.work import Strategy
from ropewalk.planner.jit import COMPILED
from ropewalk.planner.search.kernels import bound, evaluate, fits, growth, scratch
from ropewalk.planner.search.problem import FAR, Candidate, Mesh, Problem
from ropewalk.planner.search.schedule import schedule
from tests.planner.oracle.brute import fitting
from tests.planner.oracle.simulator import arrival, close, greedy, in_order, pace, period_in_order, work_of
from tests.planner.search.problems import GRPO, PPO, random_problem

PLANS = 40 if COMPILED else 20


def two_halves() -> Problem:
    """Actor on one half, critic on the other; the critic trains beside the next generation."""
    plan = schedule(PPO)
    where = [0, 1, 1, 1, 0, 1]
    seconds = [4.0, 1.0, 1.0, 1.0, 3.0, 6.5]
    options = tuple((Candidate(mesh, Strategy(), 0, s, 0.0, 0.0),) for mesh, s in zip(where, seconds, strict=True))
    moves = tuple(np.zeros((1, 1)) for _ in plan.moves)
    return Problem(plan, (Mesh(0, 1, 0, 1), Mesh(1, 1, 1, 1)), options, moves, (1, 1), (1.0, 1.0))


def makespan(problem: Problem, plan: list[int], order: int, iterations: int) -> float:
    return float(in_order(work_of(problem, plan), problem.schedule.orders[order], iterations).max())


def test_the_end_of_a_few_iterations_hides_what_overlaps_with_the_next() -> None:
    problem = two_halves()
    plan = list(range(6))
    period, order = evaluate(problem.tables, problem.orders, np.arange(6), scratch(problem.tables))
    assert close(float(period), 10.0)  # 4 + 3 x 1 + 3; the critic's 9.5 go on beside it
    assert makespan(problem, plan, int(order), 5) / 5 > 1.05 * period


def test_neither_makespan_over_iterations_nor_a_difference_of_two_is_the_period() -> None:
    """Both miss the pace of one and the same run, the first by its end, the second by its beginning."""
    rng = np.random.default_rng(0)
    slower, faster = 0.0, 0.0
    for seed in range(PLANS):
        problem = random_problem(seed, graph=PPO, cells=4, per_call=4, mode="one-step-off")
        plan = [int(k) for k in rng.integers(problem.tables.call_start[:-1], problem.tables.call_start[1:])]
        free, room = problem.tables._replace(cell_bytes=np.full(4, FAR)), scratch(problem.tables)
        found, order = evaluate(free, problem.orders, np.array(plan), room)
        work = work_of(problem, plan)
        assert close(float(found), period_in_order(work, problem.schedule.orders[order]))
        assert found >= bound(free.cycles, room.ops, room.bits, room.stack) * (1 - 1e-9)
        slower = max(slower, makespan(problem, plan, int(order), 4) / 4 / found - 1)
        two, four, many = (greedy(work, n, arrival) for n in (2, 4, 40))
        faster = max(faster, 1 - (four.max() - two.max()) / 2 / pace(many))
    assert slower > 0.05
    assert faster > 0.05


def test_a_cutoff_only_says_that_an_order_is_not_better() -> None:
    rng = np.random.default_rng(1)
    for seed in range(PLANS):
        problem = random_problem(seed, graph=GRPO, mode="one-step-off")
        room, orders = scratch(problem.tables), problem.orders
        plan = rng.integers(problem.tables.call_start[:-1], problem.tables.call_start[1:])
        evaluate(problem.tables._replace(cell_bytes=np.full(4, FAR)), orders, plan, room)
        for k in range(len(orders.sequence)):
            args = orders.sequence[k], orders.waits[k], room.ops, room.bits, room.history
            whole = growth(*args, FAR)
            assert growth(*args, whole * 1.001) == whole
            assert growth(*args, whole * 0.999) in (whole, FAR)


def test_statics_add_up_and_of_the_rest_only_the_largest_counts() -> None:
    plan = schedule(GRPO)
    held, active = [1.0, 2.0, 4.0, 8.0], [3.0, 1.0, 0.5, 2.0]
    options = tuple((Candidate(0, Strategy(), 0, 1.0, s, a),) for s, a in zip(held, active, strict=True))
    for capacity, wanted in ((18.0, True), (np.nextafter(18.0, 0.0), False)):
        moves = tuple(np.zeros((1, 1)) for _ in plan.moves)
        problem = Problem(plan, (Mesh(0, 1, 0, 1),), options, moves, (1,), (float(capacity),))
        t, room = problem.tables, scratch(problem.tables)
        assert fits(t.candidates, t.meshes, t.cell_bytes, np.arange(4), room.room) is wanted
        assert bool(fitting(problem, np.arange(4)[None])[0]) is wanted
        period, order = evaluate(t, problem.orders, np.arange(4), room)
        assert (period, order >= 0) == ((4.0, True) if wanted else (FAR, False))
