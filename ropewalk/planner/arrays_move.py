"""The figures of `kernels_move` for many pairs at once in numpy, rank by rank and without shortcuts.

What runs where numba is not installed, and what the compiled loop is compared with.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ropewalk.planner.kernels_move import FIRST, PARTS, SPREAD, STAGE, STAGES, STOP, TP, WIDTH, Floats, Ints

Mask: TypeAlias = NDArray[np.bool_]

BLOCK = 2**18
"""Pairs × ranks worked on together."""


def figures(sources: Ints, targets: Ints, pairs: Ints, rows: Ints, nodes: Ints, out: Floats) -> None:
    """As `kernels_move.figures`."""
    sources, targets = sources[pairs[:, 0]], targets[pairs[:, 1]]
    grids = np.lcm(sources[:, PARTS], targets[:, PARTS])
    sources[:, WIDTH], targets[:, WIDTH] = grids // sources[:, PARTS], grids // targets[:, PARTS]
    ranks = targets[:, STOP] - targets[:, FIRST]
    order = np.argsort(ranks, kind="stable")
    while len(order):
        some = order[-max(1, BLOCK // int(ranks[order[-1]])) :]
        order = order[: -len(some)]
        most, sent, crosses = _figures(sources[some], targets[some], rows, nodes)
        out[some] = np.stack((most / grids[some], sent / grids[some], crosses), axis=1)


@dataclass(frozen=True, slots=True)
class _Boxes:
    """By pair and rank: rows in bytes, slices, and the number of the box, -1 for a rank outside of the mesh."""

    low: Ints
    high: Ints
    left: Ints
    right: Ints
    number: Ints

    def shared(self, other: "_Boxes") -> Ints:
        rows = np.minimum(self.high, other.high) - np.maximum(self.low, other.low)
        cut = np.minimum(self.right, other.right) - np.maximum(self.left, other.left)
        shared: Ints = np.maximum(rows, 0) * np.maximum(cut, 0)
        return shared


def _figures(sources: Ints, targets: Ints, rows: Ints, nodes: Ints) -> tuple[Ints, Floats, Mask]:
    """Most received and most sent (bytes × grid), and whether nodes are crossed."""
    node_of = np.repeat(np.arange(len(nodes)), nodes[:, 1] - nodes[:, 0])
    width = int((targets[:, STOP] - targets[:, FIRST]).max())
    ranks = targets[:, FIRST, None] + np.arange(width)
    node = node_of[np.minimum(ranks, len(node_of) - 1)]
    wanted, mine = _boxes(targets, rows, ranks), _boxes(sources, rows, ranks)
    free = wanted.shared(mine)
    lacks = wanted.shared(wanted) - free
    most = lacks.max(axis=1)

    sent = np.zeros(len(sources))
    for place in range(int((nodes[:, 1] - nodes[:, 0]).max())):
        mates = nodes[node, 0] + place
        theirs = _boxes(sources, rows, mates)
        holders = _first_of(sources, theirs, mates, nodes[node])
        asked = np.where((holders > 0) & (theirs.number != mine.number), wanted.shared(theirs), 0)
        lacks -= asked
        here = _sums(node, asked, len(nodes)) / np.maximum(1, _largest(node, holders, len(nodes)))
        sent = np.maximum(sent, here.max(axis=1))
    boxes = int((sources[:, STAGES] * sources[:, PARTS]).max())
    sent = np.maximum(sent, _anywhere(sources, targets, rows, _sums(mine.number, free, boxes)))
    crosses: Mask = np.any(lacks > 0, axis=1)
    return most, sent, crosses


def _first_of(sources: Ints, boxes: _Boxes, ranks: Ints, node: Ints) -> Ints:
    """For the first rank of a node that holds its box, how many there do; 0 for the others."""
    tp, stage = sources[:, TP, None], sources[:, STAGE, None]
    start = sources[:, FIRST, None] + boxes.number // sources[:, PARTS, None] * stage
    low, high = np.maximum(start, node[..., 0]), np.minimum(start + stage, node[..., 1])
    spread = sources[:, SPREAD, None] > 0
    first = (boxes.number >= 0) & (ranks < high) & (spread | (ranks - tp < low))
    return np.where(first, np.where(spread, 1, (high - 1 - ranks) // tp + 1), 0)


def _anywhere(sources: Ints, targets: Ints, rows: Ints, kept: Floats) -> Floats:
    """The most asked of a box per holder: every target's copy of it, less what its holders need not be sent."""
    stage = np.arange(kept.shape[1]) // sources[:, PARTS, None]
    size = (_cut(sources, rows, stage + 1) - _cut(sources, rows, stage)) * sources[:, WIDTH, None]
    copies = targets[:, STAGE] // targets[:, PARTS]
    asked = np.where(stage < sources[:, STAGES, None], copies[:, None] * size - kept, 0)
    largest: Floats = asked.max(axis=1) / (sources[:, STAGE] // sources[:, PARTS])
    return largest


def _boxes(meshes: Ints, rows: Ints, ranks: Ints) -> _Boxes:
    column = meshes.T[..., None]
    inside = np.clip(ranks, column[FIRST], column[STOP] - 1) - column[FIRST]
    stage = inside // column[STAGE]
    inside = inside - stage * column[STAGE]
    part = inside % column[TP]
    spread = part * (column[STAGE] // column[TP]) + inside // column[TP]
    part = np.where(column[SPREAD] > 0, spread, part)
    there = (ranks >= column[FIRST]) & (ranks < column[STOP])
    left = part * column[WIDTH]
    right = np.where(there, left + column[WIDTH], left)
    number = np.where(there, stage * column[PARTS] + part, -1)
    return _Boxes(_cut(meshes, rows, stage), _cut(meshes, rows, stage + 1), left, right, number)


def _cut(meshes: Ints, rows: Ints, stage: Ints) -> Ints:
    """Bytes before a stage."""
    stages = meshes[:, STAGES, None]
    layers = stage * (rows[0] // stages) + np.minimum(stage, rows[0] % stages)
    inner = rows[1] + layers * rows[2]
    return np.where(stage <= 0, 0, np.where(stage < stages, inner, inner + rows[3]))


def _sums(number: Ints, amount: Ints, numbers: int) -> Floats:
    """By pair and number, the sum of the amounts of its ranks; negative numbers count for nothing."""
    pair = np.arange(len(number))[:, None] * numbers
    amounts = np.where(number < 0, 0, amount).ravel()
    sums = np.bincount((pair + np.maximum(number, 0)).ravel(), amounts, len(number) * numbers).astype(np.float64)
    return sums.reshape(len(number), numbers)


def _largest(number: Ints, amount: Ints, numbers: int) -> Ints:
    largest = np.zeros((len(number), numbers), np.int64)
    np.maximum.at(largest, (np.arange(len(number))[:, None], number), amount)
    return largest
