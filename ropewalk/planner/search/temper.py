"""Lazy parallel tempering over plans, then a pair-exhaustive polish: good plans quickly, without a certificate."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations, cycle

import numpy as np

from ropewalk.planner.jit import COMPILED
from ropewalk.planner.search.kernels import (
    DRAWS,
    Chains,
    bound,
    evaluate,
    fill,
    growth,
    make_room,
    polish_pair,
    scratch,
    temper,
)
from ropewalk.planner.search.problem import FAR, SECONDS, Floats, Ints, OrderTables, Problem, order_tables
from ropewalk.records.errors import InputError

REPLICAS = 12
COLDEST, HOTTEST = 800.0, 20.0
"""Inverse temperatures, in units of one over the period of the start."""
LEAST = 1e-300
"""Seconds to divide by where a plan takes none."""
BLOCK = 4096 if COMPILED else 96
"""Proposals between two looks at the clock."""
FEW_ORDERS = 9
KEPT = 64
STARTS = 20_000 if COMPILED else 2_000
"""Changes tried to make a random plan fit."""


@dataclass
class Found:
    """The best plan so far, the best distinct plans, and how the search went."""

    plan: tuple[int, ...]
    period_seconds: float
    best: list[tuple[float, tuple[int, ...]]]
    proposals: int
    simulated: int
    seconds: float
    history: list[tuple[float, float]] = field(default_factory=list)
    """(seconds since the start, best period), at every improvement that was noticed."""


def search(
    problem: Problem,
    *,
    seed: int = 0,
    budget_seconds: float = 1.0,
    goal_seconds: float = 0.0,
    replicas: int = REPLICAS,
    clock: Callable[[], float] = time.perf_counter,
) -> Found:
    """Temper until the budget is used up, or the period is at most `goal_seconds`. Raises InputError where nothing
    fits in memory."""
    began = clock()
    tables, room = problem.tables, scratch(problem.tables)
    few = few_orders(problem, seed)
    rng = np.random.default_rng(seed)
    chains = start(problem, few, rng, replicas)
    history = [(clock() - began, float(chains.best_cost.min()))]
    while clock() - began < budget_seconds and history[-1][1] > goal_seconds:
        temper(tables, few, chains, room, rng.random((BLOCK, DRAWS)))
        lowest = float(chains.best_cost.min())
        if lowest < history[-1][1]:
            history.append((clock() - began, lowest))
    best = _ranked(problem, chains)
    return Found(best[0][1], best[0][0], best, int(chains.tally[0]), int(chains.tally[1]), clock() - began, history)


def polished(
    problem: Problem,
    plan: tuple[int, ...],
    period_seconds: float,
    *,
    budget_seconds: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[tuple[int, ...], float]:
    """Change two calls at a time, exhaustively, until no pair helps or the budget is used up."""
    began = clock()
    here = np.array(plan, dtype=np.int64)
    room = scratch(problem.tables)
    pairs = list(combinations(range(len(here)), 2)) or [(0, 0)]
    idle = 0
    for a, b in cycle(pairs):
        if idle == len(pairs) or clock() - began >= budget_seconds:
            break
        found = float(polish_pair(problem.tables, problem.orders, here, room, period_seconds, a, b))
        idle = 0 if found < period_seconds else idle + 1
        period_seconds = found
    return tuple(int(k) for k in here), period_seconds


def start(problem: Problem, orders: OrderTables, rng: np.random.Generator, replicas: int) -> Chains:
    """Feasible plans: half of the replicas start from the fastest candidate of every call, half at random."""
    tables, room = problem.tables, scratch(problem.tables)
    low, high = tables.call_start[:-1], tables.call_start[1:]
    seconds = tables.candidates[:, SECONDS]
    fastest = np.array([a + np.argmin(seconds[a:b]) for a, b in zip(low, high, strict=True)], dtype=np.int64)
    plans = np.zeros((replicas, len(low)), dtype=np.int64)
    cost = np.full(replicas, FAR)
    for r in range(replicas):
        plans[r] = fastest if r % 2 else rng.integers(low, high)
        if make_room(tables, plans[r], room.room, rng.random((STARTS, 2))):
            cost[r], _ = evaluate(tables, orders, plans[r], room)
    if cost.min() >= FAR:
        raise InputError(
            "no plan of this space fits in memory: see `ropewalk plan --memory` for what would make it fit"
        )
    for r in np.flatnonzero(cost >= FAR):
        plans[r], cost[r] = plans[cost.argmin()], cost.min()
    ladder = np.geomspace(COLDEST, HOTTEST, replicas) / max(cost.min(), LEAST)
    best = np.repeat(plans[[cost.argmin()]], KEPT, axis=0)
    best_cost = np.full(KEPT, FAR)
    best_cost[0] = cost.min()
    return Chains(plans, cost, ladder, best, best_cost, np.zeros(3, dtype=np.int64))


def few_orders(problem: Problem, seed: int = 0, *, most: int = FEW_ORDERS) -> OrderTables:
    """The orders that serve the inner loop: chosen one after another so that random plans lose least by the choice."""
    listed = problem.schedule.orders
    if len(listed) <= most:
        return problem.orders
    costs = order_costs(problem, np.random.default_rng(seed), 64)
    chosen: list[int] = []
    best = np.full(len(costs), FAR)
    for _ in range(most):
        chosen.append(int(np.minimum(best[:, None], costs).sum(axis=0).argmin()))
        best = np.minimum(best, costs[:, chosen[-1]])
    return order_tables(problem.schedule, [listed[k] for k in sorted(set(chosen))])


def order_costs(problem: Problem, rng: np.random.Generator, plans: int) -> Floats:
    """Period of random plans (memory left aside) under each order, over the plan's bound: (plans, orders)."""
    tables, room = problem.tables, scratch(problem.tables)
    orders = problem.orders
    costs = np.zeros((plans, len(orders.sequence)))
    for i in range(plans):
        plan: Ints = rng.integers(tables.call_start[:-1], tables.call_start[1:])
        fill(tables.candidates, tables.meshes, tables.moves, tables.prices, plan, room.ops, room.bits)
        floor = bound(tables.cycles, room.ops, room.bits, room.stack)
        for k in range(costs.shape[1]):
            found = growth(orders.sequence[k], orders.waits[k], room.ops, room.bits, room.history, FAR)
            costs[i, k] = found / max(floor, LEAST)
    return costs


def _ranked(problem: Problem, chains: Chains) -> list[tuple[float, tuple[int, ...]]]:
    """The best plans, judged by all orders."""
    room = scratch(problem.tables)
    found = {
        tuple(int(k) for k in plan) for plan, cost in zip(chains.best, chains.best_cost, strict=True) if cost < FAR
    }
    judged = [(float(evaluate(problem.tables, problem.orders, np.array(p), room)[0]), p) for p in sorted(found)]
    return sorted(judged)
