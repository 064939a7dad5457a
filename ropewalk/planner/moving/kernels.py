"""What a move between two contiguous meshes makes its busiest rank receive and send, without building the route.

Counted node by node in whole numbers (bytes × the common grid of slices), as `plan.transfer.route` would count it; a
run of nodes on which everything repeats is counted once. The loop over pairs is compiled where numba is installed.

A mesh is a row of numbers: its first rank and the rank after its last, the degree tp, the ranks of a stage, the
stages, whether dp splits the slices, the slices of a stage, and the width of a slice on the common grid of a pair.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ropewalk.planner.jit import njit

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

FIRST, STOP, TP, STAGE, STAGES, SPREAD, PARTS, WIDTH = range(8)
RECEIVED, SENT, CROSSES = range(3)

LOW, HIGH, LEFT, RIGHT, NUMBER, SAME, HOLDERS, ASKED, FRONT = range(9)
"""Of a rank's box: first and stop byte of its rows, first and stop slice, number in its mesh. For the source's ranks of
a node: the first of them with the same box; and of that one, how many hold the box, and what is asked of it there.
FRONT of entry j is the j-th such first rank."""

SIZE, LEAST, MOST, SHARES = range(4)
"""Of a node full of whole tensor-parallel groups of both meshes: its size (0: not worked out yet); in slices, the least
that a rank has already, the most asked of a box; and from SHARES on, by slice, what the ranks with it have already."""


@njit
def figures(sources: Ints, targets: Ints, pairs: Ints, rows: Ints, nodes: Ints, out: Floats) -> None:
    """Fill `out[pair]` with bytes received, bytes sent and 1.0 where something crosses nodes.

    `pairs` are (source, target); `rows` is the model (layers, bytes of the first row, of a layer, of the last row);
    `nodes[node]` its first rank, the rank after its last, and how many nodes of its size follow from it on.
    """
    stages = max(sources[:, STAGES].max(), targets[:, STAGES].max())
    size = (nodes[:, 1] - nodes[:, 0]).max()
    cuts = np.zeros((2, stages + 1), np.int64)
    room = np.zeros((2, size, FRONT + 1), np.int64)
    kept = np.zeros((sources[:, STAGES] * sources[:, PARTS]).max(), np.int64)
    groups = np.zeros((size + 1, size + 1, size + SHARES), np.int64)
    for pair in range(len(pairs)):
        source, target = sources[pairs[pair, 0]], targets[pairs[pair, 1]]
        grid = np.lcm(source[PARTS], target[PARTS])
        source[WIDTH], target[WIDTH] = grid // source[PARTS], grid // target[PARTS]
        _cut(rows, source[STAGES], cuts[0])
        _cut(rows, target[STAGES], cuts[1])
        most, crowded, crosses = _pair(source, target, cuts, nodes, room, kept, groups)
        out[pair, RECEIVED], out[pair, SENT], out[pair, CROSSES] = most / grid, crowded / grid, crosses


@njit
def _pair(
    source: Ints, target: Ints, cuts: Ints, nodes: Ints, room: Ints, kept: Ints, groups: Ints
) -> tuple[float, float, bool]:
    """Most received, most sent (bytes × grid) and whether anything crosses nodes."""
    kept[: source[STAGES] * source[PARTS]] = 0
    most, crowded, crosses, size, fits = 0, 0.0, False, 0, False
    node = np.searchsorted(nodes[:, 0], target[FIRST], side="right") - 1
    while node < len(nodes) and nodes[node, 0] < target[STOP]:
        start, stop = nodes[node, 0], nodes[node, 1]
        if stop - start != size:
            size = stop - start
            fits = _fits(source, start, size) and _fits(target, start, size)
        alike = min(_alike(source, target, start, stop), nodes[node, 2]) if fits else 0
        if alike > 0:
            group = groups[source[TP], target[TP]]
            lacks, busy, without = _whole_node(source, target, cuts, (start, stop, alike), kept, group)
        else:
            alike = 1
            lacks, busy, without = _node(source, target, cuts, (start, stop), room, kept)
        most, crowded, crosses = max(most, lacks), max(crowded, busy), crosses or without
        node += alike
    asks, largest = target[STAGE] // target[PARTS], 0
    for stage in range(source[STAGES]):
        asked = asks * (cuts[0, stage + 1] - cuts[0, stage]) * source[WIDTH]
        for number in range(stage * source[PARTS], (stage + 1) * source[PARTS]):
            largest = max(largest, asked - kept[number])
    return float(most), max(crowded, largest / (source[STAGE] // source[PARTS])), crosses


@njit
def _fits(mesh: Ints, start: int, size: int) -> bool:
    """Whether nodes of this size, one of which starts at `start`, hold whole tensor-parallel groups."""
    return bool(not mesh[SPREAD] and size % mesh[TP] == 0 and (start - mesh[FIRST]) % mesh[TP] == 0)


@njit
def _alike(source: Ints, target: Ints, start: int, stop: int) -> int:
    """How many nodes, beginning with this one, have the very same boxes of one stage of the target, and of one stage
    of the source or of none; 0 if this one does not."""
    if start < target[FIRST]:
        return 0
    room = target[STAGE] - (start - target[FIRST]) % target[STAGE]
    if stop <= source[FIRST]:
        room = min(room, source[FIRST] - start)
    elif start < source[FIRST]:
        return 0
    elif start < source[STOP]:
        room = min(room, source[STAGE] - (start - source[FIRST]) % source[STAGE])
    return int(room // (stop - start))


@njit
def _whole_node(
    source: Ints, target: Ints, cuts: Ints, nodes: tuple[int, int, int], kept: Ints, group: Ints
) -> tuple[int, float, bool]:
    """As `_node`, for nodes that `_alike` counts: first rank, the rank after its last, how many."""
    start, stop, alike = nodes
    other = (start - target[FIRST]) // target[STAGE]
    low, high = cuts[1, other], cuts[1, other + 1]
    everything = (high - low) * target[WIDTH]
    if start < source[FIRST] or start >= source[STOP]:
        return everything, 0.0, everything > 0
    stage = (start - source[FIRST]) // source[STAGE]
    both = min(high, cuts[0, stage + 1]) - max(low, cuts[0, stage])
    if both <= 0:
        return everything, 0.0, everything > 0
    if group[SIZE] != stop - start:
        _groups(source, target, stop - start, group)
    for part in range(source[TP]):
        kept[stage * source[TP] + part] += alike * both * group[SHARES + part]
    crowded = both * group[MOST] / ((stop - start) // source[TP])
    return everything - both * group[LEAST], crowded, both < high - low


@njit
def _groups(source: Ints, target: Ints, size: int, group: Ints) -> None:
    """Work out what `SIZE` describes."""
    width, wide = source[WIDTH], target[WIDTH]
    group[SIZE], group[LEAST], group[MOST] = size, wide, 0
    for part in range(source[TP]):
        left, asked, has = part * width, 0, 0
        for rank in range(size):
            begin = rank % target[TP] * wide
            shared = max(min(left + width, begin + wide) - max(left, begin), 0)
            if rank % source[TP] == part:
                has += shared
                group[LEAST] = min(group[LEAST], shared)
            else:
                asked += shared
        group[MOST] = max(group[MOST], asked)
        group[SHARES + part] = has


@njit
def _node(
    source: Ints, target: Ints, cuts: Ints, node: tuple[int, int], room: Ints, kept: Ints
) -> tuple[int, float, bool]:
    """Of one node, given its first rank and the one after its last: the most that a rank lacks, the most asked of a box
    there per holder there, whether any rank goes without. `kept` gains, by box of the source, what its holders need
    not be sent."""
    start, stop = node
    first, last = _stages(source, start, stop)
    other, end = _stages(target, start, stop)
    if first == last or cuts[0, first] >= cuts[1, end] or cuts[0, last] <= cuts[1, other]:
        most = 0
        for stage in range(other, end):
            most = max(most, cuts[1, stage + 1] - cuts[1, stage])
        return most * target[WIDTH], 0.0, most > 0
    have, want = room
    first, ranks = _boxes(source, cuts[0], start, stop, have)
    receiver, receivers = _boxes(target, cuts[1], start, stop, want)
    fronts = _fronts(have, ranks, source[TP])
    most, crosses = 0, False
    for i in range(receivers):
        low, high, left, right = want[i, LOW], want[i, HIGH], want[i, LEFT], want[i, RIGHT]
        lacks = (high - low) * target[WIDTH]
        own = receiver + i - first
        if 0 <= own < ranks:
            free = _shared(low, high, left, right, have, own)
            lacks -= free
            kept[have[own, NUMBER]] += free
            own = have[own, SAME]
        most = max(most, lacks)
        for j in range(fronts):
            front = have[j, FRONT]
            if front != own:
                asked = _shared(low, high, left, right, have, front)
                have[front, ASKED] += asked
                lacks -= asked
        crosses = crosses or lacks > 0
    crowded = 0.0
    for j in range(fronts):
        front = have[j, FRONT]
        crowded = max(crowded, have[front, ASKED] / have[front, HOLDERS])
    return most, crowded, crosses


@njit
def _stages(mesh: Ints, start: int, stop: int) -> tuple[int, int]:
    """First and stop stage of a mesh on a node."""
    start, stop = max(start, mesh[FIRST]), min(stop, mesh[STOP])
    if start >= stop:
        return 0, 0
    return (start - mesh[FIRST]) // mesh[STAGE], (stop - 1 - mesh[FIRST]) // mesh[STAGE] + 1


@njit
def _boxes(mesh: Ints, cuts: Ints, start: int, stop: int, boxes: Ints) -> tuple[int, int]:
    """Fill in the boxes of a mesh's ranks from start up to stop; returns the first of those ranks and how many."""
    start, stop = max(start, mesh[FIRST]), min(stop, mesh[STOP])
    if start >= stop:
        return start, 0
    stage = (start - mesh[FIRST]) // mesh[STAGE]
    inside = start - mesh[FIRST] - stage * mesh[STAGE]
    part, replica = inside % mesh[TP], inside // mesh[TP]
    for i in range(stop - start):
        cut = part * (mesh[STAGE] // mesh[TP]) + replica if mesh[SPREAD] else part
        boxes[i, LOW], boxes[i, HIGH] = cuts[stage], cuts[stage + 1]
        boxes[i, LEFT], boxes[i, RIGHT] = cut * mesh[WIDTH], (cut + 1) * mesh[WIDTH]
        boxes[i, NUMBER] = stage * mesh[PARTS] + cut
        part, inside = part + 1, inside + 1
        if part == mesh[TP]:
            part, replica = 0, replica + 1
        if inside == mesh[STAGE]:
            inside, replica, stage = 0, 0, stage + 1
    return start, stop - start


@njit
def _fronts(boxes: Ints, ranks: int, tp: int) -> int:
    """Find the first rank of each different box, and its holders; returns how many boxes. Equal ones lie tp apart."""
    found = 0
    for i in range(ranks):
        if i >= tp and boxes[i - tp, NUMBER] == boxes[i, NUMBER]:
            boxes[i, SAME] = boxes[i - tp, SAME]
            boxes[boxes[i, SAME], HOLDERS] += 1
        else:
            boxes[i, SAME], boxes[i, HOLDERS], boxes[i, ASKED] = i, 1, 0
            boxes[found, FRONT] = i
            found += 1
    return found


@njit
def _shared(low: int, high: int, left: int, right: int, boxes: Ints, i: int) -> int:
    """Bytes × grid that a box shares with a rank's."""
    rows = min(high, boxes[i, HIGH]) - max(low, boxes[i, LOW])
    cut = min(right, boxes[i, RIGHT]) - max(left, boxes[i, LEFT])
    return rows * cut if rows > 0 and cut > 0 else 0


@njit
def _cut(rows: Ints, stages: int, cuts: Ints) -> None:
    """Bytes before each stage, and before the end."""
    each, more = rows[0] // stages, rows[0] % stages
    cuts[0] = 0
    for stage in range(1, stages):
        cuts[stage] = rows[1] + (stage * each + min(stage, more)) * rows[2]
    cuts[stages] = rows[1] + rows[0] * rows[2] + rows[3]
