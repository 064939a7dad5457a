"""The inner loops: times, bound and period of one plan, and parallel tempering over plans.

Everything here is compiled as one unit (see `jit`). Sets of operations and of cells are bit masks.
"""

from typing import NamedTuple

import numpy as np

from ropewalk.planner.jit import njit
from ropewalk.planner.search.problem import FAR, Floats, Ints, OrderTables, Tables

ROUNDS = 24
HISTORY = 4
SAME = 1e-9


class Scratch(NamedTuple):
    """Room for one plan's evaluation; one per thread of work."""

    time: Floats
    mask: Ints
    gpus: Floats
    conflict: Ints
    """By operation, the operations whose meshes meet its own."""
    adjacency: Ints
    weight: Floats
    history: Floats
    """[age, operation]: end of the instance that lies `age` instances back."""
    stack_set: Ints
    stack_weight: Floats
    cell_static: Floats
    cell_active: Floats


def scratch(tables: Tables) -> Scratch:
    n, cells = tables.operations, len(tables.cell_gpus)
    return Scratch(
        time=np.zeros(n),
        mask=np.zeros(n, dtype=np.int64),
        gpus=np.zeros(n),
        conflict=np.zeros(n, dtype=np.int64),
        adjacency=np.zeros(n, dtype=np.int64),
        weight=np.zeros(n),
        history=np.zeros((HISTORY, n)),
        stack_set=np.zeros(n + 2, dtype=np.int64),
        stack_weight=np.zeros(n + 2),
        cell_static=np.zeros(cells),
        cell_active=np.zeros(cells),
    )


@njit
def fits(t: Tables, plan: Ints, w: Scratch) -> bool:
    """Whether on every cell the statics and the largest active part fit."""
    static, active = w.cell_static, w.cell_active
    static[:] = 0.0
    active[:] = 0.0
    for c in range(t.calls):
        k = plan[c]
        m = t.mesh[k]
        for cell in range(t.mesh_first[m], t.mesh_end[m]):
            static[cell] += t.static[k]
            active[cell] = max(active[cell], t.active[k])
    for cell in range(len(static)):
        if static[cell] + active[cell] > t.cell_bytes[cell]:
            return False
    return True


@njit
def union_gpus(t: Tables, a: int, b: int) -> float:
    """GPUs of two meshes, those in both once."""
    total = t.mesh_gpus[a] + t.mesh_gpus[b]
    for cell in range(max(t.mesh_first[a], t.mesh_first[b]), min(t.mesh_end[a], t.mesh_end[b])):
        total -= t.cell_gpus[cell]
    return total


@njit
def fill(t: Tables, plan: Ints, w: Scratch) -> None:
    """Times, meshes and conflicts of a plan's operations. A move that costs nothing occupies nothing."""
    for c in range(t.calls):
        k = plan[c]
        m = t.mesh[k]
        w.time[c] = t.seconds[k]
        w.mask[c] = t.mesh_mask[m]
        w.gpus[c] = t.mesh_gpus[m]
    for j in range(len(t.move_source)):
        o = t.calls + j
        s, d = plan[t.move_source[j]], plan[t.move_target[j]]
        seconds = t.move_seconds[t.move_start[j] + t.geometry[s] * t.move_width[j] + t.geometry[d]]
        w.time[o] = seconds
        w.mask[o] = 0
        w.gpus[o] = 0.0
        if seconds > 0.0:
            w.mask[o] = t.mesh_mask[t.mesh[s]] | t.mesh_mask[t.mesh[d]]
            w.gpus[o] = union_gpus(t, t.mesh[s], t.mesh[d])
    conflicts(t.operations, w)


@njit
def conflicts(n: int, w: Scratch) -> None:
    """Which operations share a cell."""
    for o in range(n):
        w.conflict[o] = 0
    for o in range(n):
        for p in range(o):
            if w.mask[o] & w.mask[p] != 0:
                w.conflict[o] |= 1 << p
                w.conflict[p] |= 1 << o


@njit
def heaviest_clique(n: int, weight: Floats, adjacency: Ints, w: Scratch) -> float:
    """Largest total weight of operations of which no two can overlap."""
    best = 0.0
    depth = 0
    w.stack_set[0] = (1 << n) - 1
    w.stack_weight[0] = 0.0
    while depth >= 0:
        left, total = w.stack_set[depth], w.stack_weight[depth]
        rest = 0.0
        for o in range(n):
            if left >> o & 1:
                rest += weight[o]
        if total + rest <= best:
            depth -= 1
            continue
        branch = -1
        for o in range(n):
            if left >> o & 1 and left & ~adjacency[o] != 1 << o:
                branch = o
                break
        if branch < 0:
            best = total + rest
            depth -= 1
            continue
        w.stack_set[depth] = left & ~(1 << branch)
        depth += 1
        w.stack_set[depth] = left & adjacency[branch]
        w.stack_weight[depth] = total + weight[branch]
    return best


@njit
def bound(t: Tables, w: Scratch) -> float:
    """Seconds that no schedule of this plan can beat: area, operations that exclude each other, longer cycles."""
    n = t.operations
    area = 0.0
    for o in range(n):
        area += w.time[o] * w.gpus[o]
        w.adjacency[o] = t.sequential[o] | w.conflict[o]
    best = max(area / t.gpus, heaviest_clique(n, w.time, w.adjacency, w))
    for i in range(len(t.cycle_mask)):
        total = 0.0
        for o in range(n):
            if t.cycle_mask[i] >> o & 1:
                total += w.time[o]
        best = max(best, total / t.cycle_lag[i])
    return best


@njit
def growth(n: int, orders: OrderTables, k: int, w: Scratch, cutoff: float) -> float:
    """Period of one cyclic order: how much later everything ends from one round to the next.

    The recurrence is monotone and commutes with adding a constant, so its growth lies between the least and the
    greatest difference of two rounds (Collatz and Wielandt); they meet when it is steady. FAR if it is above `cutoff`.
    """
    h = w.history
    h[:] = 0.0
    high = FAR
    for turn in range(ROUNDS):
        for i in range(n):
            o = orders.sequence[k, i]
            start = h[0, o]
            for j in range(orders.count[k, i]):
                p = orders.before[k, i, j]
                end = h[orders.age[k, i, j], p]
                share = orders.share[k, i, j]
                if share > 0.0:
                    end = max(end - share * w.time[o], end - w.time[p])
                start = max(start, end)
            left = w.conflict[o]
            p = 0
            while left != 0:
                if left & 1:
                    start = max(start, h[0, p])
                left >>= 1
                p += 1
            h[3, o] = h[2, o]
            h[2, o] = h[1, o]
            h[1, o] = h[0, o]
            h[0, o] = start + w.time[o]
        if turn >= 2:
            low, high = steady(n, h, 1)
            if high - low <= SAME * high:
                return high
            if low >= cutoff:
                return FAR
    for stride in (2, 3):
        _, other = steady(n, h, stride)
        high = min(high, other)
    return high


@njit
def steady(n: int, h: Floats, stride: int) -> tuple[float, float]:
    """Least and greatest growth per round over `stride` rounds; for a stride of 1 over the whole remembered state."""
    low, high = FAR, -FAR
    for age in range(HISTORY - stride if stride == 1 else 1):
        for o in range(n):
            grown = (h[age, o] - h[age + stride, o]) / stride
            low = min(low, grown)
            high = max(high, grown)
    return low, high


@njit
def best_order(t: Tables, orders: OrderTables, w: Scratch, floor: float, cutoff: float) -> tuple[float, int]:
    """Shortest period over the orders, and which one gives it; FAR where none is below `cutoff`."""
    best, chosen = FAR, -1
    for k in range(len(orders.sequence)):
        found = growth(t.operations, orders, k, w, min(best, cutoff))
        if found < best:
            best, chosen = found, k
            if best <= floor * (1.0 + SAME):
                break
    return best, chosen


@njit
def evaluate(t: Tables, orders: OrderTables, plan: Ints, w: Scratch) -> tuple[float, int]:
    """Period and order of a plan; FAR if it does not fit in memory."""
    if not fits(t, plan, w):
        return FAR, -1
    fill(t, plan, w)
    return best_order(t, orders, w, bound(t, w), FAR)


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
        if fits(t, plans[b], w):
            fill(t, plans[b], w)
            found[b] = bound(t, w)


# -- search --------------------------------------------------------------------------------------------------------


class Chains(NamedTuple):
    """Replicas at fixed temperatures, and the best plans any of them has met."""

    plan: Ints
    cost: Floats
    beta: Floats
    best: Ints
    """[rank, call]: the best distinct plans, in no order."""
    best_cost: Floats
    count: Ints
    """Proposals, simulated ones, accepted ones."""


DRAWS = 6
"""Uniform numbers of one proposal: one or two calls, their candidates, acceptance."""


@njit
def overflow(t: Tables, plan: Ints, w: Scratch) -> float:
    """Largest fill of any cell, of which 1 is full."""
    fits(t, plan, w)
    worst = 0.0
    for cell in range(len(w.cell_static)):
        worst = max(worst, (w.cell_static[cell] + w.cell_active[cell]) / t.cell_bytes[cell])
    return worst


@njit
def draw(t: Tables, plan: Ints, u: Floats, at: int) -> None:
    """Give one call, chosen by u[at], the candidate chosen by u[at + 1]."""
    c = min(int(u[at] * t.calls), t.calls - 1)
    size = t.call_start[c + 1] - t.call_start[c]
    plan[c] = t.call_start[c] + min(int(u[at + 1] * size), size - 1)


@njit
def make_room(t: Tables, plan: Ints, w: Scratch, u: Floats) -> bool:
    """Change calls, one a row of `u`, until the plan fits in memory; keep no change that makes it fuller."""
    fill_now = overflow(t, plan, w)
    trial = plan.copy()
    for i in range(len(u)):
        if fill_now <= 1.0:
            return True
        trial[:] = plan
        draw(t, trial, u[i], 0)
        then = overflow(t, trial, w)
        if then <= fill_now:
            plan[:] = trial
            fill_now = then
    return fill_now <= 1.0


@njit
def temper(t: Tables, orders: OrderTables, s: Chains, w: Scratch, u: Floats) -> None:
    """One proposal a row of `u`, the replicas in turn: one call (2/3) or two change at once.

    The acceptance level is drawn first: a proposal is refused without simulating it where its bound is already above.
    That leaves the Markov chain as it was.
    """
    replicas = len(s.cost)
    trial = s.plan[0].copy()
    for i in range(len(u)):
        r = i % replicas
        trial[:] = s.plan[r]
        draw(t, trial, u[i], 0)
        if u[i, 5] < 1.0 / 3.0:
            draw(t, trial, u[i], 2)
        s.count[0] += 1
        if fits(t, trial, w):
            limit = s.cost[r] - np.log(u[i, 4]) / s.beta[r]
            fill(t, trial, w)
            floor = bound(t, w)
            if floor <= limit:
                s.count[1] += 1
                cost, _ = best_order(t, orders, w, floor, limit * (1.0 + SAME))
                if cost <= limit:
                    s.count[2] += 1
                    s.plan[r] = trial
                    s.cost[r] = cost
                    remember(s, trial, cost)
        if r == replicas - 1:
            exchange(s, u[i, 5])


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
def polish(t: Tables, orders: OrderTables, plan: Ints, w: Scratch, cost: float) -> float:
    """Best improvement over all pairs of calls, once; the plan is changed in place. Filtered by the bound."""
    trial = plan.copy()
    for a in range(t.calls):
        for b in range(a):
            for i in range(t.call_start[a], t.call_start[a + 1]):
                if t.seconds[i] >= cost:
                    continue
                for j in range(t.call_start[b], t.call_start[b + 1]):
                    trial[:] = plan
                    trial[a] = i
                    trial[b] = j
                    if t.seconds[j] >= cost or not fits(t, trial, w):
                        continue
                    fill(t, trial, w)
                    floor = bound(t, w)
                    if floor < cost * (1.0 - SAME):
                        found, _ = best_order(t, orders, w, floor, cost)
                        if found < cost * (1.0 - SAME):
                            cost = found
                            plan[:] = trial
    return cost


@njit
def metropolis(t: Tables, orders: OrderTables, s: Chains, w: Scratch, u: Floats) -> None:
    """The classical chain: one call changed uniformly, every proposal simulated in full."""
    trial = s.plan[0].copy()
    for i in range(len(u)):
        trial[:] = s.plan[0]
        draw(t, trial, u[i], 0)
        cost, _ = evaluate(t, orders, trial, w)
        s.count[0] += 1
        if cost <= s.cost[0] - np.log(u[i, 4]) / s.beta[0]:
            s.plan[0] = trial
            s.cost[0] = cost
            remember(s, trial, cost)
