"""Branch and bound over plans: first a mesh for every call, then a candidate on each mesh.

    level 0 … C−1    the mesh of a call; its time is the least of its candidates there, its memory too
    level C … 2C−1   one of the candidates on that mesh
    level 2C         a plan: its bound, and where that leaves something to gain, its period under every order

A node is dropped if bound · (1 + epsilon) ≥ best; the least bound ever dropped, or met at a plan, is what no schedule
of any plan can beat. Symmetry: a mesh is skipped where a symmetry that maps every mesh chosen so far to itself maps it
to one of lower number; which symmetries the tables really have is checked beforehand (`symmetry`).
"""

from typing import NamedTuple

import numpy as np

from ropewalk.planner.jit import njit
from ropewalk.planner.search.kernels import Scratch, best_order, bound, conflicts, fill, fits, heaviest_clique, union_gpus
from ropewalk.planner.search.problem import Floats, Ints, OrderTables, Tables


class Branching(NamedTuple):
    """Candidates grouped by (call, mesh), with the least of everything in a group and over groups."""

    level_call: Ints
    group_start: Ints
    """First group of each call, and the end."""
    mesh: Ints
    first: Ints
    """First candidate of each group, and the end."""
    seconds: Floats
    static: Floats
    active: Floats
    turn: Ints
    """Groups in the order they are tried, call by call."""
    mixed: Floats
    """[mixture, call]: least of λ · seconds + (1 − λ) · area share over the call's groups."""
    mixtures: Floats
    """The λ, the first is 1 and the last 0."""
    floor_start: Ints
    floor_width: Ints
    floor: Floats
    """By move: source group x target group, both numbered within their call; least over the candidates."""
    floor_source: Floats
    """[move, group]: least over the targets."""
    floor_target: Floats
    smaller: Ints
    """By group, the symmetries that map it to a group of lower number."""
    fixed: Ints
    """By group, the symmetries that map it to itself."""


class State(NamedTuple):
    """Where the search stands; it can be left and taken up again."""

    level: Ints
    cursor: Ints
    alive: Ints
    group: Ints
    """By call, the group chosen, or −1."""
    plan: Ints
    """By call, the candidate chosen, or −1."""
    best: Ints
    value: Floats
    """Best period, least bound, epsilon, tolerance of the candidates."""
    count: Ints
    """Nodes, plans."""


BEST, LOWEST, EPSILON = 0, 1, 2


@njit
def branch(t: Tables, b: Branching, orders: OrderTables, s: State, w: Scratch, nodes: int) -> bool:
    """Go on for at most `nodes` nodes; whether the search is complete."""
    calls = t.calls
    level = s.level[0]
    while level >= 0:
        if nodes <= 0:
            break
        if level == 2 * calls:
            leaf(t, orders, s, w)
            level -= 1
            continue
        c = b.level_call[level % calls]
        at = s.cursor[level]
        s.cursor[level] += 1
        if level < calls:
            s.plan[c] = -1
            if b.group_start[c] + at >= b.group_start[c + 1]:
                s.group[c] = -1
                level -= 1
                continue
            g = b.turn[b.group_start[c] + at]
            if s.alive[level] & b.smaller[g] != 0:
                continue
            s.group[c] = g
            s.alive[level + 1] = s.alive[level] & b.fixed[g]
        else:
            k = b.first[s.group[c]] + at
            if k >= b.first[s.group[c] + 1]:
                s.plan[c] = -1
                level -= 1
                continue
            s.plan[c] = k
        nodes -= 1
        s.count[0] += 1
        if not room(t, b, s, w):
            continue
        limit = s.value[BEST] / (1.0 + s.value[EPSILON])
        floor = node_bound(t, b, s, w, limit)
        if floor >= limit:
            s.value[LOWEST] = min(s.value[LOWEST], floor)
            continue
        level += 1
        s.cursor[level] = 0
    s.level[0] = level
    return level < 0


@njit
def leaf(t: Tables, orders: OrderTables, s: State, w: Scratch) -> None:
    """A whole plan: note its bound; where it may beat the best, its period."""
    s.count[1] += 1
    fill(t, s.plan, w)
    floor = bound(t, w)
    s.value[LOWEST] = min(s.value[LOWEST], floor)
    if floor < s.value[BEST]:
        found, _ = best_order(t, orders, w, floor, s.value[BEST])
        if found < s.value[BEST]:
            s.value[BEST] = found
            s.best[:] = s.plan


@njit
def room(t: Tables, b: Branching, s: State, w: Scratch) -> bool:
    """Whether what is chosen so far can fit."""
    static, active = w.cell_static, w.cell_active
    static[:] = 0.0
    active[:] = 0.0
    for c in range(t.calls):
        g, k = s.group[c], s.plan[c]
        if g < 0:
            continue
        held = b.static[g] if k < 0 else t.static[k]
        needed = b.active[g] if k < 0 else t.active[k]
        m = b.mesh[g]
        for cell in range(t.mesh_first[m], t.mesh_end[m]):
            static[cell] += held
            active[cell] = max(active[cell], needed)
    for cell in range(len(static)):
        if static[cell] + active[cell] > t.cell_bytes[cell]:
            return False
    return True


@njit
def place_calls(t: Tables, b: Branching, s: State, w: Scratch) -> bool:
    """Least times and meshes of the calls chosen so far; whether calls are left."""
    left = False
    for c in range(t.calls):
        g, k = s.group[c], s.plan[c]
        if g < 0:
            left = True
            w.time[c] = b.mixed[0, c]
            w.mask[c] = 0
            w.gpus[c] = 0.0
        else:
            w.time[c] = b.seconds[g] if k < 0 else t.seconds[k]
            w.mask[c] = t.mesh_mask[b.mesh[g]]
            w.gpus[c] = t.mesh_gpus[b.mesh[g]]
    return left


@njit
def place_moves(t: Tables, b: Branching, s: State, w: Scratch) -> None:
    """Least prices of the moves: exact where both candidates are known, else least over what is open."""
    for j in range(len(t.move_source)):
        o, cs, cd = t.calls + j, t.move_source[j], t.move_target[j]
        gs, gd, ks, kd = s.group[cs], s.group[cd], s.plan[cs], s.plan[cd]
        w.mask[o] = 0
        w.gpus[o] = 0.0
        if gs < 0 and gd < 0:
            w.time[o] = 0.0
        elif gd < 0:
            w.time[o] = b.floor_source[j, gs - b.group_start[cs]]
        elif gs < 0:
            w.time[o] = b.floor_target[j, gd - b.group_start[cd]]
        elif ks < 0 or kd < 0:
            row, column = gs - b.group_start[cs], gd - b.group_start[cd]
            w.time[o] = b.floor[b.floor_start[j] + row * b.floor_width[j] + column]
        else:
            w.time[o] = t.move_seconds[t.move_start[j] + t.geometry[ks] * t.move_width[j] + t.geometry[kd]]
        if w.time[o] > 0.0:
            if gs >= 0:
                w.mask[o] |= t.mesh_mask[b.mesh[gs]]
                w.gpus[o] = t.mesh_gpus[b.mesh[gs]]
            if gd >= 0:
                w.mask[o] |= t.mesh_mask[b.mesh[gd]]
                w.gpus[o] = t.mesh_gpus[b.mesh[gd]]
            if gs >= 0 and gd >= 0:
                w.gpus[o] = union_gpus(t, b.mesh[gs], b.mesh[gd])


@njit
def node_bound(t: Tables, b: Branching, s: State, w: Scratch, limit: float) -> float:
    """Bound over all plans below a node; it stops early once it reaches `limit`.

    For every λ of the mixtures: period ≥ λ · (time of operations that exclude each other) + (1 − λ) · (area / GPUs of
    all). A chosen operation brings its time and area, an open call the least mixture over its candidates, so that what
    is fast on many GPUs and what is thrifty on few are not combined.
    """
    n = t.operations
    left = place_calls(t, b, s, w)
    place_moves(t, b, s, w)
    conflicts(n, w)
    area = 0.0
    for o in range(n):
        w.adjacency[o] = t.sequential[o] | w.conflict[o]
        area += w.time[o] * w.gpus[o]
    area /= t.gpus
    best = heaviest_clique(n, w.time, w.adjacency, w)
    for i in range(len(t.cycle_mask)):
        total = 0.0
        for o in range(n):
            if t.cycle_mask[i] >> o & 1:
                total += w.time[o]
        best = max(best, total / t.cycle_lag[i])
    if best >= limit:
        return best
    last = len(b.mixtures) - 1
    for i in range(1, last + 1):
        share = b.mixtures[i]
        base = (1.0 - share) * area
        for o in range(n):
            w.weight[o] = share * w.time[o]
        if left:
            for c in range(t.calls):
                if s.group[c] < 0:
                    base += (1.0 - share) * b.mixed[last, c]
                    w.weight[c] = b.mixed[i, c] - (1.0 - share) * b.mixed[last, c]
        elif i < last:
            continue
        best = max(best, base + (heaviest_clique(n, w.weight, w.adjacency, w) if i < last else 0.0))
        if best >= limit:
            return best
    return best


__all__ = ["Branching", "State", "branch", "fits", "np"]
