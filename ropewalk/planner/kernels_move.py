"""What a move between two contiguous meshes makes its busiest rank receive and send, without building the route.

Counted node by node in whole numbers (bytes × the common grid of slices), as `plan.transfer.route` would count it; a
run of nodes on which everything repeats is counted once. The loop over pairs is compiled where numba is installed.

A mesh is a row of numbers: its first rank and the rank after its last, the degree tp, the ranks of a stage, the
stages, whether dp splits the slices, the slices of a stage, and the width of a slice on the common grid.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ropewalk.planner.jit import njit

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Box: TypeAlias = tuple[int, int, int, int, int]
"""First and stop byte of its rows, first and stop slice, number among the boxes of its mesh."""

FIRST, STOP, TP, STAGE, STAGES, SPREAD, PARTS, WIDTH = range(8)
RECEIVED, SENT, CROSSES = range(3)


@njit
def _box(mesh: Ints, cuts: Ints, rank: int) -> Box:
    inside = rank - mesh[FIRST]
    stage = inside // mesh[STAGE]
    inside -= stage * mesh[STAGE]
    part = inside % mesh[TP]
    if mesh[SPREAD]:
        part = part * (mesh[STAGE] // mesh[TP]) + inside // mesh[TP]
    left = part * mesh[WIDTH]
    return cuts[stage], cuts[stage + 1], left, left + mesh[WIDTH], stage * mesh[PARTS] + part


@njit
def _shared(one: Box, other: Box) -> int:
    """Bytes × grid that two boxes share."""
    rows = min(one[1], other[1]) - max(one[0], other[0])
    cut = min(one[3], other[3]) - max(one[2], other[2])
    return rows * cut if rows > 0 and cut > 0 else 0


@njit
def _alike(source: Ints, target: Ints, start: int, stop: int) -> int:
    """How many nodes of this one's size, beginning with it, see the very same boxes: at least one."""
    size = stop - start
    if target[SPREAD] or size % target[TP] or start < target[FIRST]:
        return 1
    room = (start - target[FIRST]) // target[STAGE] * target[STAGE] + target[STAGE] + target[FIRST] - start
    if start >= source[STOP]:
        return max(int(room // size), 1)
    if stop <= source[FIRST]:
        return max(int(min(room, source[FIRST] - start) // size), 1)
    if source[SPREAD] or size % source[TP] or start < source[FIRST]:
        return 1
    left = (start - source[FIRST]) // source[STAGE] * source[STAGE] + source[STAGE] + source[FIRST] - start
    return max(int(min(room, left) // size), 1)


@njit
def _local(source: Ints, cuts: Ints, start: int, stop: int, local: Ints) -> int:
    """Fill in the source's boxes on a node, each with its holders there; returns how many. Empty ones are left out."""
    count = 0
    for rank in range(max(start, source[FIRST]), min(stop, source[STOP])):
        box = _box(source, cuts, rank)
        known = 0
        while known < count and local[known, 4] != box[4]:
            known += 1
        if known == count:
            for column in range(5):
                local[known, column] = box[column]
            local[known, 5] = 0
            local[known, 6] = 0
            count += 1
        local[known, 5] += 1
    return count


@njit
def _node(source: Ints, target: Ints, cuts: Ints, nodes: Ints, local: Ints, kept: Ints) -> tuple[int, float, bool]:
    """Of one node: the most a rank lacks, the most asked of a box there per holder there, whether any goes without.

    `nodes` is its first rank, the rank after its last, and how many such nodes there are. `kept` gains, by box of the
    source, what its holders need not be sent.
    """
    start, stop, alike = nodes[0], nodes[1], nodes[2]
    count = _local(source, cuts[0], start, stop, local)
    most, crosses = 0, False
    for rank in range(max(start, target[FIRST]), min(stop, target[STOP])):
        box = _box(target, cuts[1], rank)
        lacks = (box[1] - box[0]) * target[WIDTH]
        own = -1
        if source[FIRST] <= rank < source[STOP]:
            mine = _box(source, cuts[0], rank)
            own = mine[4]
            free = _shared(box, mine)
            lacks -= free
            kept[own] += alike * free
        most = max(most, lacks)
        for j in range(count):
            if local[j, 4] != own:
                asked = _shared(box, (local[j, 0], local[j, 1], local[j, 2], local[j, 3], 0))
                local[j, 6] += asked
                lacks -= asked
        crosses = crosses or lacks > 0
    crowded = 0.0
    for j in range(count):
        crowded = max(crowded, local[j, 6] / local[j, 5])
    return most, crowded, crosses


@njit
def _pair(source: Ints, target: Ints, cuts: Ints, nodes: Ints, local: Ints, kept: Ints) -> tuple[float, float, bool]:
    """Most received, most sent (bytes × grid) and whether anything crosses nodes."""
    kept[: source[STAGES] * source[PARTS]] = 0
    most, crowded, crosses = 0, 0.0, False
    node = np.searchsorted(nodes[:, 0], target[FIRST], side="right") - 1
    here = np.empty(3, np.int64)
    while node < len(nodes) and nodes[node, 0] < target[STOP]:
        here[0], here[1] = nodes[node, 0], nodes[node, 1]
        here[2] = min(_alike(source, target, here[0], here[1]), nodes[node, 2])
        lacks, busy, without = _node(source, target, cuts, here, local, kept)
        most, crowded, crosses = max(most, lacks), max(crowded, busy), crosses or without
        node += here[2]
    asks = target[STAGE] // target[PARTS]
    largest = 0
    for stage in range(source[STAGES]):
        asked = asks * (cuts[0, stage + 1] - cuts[0, stage]) * source[WIDTH]
        for part in range(source[PARTS]):
            largest = max(largest, asked - kept[stage * source[PARTS] + part])
    holders = source[STAGE] // source[PARTS]
    return float(most), max(crowded, largest / holders), crosses


@njit
def figures(sources: Ints, targets: Ints, rows: Ints, nodes: Ints, grids: Ints, out: Floats) -> None:
    """Fill `out[pair]` with bytes received, bytes sent and 1.0 where something crosses nodes.

    `sources[pair]` and `targets[pair]` are meshes on the grid `grids[pair]`; `rows` is the model (layers, bytes of the
    first row, of a layer, of the last row); `nodes[node]` its first rank, the rank after its last, and how many nodes
    of its size follow from it on.
    """
    stages = max(sources[:, STAGES].max(), targets[:, STAGES].max())
    boxes = (sources[:, STAGES] * sources[:, PARTS]).max()
    cuts = np.zeros((2, stages + 1), np.int64)
    local = np.zeros(((nodes[:, 1] - nodes[:, 0]).max(), 7), np.int64)
    kept = np.zeros(boxes, np.int64)
    for pair in range(len(out)):
        _cut(rows, sources[pair, STAGES], cuts[0])
        _cut(rows, targets[pair, STAGES], cuts[1])
        most, crowded, crosses = _pair(sources[pair], targets[pair], cuts, nodes, local, kept)
        out[pair, RECEIVED] = most / grids[pair]
        out[pair, SENT] = crowded / grids[pair]
        out[pair, CROSSES] = crosses


@njit
def _cut(rows: Ints, stages: int, cuts: Ints) -> None:
    """Bytes before each stage, and before the end."""
    each, more = rows[0] // stages, rows[0] % stages
    cuts[0] = 0
    for stage in range(1, stages):
        cuts[stage] = rows[1] + (stage * each + min(stage, more)) * rows[2]
    cuts[stages] = rows[1] + rows[0] * rows[2] + rows[3]
