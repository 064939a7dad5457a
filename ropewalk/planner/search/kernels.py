"""The inner loops: times, bound and period of one plan, and parallel tempering over plans.

Compiled where numba is installed (see `jit`). Sets of operations and of cells are bit masks. Functions of the inner
loops take arrays one by one: a tuple of them costs a microsecond each time it is handed on.
"""

from typing import NamedTuple

import numpy as np

from ropewalk.planner.jit import njit
from ropewalk.planner.search.problem import (
    ACTIVE,
    END_CELL,
    FAR,
    FIRST_CELL,
    FROM,
    GEOMETRY,
    MASK,
    MESH,
    SECONDS,
    SOURCE,
    START,
    STATIC,
    STREAMED,
    TARGET,
    TO,
    WIDTH,
    Floats,
    Ints,
    OrderTables,
    Tables,
)

CONSTANTS = "7210dbfb48493274"
"""Digest of the constants of `problem`, which are compiled in: stored code is renewed only when this file changes."""
ROUNDS = 24
STRIDES = 12
"""Rounds over which states are compared: what repeats after 1, 2, 3, 4 or 6 rounds repeats after 12."""
HISTORY = 4
SAME = 1e-9
TIME, SHARE, WEIGHT = range(3)
"""Rows of `Scratch.ops`: seconds, share of all GPUs, weight in a clique."""
WHERE, CONFLICT, ADJACENT, SEQUENTIAL = range(4)
"""Rows of `Scratch.bits`: cells; operations that share one; that can never overlap; that the graph itself orders."""


class Scratch(NamedTuple):
    """Room for one plan's evaluation."""

    ops: Floats
    bits: Ints
    history: Floats
    """[age, operation]: end of the instance that lies `age` instances back; below it, an earlier state to compare."""
    stack: Floats
    """Sets and weights on the way to a clique."""
    room: Floats
    """[static and active, cell]."""


def scratch(tables: Tables) -> Scratch:
    """Room for plans of these tables."""
    n = len(tables.sequential)
    bits = np.zeros((4, n), dtype=np.int64)
    bits[SEQUENTIAL] = tables.sequential
    return Scratch(
        np.zeros((3, n)), bits, np.zeros((2 * HISTORY, n)), np.zeros((2, n + 2)), np.zeros((2, len(tables.cell_bytes)))
    )


# -- one plan ------------------------------------------------------------------------------------------------------


@njit
def fits(candidates: Floats, meshes: Ints, cell_bytes: Floats, plan: Ints, room: Floats) -> bool:
    """Whether on every cell the statics and the largest active part fit."""
    room[:] = 0.0
    for c in range(len(plan)):
        k = plan[c]
        m = int(candidates[k, MESH])
        for cell in range(meshes[m, FIRST_CELL], meshes[m, END_CELL]):
            room[0, cell] += candidates[k, STATIC]
            room[1, cell] = max(room[1, cell], candidates[k, ACTIVE])
    return bool(np.all(room[0] + room[1] <= cell_bytes))


@njit
def fill(candidates: Floats, meshes: Ints, moves: Ints, prices: Floats, plan: Ints, ops: Floats, bits: Ints) -> None:
    """Times, shares of all GPUs and cells of a plan's operations, and their conflicts.

    A move occupies the meshes at both its ends; one that costs nothing occupies nothing.
    """
    calls = len(plan)
    for c in range(calls):
        k = plan[c]
        m = int(candidates[k, MESH])
        ops[TIME, c] = candidates[k, SECONDS]
        ops[SHARE, c] = candidates[k, TO] - candidates[k, FROM]
        bits[WHERE, c] = meshes[m, MASK]
    for j in range(len(moves)):
        s, d = plan[moves[j, SOURCE]], plan[moves[j, TARGET]]
        at = moves[j, START] + int(candidates[s, GEOMETRY]) * moves[j, WIDTH] + int(candidates[d, GEOMETRY])
        a, b = int(candidates[s, MESH]), int(candidates[d, MESH])
        both = max(0.0, min(candidates[s, TO], candidates[d, TO]) - max(candidates[s, FROM], candidates[d, FROM]))
        o = calls + j
        ops[TIME, o] = prices[at]
        ops[SHARE, o] = 0.0
        bits[WHERE, o] = 0
        if prices[at] > 0.0:
            ops[SHARE, o] = ops[SHARE, moves[j, SOURCE]] + ops[SHARE, moves[j, TARGET]] - both
            bits[WHERE, o] = meshes[a, MASK] | meshes[b, MASK]
    conflicts(bits)


@njit
def conflicts(bits: Ints) -> None:
    """Which operations share a cell, and which can never overlap."""
    n = bits.shape[1]
    for o in range(n):
        bits[CONFLICT, o] = 0
    for o in range(n):
        for p in range(o):
            if bits[WHERE, o] & bits[WHERE, p] != 0:
                bits[CONFLICT, o] |= 1 << p
                bits[CONFLICT, p] |= 1 << o
    for o in range(n):
        bits[ADJACENT, o] = bits[CONFLICT, o] | bits[SEQUENTIAL, o]


@njit
def heaviest_clique(weight: Floats, adjacent: Ints, stack: Floats) -> float:
    """Largest total weight of operations of which no two can overlap."""
    n = len(weight)
    best = 0.0
    depth = 0
    stack[0, 0] = (1 << n) - 1
    stack[1, 0] = 0.0
    while depth >= 0:
        left, total = int(stack[0, depth]), stack[1, depth]
        rest = 0.0
        branch = -1
        for o in range(n):
            if left >> o & 1:
                rest += weight[o]
                if branch < 0 and left & ~adjacent[o] != 1 << o:
                    branch = o
        if total + rest <= best:
            depth -= 1
        elif branch < 0:
            best = total + rest
            depth -= 1
        else:
            stack[0, depth] = left & ~(1 << branch)
            depth += 1
            stack[0, depth] = left & adjacent[branch]
            stack[1, depth] = total + weight[branch]
    return best


@njit
def bound(cycles: Floats, ops: Floats, bits: Ints, stack: Floats) -> float:
    """Seconds that no schedule of this plan can beat: area, operations that exclude each other, longer cycles."""
    area = 0.0
    for o in range(ops.shape[1]):
        area += ops[TIME, o] * ops[SHARE, o]
    best = max(area, heaviest_clique(ops[TIME], bits[ADJACENT], stack))
    return max(best, longest_cycle(cycles, ops))


@njit
def longest_cycle(cycles: Floats, ops: Floats) -> float:
    """Largest time over lag of the cycles of a lag above 1."""
    best = 0.0
    for i in range(len(cycles)):
        total = 0.0
        for o in range(ops.shape[1]):
            if int(cycles[i, 0]) >> o & 1:
                total += ops[TIME, o]
        best = max(best, total / cycles[i, 1])
    return best


@njit
def dispatch(sequence: Ints, waits: Ints, ops: Floats, bits: Ints, h: Floats) -> None:
    """One round: every operation starts once all it waits for, and all earlier ones that share a cell, have ended."""
    for i in range(len(sequence)):
        o = sequence[i]
        start = h[0, o]
        j = 0
        while waits[i, j, 0] >= 0:
            p = waits[i, j, 0]
            end = h[waits[i, j, 1], p]
            if waits[i, j, 2]:
                end = max(end - STREAMED * ops[TIME, o], end - ops[TIME, p])
            start = max(start, end)
            j += 1
        left = bits[CONFLICT, o]
        p = 0
        while left != 0:
            if left & 1:
                start = max(start, h[0, p])
            left >>= 1
            p += 1
        h[3, o] = h[2, o]
        h[2, o] = h[1, o]
        h[1, o] = h[0, o]
        h[0, o] = start + ops[TIME, o]


@njit
def growth(sequence: Ints, waits: Ints, ops: Floats, bits: Ints, h: Floats, cutoff: float) -> float:
    """Period of one cyclic order: how much later everything ends from one round to the next.

    The recurrence is monotone and commutes with adding a constant, so its growth per round lies between the least and
    the greatest difference of two states over the rounds between them (Collatz and Wielandt); they meet when it is
    steady. FAR if it is above `cutoff`.
    """
    h[:HISTORY] = 0.0
    high = FAR
    for turn in range(ROUNDS):
        dispatch(sequence, waits, ops, bits, h)
        if turn >= 2:
            low, high = grown(h, 1, 1)
            if high - low <= SAME * high:
                return high
            if low >= cutoff:
                return FAR
    h[HISTORY:] = h[:HISTORY]
    for rounds in range(1, STRIDES + 1):
        dispatch(sequence, waits, ops, bits, h)
        low, other = grown(h, HISTORY, rounds)
        high = min(high, other)
        if other - low <= SAME * other:
            break
    return high


@njit
def grown(h: Floats, below: int, rounds: int) -> tuple[float, float]:
    """Least and greatest growth per round from the state that lies `below` rows below to the state on top.

    A state is all that the next round reads: the ends of the last HISTORY − 1 instances of every operation.
    """
    low, high = FAR, -FAR
    for age in range(HISTORY - 1):
        for o in range(h.shape[1]):
            each = (h[age, o] - h[age + below, o]) / rounds
            low = min(low, each)
            high = max(high, each)
    return low, high


@njit
def best_order(orders: OrderTables, w: Scratch, floor: float, cutoff: float) -> tuple[float, int]:
    """Shortest period over the orders, and which one gives it; FAR where none is below `cutoff`."""
    sequence, waits, ops, bits, history = orders.sequence, orders.waits, w.ops, w.bits, w.history
    best, chosen = FAR, -1
    for k in range(len(sequence)):
        found = growth(sequence[k], waits[k], ops, bits, history, min(best, cutoff))
        if found < best:
            best, chosen = found, k
            if best <= floor * (1.0 + SAME):
                break
    return best, chosen


@njit
def evaluate(t: Tables, orders: OrderTables, plan: Ints, w: Scratch) -> tuple[float, int]:
    """Period and order of a plan; FAR if it does not fit in memory."""
    if not fits(t.candidates, t.meshes, t.cell_bytes, plan, w.room):
        return FAR, -1
    fill(t.candidates, t.meshes, t.moves, t.prices, plan, w.ops, w.bits)
    return best_order(orders, w, bound(t.cycles, w.ops, w.bits, w.stack), FAR)


@njit
def evaluate_all(t: Tables, orders: OrderTables, plans: Ints, w: Scratch, periods: Floats, chosen: Ints) -> None:
    """Period and order of every row of `plans`."""
    for b in range(len(plans)):
        periods[b], chosen[b] = evaluate(t, orders, plans[b], w)


@njit
def bounds_all(t: Tables, plans: Ints, w: Scratch, found: Floats) -> None:
    """Bound of every row of `plans`; FAR where it does not fit in memory."""
    for b in range(len(plans)):
        found[b] = FAR
        if fits(t.candidates, t.meshes, t.cell_bytes, plans[b], w.room):
            fill(t.candidates, t.meshes, t.moves, t.prices, plans[b], w.ops, w.bits)
            found[b] = bound(t.cycles, w.ops, w.bits, w.stack)


# -- search --------------------------------------------------------------------------------------------------------


class Chains(NamedTuple):
    """Replicas at fixed temperatures, and the best plans any of them has met."""

    plan: Ints
    cost: Floats
    beta: Floats
    best: Ints
    """[rank, call]: the best distinct plans, in no order."""
    best_cost: Floats
    tally: Ints
    """Proposals, simulated ones, accepted ones."""


DRAWS = 8
"""Uniform numbers of one proposal: call, mesh and candidate, twice; acceptance; whether one call changes or two."""
SKEW = 3.0
"""Power of a uniform number that picks among the candidates of a mesh, fastest first."""


@njit
def overflow(t: Tables, plan: Ints, room: Floats) -> float:
    """Largest fill of any cell, of which 1 is full."""
    fits(t.candidates, t.meshes, t.cell_bytes, plan, room)
    worst = 0.0
    for cell in range(room.shape[1]):
        worst = max(worst, (room[0, cell] + room[1, cell]) / t.cell_bytes[cell])
    return worst


@njit
def draw(call_start: Ints, plan: Ints, call: float, candidate: float) -> None:
    """Give one call, chosen by a uniform number, the candidate chosen by another."""
    c = min(int(call * len(plan)), len(plan) - 1)
    size = call_start[c + 1] - call_start[c]
    plan[c] = call_start[c] + min(int(candidate * size), size - 1)


@njit
def draw_fast(group_start: Ints, group_first: Ints, plan: Ints, u: Floats) -> None:
    """Give one call, chosen by u[0], a candidate on the mesh of u[1]: by u[2], fast ones sooner."""
    c = min(int(u[0] * len(plan)), len(plan) - 1)
    groups = group_start[c + 1] - group_start[c]
    g = group_start[c] + min(int(u[1] * groups), groups - 1)
    size = group_first[g + 1] - group_first[g]
    plan[c] = group_first[g] + min(int(u[2] ** SKEW * size), size - 1)


@njit
def make_room(t: Tables, plan: Ints, room: Floats, u: Floats) -> bool:
    """Change calls, one a row of `u`, until the plan fits in memory; keep no change that makes it fuller."""
    now = overflow(t, plan, room)
    trial = plan.copy()
    for i in range(len(u)):
        if now <= 1.0:
            return True
        trial[:] = plan
        draw(t.call_start, trial, u[i, 0], u[i, 1])
        then = overflow(t, trial, room)
        if then <= now:
            plan[:] = trial
            now = then
    return now <= 1.0


@njit
def temper(t: Tables, orders: OrderTables, s: Chains, w: Scratch, u: Floats) -> None:
    """One proposal a row of `u`, the replicas in turn: one call (2/3) or two change at once.

    The acceptance level is drawn first: a proposal is refused without simulating it where its bound is already above.
    That leaves the chain as it was. Fast candidates are proposed more often and nothing makes up for it: the chains
    look for good plans, they do not sample a distribution.
    """
    candidates, meshes, moves, prices = t.candidates, t.meshes, t.moves, t.prices
    group_start, group_first = t.group_start, t.group_first
    ops, bits, stack, room = w.ops, w.bits, w.stack, w.room
    trial = s.plan[0].copy()
    for i in range(len(u)):
        r = i % len(s.cost)
        trial[:] = s.plan[r]
        draw_fast(group_start, group_first, trial, u[i, 0:3])
        if u[i, 7] < 1.0 / 3.0:
            draw_fast(group_start, group_first, trial, u[i, 3:6])
        s.tally[0] += 1
        if fits(candidates, meshes, t.cell_bytes, trial, room):
            limit = s.cost[r] - np.log(u[i, 6]) / s.beta[r]
            fill(candidates, meshes, moves, prices, trial, ops, bits)
            floor = bound(t.cycles, ops, bits, stack)
            if floor <= limit:
                s.tally[1] += 1
                cost, _ = best_order(orders, w, floor, limit * (1.0 + SAME))
                if cost <= limit:
                    s.tally[2] += 1
                    s.plan[r] = trial
                    s.cost[r] = cost
                    remember(s, trial, cost)
        if r == len(s.cost) - 1:
            exchange(s, u[i, 7])


@njit
def exchange(s: Chains, u: float) -> None:
    """One try to swap two neighbours of the temperature ladder."""
    r = min(int(u * (len(s.cost) - 1)), len(s.cost) - 2)
    if r >= 0 and (s.beta[r] - s.beta[r + 1]) * (s.cost[r] - s.cost[r + 1]) >= 0.0:
        for c in range(s.plan.shape[1]):
            s.plan[r, c], s.plan[r + 1, c] = s.plan[r + 1, c], s.plan[r, c]
        s.cost[r], s.cost[r + 1] = s.cost[r + 1], s.cost[r]


@njit
def remember(s: Chains, plan: Ints, cost: float) -> None:
    """Keep the plan if it is among the best distinct ones."""
    worst = 0
    for i in range(len(s.best_cost)):
        if s.best_cost[i] > s.best_cost[worst]:
            worst = i
    if cost >= s.best_cost[worst]:
        return
    for i in range(len(s.best_cost)):
        if s.best_cost[i] == cost and np.all(s.best[i] == plan):
            return
    s.best[worst] = plan
    s.best_cost[worst] = cost


@njit
def polish_pair(t: Tables, orders: OrderTables, plan: Ints, w: Scratch, cost: float, a: int, b: int) -> float:
    """Best plan over all candidates of calls a and b, the others kept; filtered by the bound. Changed in place."""
    candidates, meshes, moves, prices, start = t.candidates, t.meshes, t.moves, t.prices, t.call_start
    ops, bits, stack, room = w.ops, w.bits, w.stack, w.room
    trial = plan.copy()
    quickest = candidates[start[b] : start[b + 1], SECONDS].min()
    for i in range(start[a], start[a + 1]):
        trial[a] = i
        fill(candidates, meshes, moves, prices, trial, ops, bits)
        leave_open(moves, b, quickest, ops, bits)
        if bound(t.cycles, ops, bits, stack) >= cost * (1.0 - SAME):
            continue
        for j in range(start[b], start[b + 1]):
            trial[b] = j
            fill(candidates, meshes, moves, prices, trial, ops, bits)
            floor = bound(t.cycles, ops, bits, stack)
            if floor < cost * (1.0 - SAME) and fits(candidates, meshes, t.cell_bytes, trial, room):
                found, _ = best_order(orders, w, floor, cost)
                if found < cost * (1.0 - SAME):
                    cost = found
                    plan[:] = trial
    return cost


@njit
def leave_open(moves: Ints, call: int, seconds: float, ops: Floats, bits: Ints) -> None:
    """Let one call of a filled plan be anywhere, for its least time, and its moves cost nothing."""
    ops[TIME, call], ops[SHARE, call], bits[WHERE, call] = seconds, 0.0, 0
    for j in range(len(moves)):
        if moves[j, SOURCE] == call or moves[j, TARGET] == call:
            o = ops.shape[1] - len(moves) + j
            ops[TIME, o], ops[SHARE, o], bits[WHERE, o] = 0.0, 0.0, 0
    conflicts(bits)


@njit
def metropolis(t: Tables, orders: OrderTables, s: Chains, w: Scratch, u: Floats) -> None:
    """The classical chain: one call changed uniformly, every proposal simulated in full."""
    trial = s.plan[0].copy()
    for i in range(len(u)):
        trial[:] = s.plan[0]
        draw(t.call_start, trial, u[i, 0], u[i, 1])
        cost, _ = evaluate(t, orders, trial, w)
        s.tally[0] += 1
        if cost <= s.cost[0] - np.log(u[i, 4]) / s.beta[0]:
            s.plan[0] = trial
            s.cost[0] = cost
            remember(s, trial, cost)
