"""The figures of `kernels_move` in numpy, for many pairs and nodes at once. What runs where numba is not installed."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ropewalk.planner.moving.kernels import (
    CROSSES,
    FIRST,
    PARTS,
    RECEIVED,
    SENT,
    SPREAD,
    STAGE,
    STAGES,
    STOP,
    TP,
    WIDTH,
    Floats,
    Ints,
)

Mask: TypeAlias = NDArray[np.bool_]

BLOCK = 2**15
"""Pairs × (ranks of a node)² that are worked on together: few enough for the processor's cache."""


def figures(sources: Ints, targets: Ints, pairs: Ints, rows: Ints, nodes: Ints, out: Floats) -> None:
    """As `kernels_move.figures`."""
    size = int((nodes[:, 1] - nodes[:, 0]).max())
    block = max(1, BLOCK // size**2)
    for first in range(0, len(pairs), block):
        s, t = pairs[first : first + block].T
        source, target = sources[s], targets[t]
        grid = np.lcm(source[:, PARTS], target[:, PARTS])
        source[:, WIDTH], target[:, WIDTH] = grid // source[:, PARTS], grid // target[:, PARTS]
        found = _figures(source, target, rows, nodes)
        found[:, [RECEIVED, SENT]] /= grid[:, None]
        out[first : first + block] = found


@dataclass(frozen=True, slots=True)
class _Boxes:
    """By node and rank: rows in bytes, slices, and the number of the box, -1 for a rank without one."""

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

    def of(self, place: int) -> "_Boxes":
        """Those of one rank of each node."""
        fields = (self.low, self.high, self.left, self.right, self.number)
        return _Boxes(*(array[:, place, None] for array in fields))


def _figures(sources: Ints, targets: Ints, rows: Ints, nodes: Ints) -> Floats:
    pair, node, alike = _visits(sources, targets, nodes)
    source, target, start, stop = sources[pair], targets[pair], nodes[node, 0, None], nodes[node, 1, None]
    ranks = start + np.arange(int((stop - start).max()))
    have, want = _boxes(source, rows, ranks, ranks < stop), _boxes(target, rows, ranks, ranks < stop)
    free = want.shared(have)
    lacks = want.shared(want) - free
    most = lacks.max(axis=1)
    crowded = np.zeros(len(pair))
    for place in range(ranks.shape[1]):
        box = have.of(place)
        same = have.number == box.number
        front = (box.number >= 0) & ~same[:, :place].any(axis=1, keepdims=True)
        asked = np.where(front & ~same, want.shared(box), 0)
        lacks -= asked
        crowded = np.maximum(crowded, asked.sum(axis=1) / same.sum(axis=1))

    found = np.zeros((len(sources), 3))
    np.maximum.at(found[:, RECEIVED], pair, most)
    np.maximum.at(found[:, SENT], pair, crowded)
    np.maximum.at(found[:, CROSSES], pair, (lacks > 0).any(axis=1))
    anywhere = _anywhere(sources, targets, rows, _kept(sources, pair, have.number, alike[:, None] * free))
    found[:, SENT] = np.maximum(found[:, SENT], anywhere)
    return found


def _visits(sources: Ints, targets: Ints, nodes: Ints) -> tuple[Ints, Ints, Ints]:
    """The nodes to count: pair, node, and how many nodes from it on are just like it."""
    pair = np.arange(len(targets))
    node = np.searchsorted(nodes[:, 0], targets[:, FIRST], side="right") - 1
    visits = []
    while len(pair):
        alike = _alike(sources[pair], targets[pair], nodes[node])
        visits.append((pair, node, alike))
        node = node + alike
        inside = node < len(nodes)
        inside[inside] = nodes[node[inside], 0] < targets[pair[inside], STOP]
        pair, node = pair[inside], node[inside]
    pairs, starts, counts = zip(*visits, strict=True)
    return np.concatenate(pairs), np.concatenate(starts), np.concatenate(counts)


def _alike(sources: Ints, targets: Ints, nodes: Ints) -> Ints:
    start, stop, run = nodes.T
    size = stop - start
    source, target = sources.T, targets.T
    to_source = np.where(stop <= source[FIRST], source[FIRST] - start, 0)
    in_source = np.where(start >= source[FIRST], source[STAGE] - (start - source[FIRST]) % source[STAGE], to_source)
    room = np.where(start >= source[STOP], run * size, in_source)
    in_target = np.where(start >= target[FIRST], target[STAGE] - (start - target[FIRST]) % target[STAGE], 0)
    alike = np.clip(np.minimum(room, in_target) // size, 1, run)
    return np.where(_fits(source, start, size) & _fits(target, start, size), alike, 1)


def _fits(mesh: Ints, start: Ints, size: Ints) -> Mask:
    fits: Mask = (mesh[SPREAD] == 0) & (size % mesh[TP] == 0) & ((start - mesh[FIRST]) % mesh[TP] == 0)
    return fits


def _boxes(meshes: Ints, rows: Ints, ranks: Ints, real: Mask) -> _Boxes:
    column = meshes.T[..., None]
    inside = np.clip(ranks, column[FIRST], column[STOP] - 1) - column[FIRST]
    stage = inside // column[STAGE]
    inside = inside - stage * column[STAGE]
    part = inside % column[TP]
    spread = part * (column[STAGE] // column[TP]) + inside // column[TP]
    part = np.where(column[SPREAD] > 0, spread, part)
    there = real & (ranks >= column[FIRST]) & (ranks < column[STOP])
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


def _kept(sources: Ints, pair: Ints, number: Ints, amount: Ints) -> Floats:
    """By pair and box of the source, what its holders need not be sent."""
    boxes = int((sources[:, STAGES] * sources[:, PARTS]).max())
    held = number >= 0
    where = (pair[:, None] * boxes + number)[held]
    return np.bincount(where, amount[held], len(sources) * boxes).astype(np.float64).reshape(len(sources), boxes)


def _anywhere(sources: Ints, targets: Ints, rows: Ints, kept: Floats) -> Floats:
    """The most asked of a box per holder: every target's copy of it, less what its holders need not be sent."""
    stage = np.arange(kept.shape[1]) // sources[:, PARTS, None]
    size = (_cut(sources, rows, stage + 1) - _cut(sources, rows, stage)) * sources[:, WIDTH, None]
    copies = targets[:, STAGE] // targets[:, PARTS]
    asked = np.where(stage < sources[:, STAGES, None], copies[:, None] * size - kept, 0)
    largest: Floats = asked.max(axis=1) / (sources[:, STAGE] // sources[:, PARTS])
    return largest
