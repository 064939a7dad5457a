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
from ropewalk.planner.search.kernels import (
    ADJACENT,
    SHARE,
    TIME,
    WEIGHT,
    WHERE,
    Scratch,
    best_order,
    bound,
    conflicts,
    fill,
    heaviest_clique,
    longest_cycle,
)
from ropewalk.planner.search.problem import (
    ACTIVE,
    END_CELL,
    FIRST_CELL,
    FROM,
    GEOMETRY,
    MASK,
    SECONDS,
    SOURCE,
    START,
    STATIC,
    TARGET,
    TO,
    WIDTH,
    Floats,
    Ints,
    OrderTables,
    Tables,
)

KERNELS = "d1653581874bbb31"
"""Digest of kernels.py, whose loops are compiled in: stored code is renewed only when this file changes (see `jit`)."""
FIRST, NUMBER, SMALLER, FIXED = 3, 4, 5, 6
"""Columns of a group after those of its mesh: its first candidate; its number within the call; the symmetries that map
it to a lower number; those that map it to itself."""
FLOOR, FLOOR_WIDTH = 4, 5
"""Columns of a move after those of the tables: where its least prices between groups start, and their width."""
GROUP, PLAN = range(2)
CURSOR, ALIVE = range(2)
LIMIT, FAVOURITE = range(2)
BEST, LOWEST, EPSILON = range(3)
NODES, PLANS = range(2)


class Branching(NamedTuple):
    """Candidates grouped by (call, mesh), with the least of everything in a group and over groups."""

    level_call: Ints
    group_start: Ints
    """First group of each call, and the end."""
    groups: Ints
    """[group, MASK FIRST_CELL END_CELL FIRST NUMBER SMALLER FIXED], and a last row that ends FIRST."""
    least: Floats
    """[group, SECONDS STATIC ACTIVE FROM TO]: least over its candidates, and its run of ranks."""
    turn: Ints
    """Groups in the order they are tried, call by call."""
    mixed: Floats
    """[mixture, call]: least of λ · seconds + (1 − λ) · seconds · share over the call's groups; the last column is λ.
    The first mixture has λ = 1, the last λ = 0."""
    moves: Ints
    """[move, SOURCE TARGET START WIDTH FLOOR FLOOR_WIDTH]."""
    prices: Floats
    """Those of the tables; then, by move, the least between two groups, source x target, with a first row and a last
    column for an end that is open."""


class State(NamedTuple):
    """Where the search stands; it can be left and taken up again."""

    level: Ints
    path: Ints
    """[CURSOR ALIVE, level]: the next choice; the symmetries that map every mesh chosen above to itself."""
    chosen: Ints
    """[GROUP PLAN, call]: group and candidate, or −1."""
    best: Ints
    value: Floats
    """BEST LOWEST EPSILON: best period, least bound."""
    tally: Ints
    hint: Floats
    """[level, LIMIT FAVOURITE]: where a node is dropped, and the mixture that dropped the last one."""


@njit
def branch(t: Tables, b: Branching, orders: OrderTables, s: State, w: Scratch, nodes: int) -> bool:
    """Go on for about `nodes` nodes, as which every order that a plan is tried under counts; whether it is complete."""
    candidates, cycles, groups, chosen, value, hint = t.candidates, t.cycles, b.groups, s.chosen, s.value, s.hint
    ops, bits, stack, room, path, calls = w.ops, w.bits, w.stack, w.room, s.path, len(b.level_call)
    group_start, turn, least, mixed, moves, prices = b.group_start, b.turn, b.least, b.mixed, b.moves, b.prices
    level = s.level[0]
    while level >= 0 and nodes > 0:
        if level == 2 * calls:
            nodes -= leaf(t, orders, s, w)
            level -= 1
            continue
        c = b.level_call[level % calls]
        if level < calls:
            step = pick_mesh(level, c, group_start, turn, groups, path, chosen)
        else:
            step = pick_candidate(level, c, groups, path, chosen)
        if step < 0:
            level -= 1
        if step <= 0:
            continue
        nodes -= 1
        s.tally[NODES] += 1
        hint[level, LIMIT] = value[BEST] / (1.0 + value[EPSILON])
        place_calls(candidates, least, groups, mixed, chosen, ops, bits)
        place_moves(candidates, groups, moves, prices, chosen, ops, bits)
        conflicts(bits)
        floor = node_bound(mixed, cycles, chosen, ops, bits, stack, hint[level])
        if floor >= hint[level, LIMIT]:
            value[LOWEST] = min(value[LOWEST], floor)
        elif has_room(candidates, least, groups, t.cell_bytes, chosen, room):
            level += 1
            path[CURSOR, level] = 0
    s.level[0] = level
    return bool(level < 0)


@njit
def pick_mesh(level: int, c: int, group_start: Ints, turn: Ints, groups: Ints, path: Ints, chosen: Ints) -> int:
    """The call's next mesh: 1 chosen, 0 skipped as the image of another, −1 none left."""
    at = group_start[c] + path[CURSOR, level]
    chosen[PLAN, c] = -1
    if at >= group_start[c + 1]:
        chosen[GROUP, c] = -1
        return -1
    path[CURSOR, level] += 1
    g = turn[at]
    if path[ALIVE, level] & groups[g, SMALLER] != 0:
        return 0
    chosen[GROUP, c] = g
    path[ALIVE, level + 1] = path[ALIVE, level] & groups[g, FIXED]
    return 1


@njit
def pick_candidate(level: int, c: int, groups: Ints, path: Ints, chosen: Ints) -> int:
    """The call's next candidate on its mesh: 1 chosen, −1 none left."""
    g = chosen[GROUP, c]
    k = groups[g, FIRST] + path[CURSOR, level]
    if k >= groups[g + 1, FIRST]:
        chosen[PLAN, c] = -1
        return -1
    path[CURSOR, level] += 1
    chosen[PLAN, c] = k
    return 1


@njit
def leaf(t: Tables, orders: OrderTables, s: State, w: Scratch) -> int:
    """A whole plan: note its bound; where it may beat the best, its period. Returns how many orders that took."""
    s.tally[PLANS] += 1
    plan = s.chosen[PLAN]
    fill(t.candidates, t.meshes, t.moves, t.prices, plan, w.ops, w.bits)
    floor = bound(t.cycles, w.ops, w.bits, w.stack)
    s.value[LOWEST] = min(s.value[LOWEST], floor)
    if floor < s.value[BEST]:
        found, _ = best_order(orders, w, floor, s.value[BEST])
        if found < s.value[BEST]:
            s.value[BEST] = found
            s.best[:] = plan
        return len(orders.sequence)
    return 0


@njit
def has_room(candidates: Floats, least: Floats, groups: Ints, cell_bytes: Floats, chosen: Ints, room: Floats) -> bool:
    """Whether what is chosen so far can fit."""
    room[:] = 0.0
    for c in range(chosen.shape[1]):
        g, k = chosen[GROUP, c], chosen[PLAN, c]
        if g < 0:
            continue
        held = least[g, STATIC] if k < 0 else candidates[k, STATIC]
        needed = least[g, ACTIVE] if k < 0 else candidates[k, ACTIVE]
        for cell in range(groups[g, FIRST_CELL], groups[g, END_CELL]):
            room[0, cell] += held
            room[1, cell] = max(room[1, cell], needed)
    return bool(np.all(room[0] + room[1] <= cell_bytes))


@njit
def place_calls(
    candidates: Floats, least: Floats, groups: Ints, mixed: Floats, chosen: Ints, ops: Floats, bits: Ints
) -> None:
    """Least times, shares and cells of the calls; an open call is somewhere, for its least time."""
    for c in range(chosen.shape[1]):
        g, k = chosen[GROUP, c], chosen[PLAN, c]
        if g < 0:
            ops[TIME, c] = mixed[0, c]
            ops[SHARE, c] = 0.0
            bits[WHERE, c] = 0
        else:
            ops[TIME, c] = least[g, SECONDS] if k < 0 else candidates[k, SECONDS]
            ops[SHARE, c] = least[g, TO] - least[g, FROM]
            bits[WHERE, c] = groups[g, MASK]


@njit
def place_moves(
    candidates: Floats, groups: Ints, moves: Ints, prices: Floats, chosen: Ints, ops: Floats, bits: Ints
) -> None:
    """Least prices of the moves: exact where both candidates are known, else the least over what is open."""
    for j in range(len(moves)):
        o, s, d = chosen.shape[1] + j, moves[j, SOURCE], moves[j, TARGET]
        gs, gd, ks, kd = chosen[GROUP, s], chosen[GROUP, d], chosen[PLAN, s], chosen[PLAN, d]
        if ks >= 0 and kd >= 0:
            row, column = int(candidates[ks, GEOMETRY]), int(candidates[kd, GEOMETRY])
            price = prices[moves[j, START] + row * moves[j, WIDTH] + column]
        else:
            column = moves[j, FLOOR_WIDTH] - 1 if gd < 0 else groups[gd, NUMBER]
            row = -1 if gs < 0 else groups[gs, NUMBER]
            price = prices[moves[j, FLOOR] + (row + 1) * moves[j, FLOOR_WIDTH] + column]
        ops[TIME, o] = price
        ops[SHARE, o] = 0.0
        bits[WHERE, o] = 0
        if price > 0.0:
            bits[WHERE, o] = bits[WHERE, s] | bits[WHERE, d]
            ops[SHARE, o] = max(ops[SHARE, s], ops[SHARE, d])


@njit
def node_bound(
    mixed: Floats, cycles: Floats, chosen: Ints, ops: Floats, bits: Ints, stack: Floats, hint: Floats
) -> float:
    """Bound over all plans below a node; it stops early once it reaches the limit.

    For every λ of the mixtures: period ≥ λ · (time of operations that exclude each other) + (1 − λ) · (area / GPUs of
    all). A chosen operation brings its time and area, an open call the least mixture over its candidates, so that what
    is fast on many GPUs and what is thrifty on few are not combined. The λ that dropped the last node on this level
    is tried first.
    """
    first, best = int(hint[FAVOURITE]), 0.0
    for turn in range(-1, len(mixed)):
        i = first if turn < 0 else turn
        if turn != first:
            best = max(best, mixture(i, mixed, chosen, ops, bits, stack))
            if best >= hint[LIMIT]:
                hint[FAVOURITE] = i
                return best
    return max(best, longest_cycle(cycles, ops))


@njit
def mixture(i: int, mixed: Floats, chosen: Ints, ops: Floats, bits: Ints, stack: Floats) -> float:
    """The bound of one λ."""
    calls = chosen.shape[1]
    share, last, base = mixed[i, calls], len(mixed) - 1, 0.0
    for o in range(ops.shape[1]):
        if o < calls and chosen[GROUP, o] < 0:
            base += (1.0 - share) * mixed[last, o]
            ops[WEIGHT, o] = mixed[i, o] - (1.0 - share) * mixed[last, o]
        else:
            base += (1.0 - share) * ops[TIME, o] * ops[SHARE, o]
            ops[WEIGHT, o] = share * ops[TIME, o]
    return base if i == last else base + heaviest_clique(ops[WEIGHT], bits[ADJACENT], stack)
