"""Seconds to move a model between meshes, for all pairs of many candidates at once: the price of `plan.transfer.route`.

    seconds = max(most bytes a rank lacks, most bytes a rank sends) / bandwidth + layers × latency
    0 where nothing moves; bandwidth and latency of the links inside a node unless something has to cross nodes

Sent is the figure of evenly shared holders (`Route.even_sent_bytes`). Pairs that differ by a shift along equal nodes
are priced once, and so are all pairs of meshes that share no node.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ropewalk.plan.cluster import Cluster
from ropewalk.plan.layout import Layout
from ropewalk.plan.transfer import LayerBytes, Route
from ropewalk.planner.jit import COMPILED
from ropewalk.planner.moving import arrays as arrays_move
from ropewalk.planner.moving import kernels as kernels_move
from ropewalk.planner.moving.kernels import CROSSES, RECEIVED, SENT, Floats, Ints
from ropewalk.records.errors import InputError


@dataclass(frozen=True, slots=True)
class Shares:
    """What a transfer gets of the bandwidth of links inside and between nodes."""

    inside: float = 1.0
    between: float = 1.0


FULL = Shares()

Count: TypeAlias = Callable[[Ints, Ints, Ints, Ints, Ints, Floats], None]
COUNT: Count = kernels_move.figures if COMPILED else arrays_move.figures

BLOCK = 2**18
"""Pairs whose numbers are worked out together."""


@dataclass(frozen=True, slots=True)
class Geometries:
    """Runs of consecutive ranks and how each is cut; equally long arrays, one entry a candidate."""

    first: Ints
    dp: Ints
    tp: Ints
    pp: Ints
    full: NDArray[np.bool_]
    """Where the parameters are split over dp too (shard="full")."""

    @staticmethod
    def of(rows: Iterable[tuple[int, int, int, int]], *, full: bool = False) -> "Geometries":
        """From (first rank, dp, tp, pp)."""
        table = np.array(list(rows), np.int64).reshape(-1, 4)
        first, dp, tp, pp = np.ascontiguousarray(table.T)
        return Geometries(first, dp, tp, pp, np.full(len(table), full))

    @staticmethod
    def of_layouts(layouts: Iterable[Layout]) -> "Geometries":
        """From layouts whose ranks follow each other."""
        listed = list(layouts)
        for layout in listed:
            if layout.ranks != tuple(range(layout.ranks[0], layout.ranks[0] + len(layout.ranks))) or layout.ep > 1:
                raise InputError(
                    f"the move of {layout} on ranks {list(layout.ranks)} has no price: give it consecutive "
                    "ranks and ep 1"
                )
        plain = Geometries.of((layout.ranks[0], layout.dp, layout.tp, layout.pp) for layout in listed)
        full = np.array([layout.shard == "full" for layout in listed], bool)
        return Geometries(plain.first, plain.dp, plain.tp, plain.pp, full)

    @property
    def gpus(self) -> Ints:
        return self.dp * self.tp * self.pp

    def __len__(self) -> int:
        return len(self.first)


def move_table(
    weights: LayerBytes, sources: Geometries, targets: Geometries, cluster: Cluster, *, shares: Shares = FULL
) -> Floats:
    """Seconds of moving the model from source s to target t, as [s, t]."""
    for meshes in (sources, targets):
        if len(meshes) and (meshes.first.min() < 0 or (meshes.first + meshes.gpus).max() > cluster.gpus):
            raise InputError(f"a mesh reaches beyond cluster {cluster.name!r} of {cluster.gpus} GPUs")
    if not len(sources) or not len(targets):
        return np.zeros((len(sources), len(targets)))
    nodes = node_runs(cluster)
    alike = _alike(sources, targets, nodes)
    example = np.full(alike.numbers, -1, np.int64)
    for rows in alike.blocks():
        numbers = alike.of(rows)
        example[numbers] = rows.start * len(targets) + np.arange(numbers.size).reshape(numbers.shape)
    used = example >= 0
    s, t = np.divmod(example[used], len(targets))
    seconds = np.zeros(alike.numbers)
    seconds[used] = _price(weights, sources, targets, np.stack((s, t), axis=1), cluster, shares)
    table = np.empty((len(sources), len(targets)))
    for rows in alike.blocks():
        np.take(seconds, alike.of(rows), out=table[rows])
    return table


def route_seconds(
    weights: LayerBytes, route: Route, cluster: Cluster, ranks: Iterable[int], *, shares: Shares = FULL
) -> float:
    """The same price from the route itself; `ranks` are those of both layouts, whose links set the pace."""
    if not route.moves:
        return 0.0
    bytes_ = max(max(route.received_bytes.values()), route.even_sent_bytes)
    if route.crosses_nodes(cluster.node_of):
        rate, latency = cluster.between_bytes_per_second * shares.between, cluster.between_latency_seconds
    else:
        groups = [cluster.group_of(rank) for rank in ranks]
        rate = min(group.inside_bytes_per_second for group in groups) * shares.inside
        latency = max(group.inside_latency_seconds for group in groups)
    return bytes_ / rate + weights.layers * latency


def node_runs(cluster: Cluster) -> Ints:
    """By node: its first rank, the rank after its last, and how many nodes of its size follow from it on."""
    rows = []
    first = 0
    for group in cluster.groups:
        for node in range(group.nodes):
            rows.append((first, first + group.gpus_per_node, group.nodes - node))
            first += group.gpus_per_node
    return np.array(rows, np.int64)


def move_figures(
    weights: LayerBytes,
    sources: Geometries,
    targets: Geometries,
    pairs: Ints,
    cluster: Cluster,
    *,
    count: Count = COUNT,
) -> Floats:
    """For each (source, target) of `pairs`: most bytes received, most bytes sent, whether nodes are crossed (1.0)."""
    rows = np.array([weights.layers, weights.first_bytes, weights.layer_bytes, weights.last_bytes], np.int64)
    out = np.zeros((len(pairs), 3))
    if len(pairs):
        count(_meshes(sources), _meshes(targets), pairs, rows, node_runs(cluster), out)
    return out


def _price(
    weights: LayerBytes, sources: Geometries, targets: Geometries, pairs: Ints, cluster: Cluster, shares: Shares
) -> Floats:
    figures = move_figures(weights, sources, targets, pairs, cluster)
    source_rate, source_latency = _inside(cluster, sources)
    target_rate, target_latency = _inside(cluster, targets)
    s, t = pairs.T
    crosses = figures[:, CROSSES] > 0
    inside = np.minimum(source_rate[s], target_rate[t]) * shares.inside
    rate = np.where(crosses, cluster.between_bytes_per_second * shares.between, inside)
    latency = np.where(crosses, cluster.between_latency_seconds, np.maximum(source_latency[s], target_latency[t]))
    most = np.maximum(figures[:, RECEIVED], figures[:, SENT])
    return np.where(most > 0, most / rate + weights.layers * latency, 0.0)


def _inside(cluster: Cluster, meshes: Geometries) -> tuple[Floats, Floats]:
    """Slowest rate and latency inside the nodes that each mesh touches."""
    rate, latency = np.full(len(meshes), np.inf), np.zeros(len(meshes))
    first = 0
    for group in cluster.groups:
        touched = (meshes.first < first + group.gpus) & (meshes.first + meshes.gpus > first)
        rate = np.where(touched, np.minimum(rate, group.inside_bytes_per_second), rate)
        latency = np.where(touched, np.maximum(latency, group.inside_latency_seconds), latency)
        first += group.gpus
    return rate, latency


def _meshes(meshes: Geometries) -> Ints:
    """The rows that `kernels_move` describes; the width is filled in by pair."""
    parts = np.where(meshes.full, meshes.tp * meshes.dp, meshes.tp)
    stop, stage = meshes.first + meshes.gpus, meshes.dp * meshes.tp
    columns = (meshes.first, stop, meshes.tp, stage, meshes.pp, meshes.full.astype(np.int64), parts, parts)
    return np.ascontiguousarray(np.stack(columns, axis=1))


@dataclass(frozen=True, slots=True)
class _Alike:
    """Numbers for pairs, equal where the price is: `base` by (source mesh, target mesh), plus one by strategies."""

    base: Ints
    numbers: int
    """How many there are."""
    source_mesh: Ints
    target_mesh: Ints
    source_cut: Ints
    """Of the source's strategy among those on as many GPUs."""
    target_cut: Ints
    target_cuts: Ints
    """How many strategies share the target's number of GPUs."""

    def blocks(self) -> list[slice]:
        """Of rows, small enough to stay in the processor's cache."""
        rows = max(1, BLOCK // len(self.target_mesh))
        return [slice(first, first + rows) for first in range(0, len(self.source_mesh), rows)]

    def of(self, rows: slice) -> Ints:
        numbers = self.base[self.source_mesh[rows]][:, self.target_mesh]
        numbers += self.source_cut[rows, None] * self.target_cuts
        numbers += self.target_cut
        return numbers


def _alike(sources: Geometries, targets: Geometries, nodes: Ints) -> _Alike:
    """Pairs are alike when both strategies agree and the meshes lie alike: shifted together by whole nodes of a
    cluster of equal nodes, or without a node in common."""
    source_cut, source_cuts = _cuts(sources)
    target_cut, target_cuts = _cuts(targets)
    source_meshes, source_mesh = _meshes_of(sources)
    target_meshes, target_mesh = _meshes_of(targets)
    _, example, lies = np.unique(_lies(source_meshes, target_meshes, nodes), return_index=True, return_inverse=True)
    room = (source_cuts[:, None] * target_cuts)[np.ix_(_one_each(source_mesh), _one_each(target_mesh))]
    rooms = room.ravel()[example]
    base = (np.cumsum(rooms) - rooms)[lies.reshape(room.shape)]
    return _Alike(base, int(rooms.sum()), source_mesh, target_mesh, source_cut, target_cut, target_cuts)


def _lies(sources: Ints, targets: Ints, nodes: Ints) -> Ints:
    """For meshes (first rank, GPUs) a number by pair, equal where they lie alike."""
    ranks, period = int(nodes[-1, 1]), int(nodes[0, 1])
    if nodes[0, 2] < len(nodes):
        period = ranks  # unequal nodes: no shift
    first, other = sources[:, :1], targets[:, 0]
    node = np.repeat(np.arange(len(nodes)), nodes[:, 1] - nodes[:, 0])
    last, other_last = node[first + sources[:, 1:] - 1], node[other + targets[:, 1] - 1]
    apart = (last < node[other]) | (other_last < node[first])
    where = np.where(apart, 0, 1 + first % period * 2 * ranks + other - first + ranks)
    return (where * (ranks + 1) + sources[:, 1:]) * (ranks + 1) + targets[:, 1]


def _meshes_of(meshes: Geometries) -> tuple[Ints, Ints]:
    """The different (first rank, GPUs), and which of them each mesh is."""
    unique, which = np.unique(np.stack((meshes.first, meshes.gpus), axis=1), axis=0, return_inverse=True)
    return unique, which.reshape(-1)


def _cuts(meshes: Geometries) -> tuple[Ints, Ints]:
    """The number of each mesh's strategy among those on as many GPUs, and how many those are."""
    columns = np.stack((meshes.gpus, meshes.dp, meshes.tp, meshes.pp, meshes.full), axis=1)
    unique, which = np.unique(columns, axis=0, return_inverse=True)
    first = np.searchsorted(unique[:, 0], meshes.gpus, side="left")
    stop = np.searchsorted(unique[:, 0], meshes.gpus, side="right")
    return which.reshape(-1) - first, stop - first


def _one_each(which: Ints) -> Ints:
    """The place of one entry of every number."""
    return np.unique(which, return_index=True)[1]
