"""The simulator on schedules that can be worked out by hand, and the fast evaluator against the simulator."""

import numpy as np
import pytest

from ropewalk.plan.graph import CallGraph
from ropewalk.planner.estimate.work import Strategy
from ropewalk.planner.jit import COMPILED
from ropewalk.planner.search.kernels import bound, fill, growth, scratch
from ropewalk.planner.search.problem import FAR, Candidate, Mesh, Problem
from ropewalk.planner.search.schedule import MODES, Mode, schedule
from tests.planner.oracle.simulator import Work, close, greedy, in_order, pace, period_in_order, rules, work_of
from tests.planner.search.problems import CRITIC_ONLY, DPO, FROZEN_SAMPLER, GRPO, PPO, SFT, any_problem

PLANS = 50 if COMPILED else 30
ORDERS = 6
GREEDY_PLANS = 25 if COMPILED else 10
ITERATIONS = 40


def apart(graph: CallGraph, seconds: list[float], *, price: float = 0.0, mode: Mode = "synchronous") -> Problem:
    """Every call alone on a cell of its own."""
    plan = schedule(graph, mode)
    n = plan.calls
    return Problem(
        plan,
        tuple(Mesh(i, 1, i, 1) for i in range(n)),
        tuple((Candidate(i, Strategy(), 0, s, 0.0, 0.0),) for i, s in enumerate(seconds)),
        tuple(np.full((1, 1), price) for _ in plan.moves),
        (1,) * n,
        (1.0,) * n,
    )


def together(graph: CallGraph, seconds: list[float], *, price: float = 0.0, mode: Mode = "synchronous") -> Problem:
    """Every call on the one cell there is."""
    problem = apart(graph, seconds, price=price, mode=mode)
    options = tuple((Candidate(0, Strategy(), 0, s, 0.0, 0.0),) for s in seconds)
    return Problem(problem.schedule, (Mesh(0, 1, 0, 1),), options, problem.move_seconds, (1,), (1.0,))


def only_work(problem: Problem) -> Work:
    return work_of(problem, [int(k) for k in problem.tables.call_start[:-1]])


def fast(problem: Problem, plan: list[int], order: int) -> tuple[float, float]:
    """Period under one order, and the plan's bound, by the fast evaluator."""
    t, w = problem.tables, scratch(problem.tables)
    fill(t.candidates, t.meshes, t.moves, t.prices, np.array(plan, dtype=np.int64), w.ops, w.bits)
    floor = bound(t.cycles, w.ops, w.bits, w.stack)
    return growth(problem.orders.sequence[order], problem.orders.waits[order], w.ops, w.bits, w.history, FAR), floor


# -- by hand -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [PPO, GRPO, DPO, SFT], ids=["ppo", "grpo", "dpo", "sft"])
def test_on_one_cell_everything_adds_up(graph: CallGraph) -> None:
    problem = together(graph, [1.0 + i for i in range(len(graph.calls))], price=0.25)
    work = only_work(problem)
    whole = sum(work.seconds)
    for order in problem.schedule.orders:
        assert close(period_in_order(work, order), whole)
    for rule in rules(work, range(3)).values():
        assert greedy(work, ITERATIONS, rule).max() == pytest.approx(ITERATIONS * whole)


def test_apart_an_iteration_is_its_longest_chain() -> None:
    # generate 3, judges 1 and 2, training 4, the move 0.5: 3 + 2 + 4 + 0.5, the move being in nobody's way
    work = only_work(apart(GRPO, [3.0, 1.0, 2.0, 4.0], price=0.5))
    assert close(pace(greedy(work, ITERATIONS, rules(work)["arrival"])), 9.5)


def test_one_step_off_hides_training_behind_generation() -> None:
    # generate waits for the training before the last one, so two iterations share the chain of 3 + 2 + 4
    problem = apart(GRPO, [3.0, 1.0, 2.0, 4.0], mode="one-step-off")
    work = only_work(problem)
    assert close(pace(greedy(work, ITERATIONS, rules(work)["arrival"])), 4.5)
    assert close(min(period_in_order(work, order) for order in problem.schedule.orders), 4.5)


def test_streaming_leaves_the_last_share_of_scoring() -> None:
    # the reference of 2 seconds has a tenth left when generation ends
    problem = apart(GRPO, [3.0, 2.0, 2.0, 4.0], mode="streaming")
    work = only_work(problem)
    assert close(period_in_order(work, problem.schedule.orders[0]), 3.0 + 0.2 + 4.0)
    long = only_work(apart(GRPO, [3.0, 20.0, 2.0, 4.0], mode="streaming"))  # it cannot start before generation does
    assert close(period_in_order(long, problem.schedule.orders[0]), 20.0 + 4.0)


def test_critic_training_beside_the_next_generation() -> None:
    # actor on cell 0, critic on cell 1: critic_train 5 overlaps generation 4, and values wait for both
    problem = apart(PPO, [4.0, 1.0, 1.0, 1.0, 3.0, 5.0])
    places = [0, 1, 1, 1, 0, 1]
    options = tuple(
        (Candidate(place, c[0].strategy, 0, c[0].seconds, 0.0, 0.0),)
        for place, c in zip(places, problem.candidates, strict=True)
    )
    moved = Problem(problem.schedule, problem.meshes, options, problem.move_seconds, (1,) * 6, (1.0,) * 6)
    best = min(period_in_order(only_work(moved), order) for order in moved.schedule.orders)
    assert close(best, 10.0)  # generate 4, three scorings 3, actor_train 3; the critic: 3 + 5 < 10


def test_instances_end_in_turn_and_wait_as_they_must() -> None:
    problem = any_problem(7)
    plan = [int(k) for k in problem.tables.call_start[:-1]]
    work = work_of(problem, plan)
    for order in problem.schedule.orders[:5]:
        ends = in_order(work, order, 12)
        starts = ends - np.array(work.seconds)
        for d in work.dependencies:
            for number in range(12):
                before = number - d.lag - order.shift[d.after] + order.shift[d.before]
                if before >= 0 and not d.stream:
                    assert starts[number, d.after] >= ends[before, d.before] - 1e-9
        taken = [(starts[r, o], ends[r, o], o) for r in range(12) for o in range(len(work.seconds))]
        for one in taken:
            for other in taken:
                if one is not other and work.cells[one[2]] & work.cells[other[2]]:
                    assert one[1] <= other[0] + 1e-9 or other[1] <= one[0] + 1e-9


# -- the evaluator -------------------------------------------------------------------------------------------------


def test_the_evaluator_finds_the_simulated_period_of_every_order(grid_seed: int) -> None:
    rng = np.random.default_rng(grid_seed)
    for trial in range(PLANS):
        seed = int(rng.integers(2**32))
        problem = any_problem(seed, odd=trial % 3 == 0)
        plan = [int(k) for k in rng.integers(problem.tables.call_start[:-1], problem.tables.call_start[1:])]
        work, listed = work_of(problem, plan), problem.schedule.orders
        for order in rng.permutation(len(listed))[:ORDERS]:
            found, floor = fast(problem, plan, int(order))
            wanted = period_in_order(work, listed[order])
            assert close(found, wanted), (seed, plan, order)
            assert wanted >= floor * (1 - 1e-9), (seed, plan, order)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("graph", [FROZEN_SAMPLER, CRITIC_ONLY], ids=["frozen sampler", "critic only"])
def test_steady_states_that_repeat_only_after_two_rounds(graph: CallGraph, mode: Mode) -> None:
    rng = np.random.default_rng(0)
    for _ in range(12 if COMPILED else 2):
        seconds = [float(s) for s in rng.uniform(1.5, 2.5, len(graph.calls))]
        problem = apart(graph, seconds, mode=mode)
        work = only_work(problem)
        for number, order in enumerate(problem.schedule.orders[:4]):
            found, floor = fast(problem, [int(k) for k in problem.tables.call_start[:-1]], number)
            assert close(found, period_in_order(work, order))
            assert found >= floor * (1 - 1e-9)


# -- any schedule --------------------------------------------------------------------------------------------------


def test_no_greedy_run_beats_the_bound(grid_seed: int) -> None:
    rng = np.random.default_rng(grid_seed)
    for trial in range(GREEDY_PLANS):
        seed = int(rng.integers(2**32))
        problem = any_problem(seed, odd=trial % 3 == 0)
        plan = [int(k) for k in rng.integers(problem.tables.call_start[:-1], problem.tables.call_start[1:])]
        work = work_of(problem, plan)
        _, floor = fast(problem, plan, 0)
        longest_lag = float(problem.tables.cycles[:, 1].max(initial=1.0))
        for name, rule in rules(work, range(3)).items():
            # N iterations take N times what excludes itself, and every full turn of a cycle of lag L inside them
            whole = greedy(work, ITERATIONS, rule).max()
            assert whole >= (ITERATIONS - longest_lag) * floor * (1 - 1e-9), (seed, plan, name)
