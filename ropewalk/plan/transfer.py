"""Who holds what, and who sends what when a model moves from one layout to another: the route of fewest bytes.

A model is a list of rows (embedding, layers, head) whose tensors are cut along one dimension; what a rank holds is a
box, rows × a slice of [0, 1). The ranks of a layout are numbered tp fastest, then dp, pp slowest, so a tensor-parallel
group lies inside a node wherever it fits. The dp ranks of a box hold the same; with shard="full" they split its slice.

Always true of a route: a receiver gets exactly what it lacks, once, from a rank that held it before; what a rank
already holds does not move; nothing crosses nodes that a holder on the receiver's node could send.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import lcm
from typing import TypeAlias

from ropewalk.plan.layout import Layout
from ropewalk.plan.shape import ModelShape
from ropewalk.records.errors import InputError

NodeOf: TypeAlias = Callable[[int], int]
_Busy: TypeAlias = list[tuple[float, int]]
"""A heap of (bytes emitted, sender): least busy first, then lowest rank."""


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """Bytes of a model by row: row 0 is what comes before the layers, row layers + 1 what comes after them."""

    layers: int
    layer_bytes: int
    first_bytes: int = 0
    """Embeddings: with the first stage. A tied head is counted here, once."""
    last_bytes: int = 0
    """Final norm and heads: with the last stage."""

    def __post_init__(self) -> None:
        if self.layers < 1 or min(self.layer_bytes, self.first_bytes, self.last_bytes) < 0:
            raise InputError(f"a model to move needs at least one layer and no negative bytes, got {self}")

    @staticmethod
    def of(shape: ModelShape, number_bytes: int = 2) -> "LayerBytes":
        """All parameters of a shape, idle experts included. Layers of unequal size count as their mean."""
        layer = shape.body_parameters // shape.layers
        last = shape.head_parameters + shape.width * (1 + shape.traits.norm_bias)
        first = shape.parameters - shape.layers * layer - last
        return LayerBytes(shape.layers, layer * number_bytes, first * number_bytes, last * number_bytes)

    @staticmethod
    def parts(shape: ModelShape, number_bytes: int = 2) -> "tuple[LayerBytes, LayerBytes]":
        """All but the routed experts, and the routed experts: together what `of` gives."""
        whole = LayerBytes.of(shape, number_bytes)
        experts = shape.routed_parameters // shape.layers * number_bytes
        rest = LayerBytes(whole.layers, whole.layer_bytes - experts, whole.first_bytes, whole.last_bytes)
        return rest, LayerBytes(whole.layers, experts)

    @property
    def rows(self) -> int:
        return self.layers + 2

    @property
    def total_bytes(self) -> int:
        return self.before(self.rows)

    def before(self, row: int) -> int:
        """Bytes of the rows before `row`."""
        layers = min(max(row - 1, 0), self.layers)
        return (row > 0) * self.first_bytes + layers * self.layer_bytes + (row > self.layers + 1) * self.last_bytes

    def stage(self, stage: int, pp: int) -> tuple[int, int]:
        """First and stop row of a pipeline stage. Where layers do not divide by pp, the first stages get one more."""
        each, more = divmod(self.layers, pp)
        first = stage * each + min(stage, more) + 1 if stage else 0
        stop = (stage + 1) * each + min(stage + 1, more) + 1 if stage + 1 < pp else self.rows
        return first, stop


@dataclass(frozen=True, slots=True)
class Held:
    """A box: rows first up to stop, and of each the slice left/grid up to right/grid."""

    first: int
    stop: int
    left: int
    right: int
    grid: int

    def on(self, grid: int) -> "Held":
        """The same box on a grid that is a multiple of its own."""
        times = grid // self.grid
        return Held(self.first, self.stop, self.left * times, self.right * times, grid)

    def __and__(self, other: "Held") -> "Held | None":
        """What two boxes on the same grid share."""
        first, stop = max(self.first, other.first), min(self.stop, other.stop)
        left, right = max(self.left, other.left), min(self.right, other.right)
        return Held(first, stop, left, right, self.grid) if first < stop and left < right else None

    def bytes_of(self, weights: LayerBytes) -> float:
        return (weights.before(self.stop) - weights.before(self.first)) * (self.right - self.left) / self.grid


@dataclass(frozen=True, slots=True)
class Move:
    """One box from one rank to another."""

    sender: int
    receiver: int
    part: Held
    bytes: float


@dataclass(frozen=True, slots=True)
class Route:
    """The moves, and how evenly the holders could share the sending."""

    moves: tuple[Move, ...]
    even_sent_bytes: float
    """Least possible emission of the busiest sender if boxes could be cut at will: the moves stay within one box of it.

    The largest, over the source's boxes, of (all that is asked of the box) / holders, and of (what is asked of it by
    ranks of one node) / holders on that node."""

    @property
    def total_bytes(self) -> float:
        return sum(move.bytes for move in self.moves)

    @property
    def received_bytes(self) -> dict[int, float]:
        """By receiver."""
        return _sums((move.receiver, move.bytes) for move in self.moves)

    @property
    def sent_bytes(self) -> dict[int, float]:
        """By sender."""
        return _sums((move.sender, move.bytes) for move in self.moves)

    def bytes_received(self, rank: int) -> float:
        return self.received_bytes.get(rank, 0.0)

    def bytes_sent(self, rank: int) -> float:
        return self.sent_bytes.get(rank, 0.0)

    def crosses_nodes(self, node_of: NodeOf) -> bool:
        return any(node_of(move.sender) != node_of(move.receiver) for move in self.moves)


def held(weights: LayerBytes, layout: Layout) -> dict[int, Held]:
    """By rank, the box it holds."""
    if layout.ep > 1:
        raise InputError(f"the route of a layout with ep {layout.ep} is not known: give the layout ep 1")
    full = layout.shard == "full"
    boxes = {}
    for place, rank in enumerate(layout.ranks):
        stage, inside = divmod(place, layout.tp * layout.dp)
        replica, part = divmod(inside, layout.tp)
        first, stop = weights.stage(stage, layout.pp)
        if full:
            part = part * layout.dp + replica
        boxes[rank] = Held(first, stop, part, part + 1, layout.tp * (layout.dp if full else 1))
    return boxes


def route(weights: LayerBytes, source: Layout, target: Layout, *, node_of: NodeOf) -> Route:
    """The moves of fewest bytes, fewest bytes across nodes among those, and evenly shared by the holders.

    Each lacking box is cut by the source's boxes, and each piece has one sender: the least busy holder on the
    receiver's node, where there is one; then, largest pieces first, the least busy holder anywhere.
    """
    have, want = held(weights, source), held(weights, target)
    grid = lcm(*(box.grid for box in (*have.values(), *want.values())))
    holders: dict[Held, list[int]] = {}
    for rank, box in have.items():
        if box.first < box.stop:
            holders.setdefault(box.on(grid), []).append(rank)
    mine = {rank: box for box, ranks in holders.items() for rank in ranks}
    stages: dict[int, list[Held]] = {}
    for box in sorted(holders, key=lambda box: box.left):
        stages.setdefault(box.first, []).append(box)
    asked = [
        _Asked(box, rank, part, part.bytes_of(weights))
        for rank, wanted in want.items()
        for box in _meeting(wanted.on(grid), stages.values())
        if mine.get(rank) != box and (part := wanted.on(grid) & box) is not None
    ]
    asked = sorted((piece for piece in asked if piece.bytes > 0), key=lambda piece: -piece.bytes)
    return _share(asked, holders, node_of)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A piece of a source box that a receiver lacks."""

    box: Held
    receiver: int
    part: Held
    bytes: float


def _meeting(wanted: Held, stages: Iterable[list[Held]]) -> Iterator[Held]:
    """Source boxes whose slice meets the wanted one; those of a stage are equally wide and in order."""
    for boxes in stages:
        width = boxes[0].right - boxes[0].left
        if boxes[0].first < wanted.stop and wanted.first < boxes[0].stop:
            yield from boxes[wanted.left // width : -(-wanted.right // width)]


def _share(asked: list[_Asked], holders: dict[Held, list[int]], node_of: NodeOf) -> Route:
    near: dict[tuple[Held, int], _Busy] = {}
    for box, ranks in holders.items():
        for rank in sorted(ranks):
            near.setdefault((box, node_of(rank)), []).append((0.0, rank))
    local = [piece for piece in asked if (piece.box, node_of(piece.receiver)) in near]
    moves = [_send(piece, near[piece.box, node_of(piece.receiver)]) for piece in local]

    anywhere: dict[Held, _Busy] = {}
    for (box, _), busy in near.items():
        anywhere.setdefault(box, []).extend(busy)
    for busy in anywhere.values():
        heapq.heapify(busy)
    far = [piece for piece in asked if (piece.box, node_of(piece.receiver)) not in near]
    moves += [_send(piece, anywhere[piece.box]) for piece in far]
    even = (_mean(busy) for busy in (*near.values(), *anywhere.values()))
    return Route(tuple(moves), max(even, default=0.0))


def _send(piece: _Asked, busy: _Busy) -> Move:
    emitted, sender = busy[0]
    heapq.heapreplace(busy, (emitted + piece.bytes, sender))
    return Move(sender, piece.receiver, piece.part, piece.bytes)


def _mean(busy: _Busy) -> float:
    return sum(emitted for emitted, _ in busy) / len(busy)


def _sums(pairs: Iterable[tuple[int, float]]) -> dict[int, float]:
    sums: defaultdict[int, float] = defaultdict(float)
    for rank, size in pairs:
        sums[rank] += size
    return dict(sums)
