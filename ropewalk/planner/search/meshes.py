"""The meshes of a cluster (aligned slices of a node, nodes, runs of nodes) and the cells they are made of.

Where a cluster has many nodes, meshes are made of blocks of nodes, so that their number stays the same at any size:
what is searched, and what a certificate speaks of, is then the plans over those meshes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ropewalk.plan.cluster import Cluster
from ropewalk.planner.case.space import Space
from ropewalk.planner.search.problem import MOST_CELLS, Mesh
from ropewalk.records.errors import InputError


@dataclass(frozen=True, slots=True)
class Cells:
    """The smallest pieces of a cluster that a mesh can be made of, and the meshes."""

    gpus: tuple[int, ...]
    memory_bytes: tuple[float, ...]
    """Of one GPU, by cell."""
    meshes: tuple[Mesh, ...]


def cells(cluster: Cluster, space: Space) -> Cells:
    """Cells and meshes. Raises InputError where there are too many pieces."""
    blocks = _blocks(cluster, space.blocks)
    single = len(blocks) == sum(group.nodes for group in cluster.groups)
    pieces: list[tuple[int, int, float]] = []
    bounds = []
    for first, gpus, memory, node in blocks:
        sizes = [s for s in space.slice_sizes if s < node and node % s == 0] if single else []
        step = math.gcd(*sizes) or gpus
        bounds.append(len(pieces))
        pieces += [(rank, step, memory) for rank in range(first, first + gpus, step)]
    bounds.append(len(pieces))
    if len(pieces) > MOST_CELLS:
        raise InputError(
            f"slices of {min(space.slice_sizes)} GPUs cut cluster {cluster.name!r} into {len(pieces)} pieces, and "
            f"{MOST_CELLS} is the most: give larger slice_sizes"
        )
    spans = list(dict.fromkeys(_spans(blocks, bounds, pieces, space, single=single)))
    return Cells(
        gpus=tuple(gpus for _, gpus, _ in pieces),
        memory_bytes=tuple(memory for *_, memory in pieces),
        meshes=tuple(
            Mesh(low, high - low, pieces[low][0], sum(gpus for _, gpus, _ in pieces[low:high])) for low, high in spans
        ),
    )


def _blocks(cluster: Cluster, most: int) -> list[tuple[int, int, float, int]]:
    """(first rank, GPUs, bytes of a GPU, GPUs of a node) of runs of nodes that are never cut."""
    nodes = sum(group.nodes for group in cluster.groups)
    size = -(-nodes // most)
    found, first = [], 0
    for group in cluster.groups:
        left = group.nodes
        while left:
            taken = min(size, left)
            gpus = taken * group.gpus_per_node
            found.append((first, gpus, group.gpu.memory_bytes, group.gpus_per_node))
            first, left = first + gpus, left - taken
    return found


def _spans(
    blocks: list[tuple[int, int, float, int]],
    bounds: list[int],
    pieces: list[tuple[int, int, float]],
    space: Space,
    *,
    single: bool,
) -> Iterator[tuple[int, int]]:
    """Runs of cells that are meshes, as (first, end)."""
    for number, (first, gpus, _, node) in enumerate(blocks):
        for size in sorted(space.slice_sizes) if single else []:
            if size < node and node % size == 0:
                step = pieces[bounds[number]][1]
                for rank in range(0, gpus, size):
                    low = bounds[number] + rank // step
                    yield low, low + size // step
        del first
    longest = len(blocks) if space.node_runs else 1
    for count in range(1, longest + 1):
        for number in range(len(blocks) - count + 1):
            yield bounds[number], bounds[number + count]
