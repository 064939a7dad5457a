"""Meshes are the slices, nodes and runs of nodes that a space names, each once, and each a run of cells."""

from itertools import pairwise

import pytest

from ropewalk.plan.cluster import Cluster, Gpu, NodeGroup
from ropewalk.planner.case.space import Space
from ropewalk.planner.search.meshes import Cells, cells
from ropewalk.records.errors import InputError


def cluster(*nodes: tuple[int, int], memory: tuple[float, ...] = ()) -> Cluster:
    """Groups of so many nodes of so many GPUs."""
    return Cluster(
        "some",
        tuple(
            NodeGroup(
                Gpu(f"gpu{i}", {"bf16": 1e14}, memory[i] if memory else 8e10, 2e12), count, gpus, 2e11, 1e-5, 2.5e10
            )
            for i, (count, gpus) in enumerate(nodes)
        ),
        2.5e10,
        2e-5,
    )


def ranks(found: Cells) -> set[tuple[int, int]]:
    return {(mesh.first_rank, mesh.gpus) for mesh in found.meshes}


def wanted(machines: Cluster, sizes: tuple[int, ...]) -> set[tuple[int, int]]:
    """Slices of each node at the multiples of their size, and every run of nodes."""
    nodes = [group.gpus_per_node for group in machines.groups for _ in range(group.nodes)]
    starts = [sum(nodes[:i]) for i in range(len(nodes) + 1)]
    slices = {
        (starts[i] + at, size)
        for i, node in enumerate(nodes)
        for size in sizes
        if size < node and node % size == 0
        for at in range(0, node, size)
    }
    return slices | {(a, b - a) for i, a in enumerate(starts) for b in starts[i + 1 :]}


SHAPES = {
    "one GPU": (((1, 1),), ()),
    "one node": (((1, 8),), (1, 2, 4)),
    "nodes of six": (((3, 6),), (1, 2, 3)),
    "slices that do not divide one another": (((2, 6),), (2, 3)),
    "four and six of twelve": (((2, 12),), (4, 6)),
    "mixed nodes": (((2, 8), (3, 4)), (2, 4)),
    "slices for one group alone": (((1, 8), (2, 3)), (4,)),
}


@pytest.mark.parametrize(("nodes", "sizes"), SHAPES.values(), ids=SHAPES)
def test_all_meshes_are_there_once_and_are_runs_of_cells(
    nodes: tuple[tuple[int, int], ...], sizes: tuple[int, ...]
) -> None:
    machines = cluster(*nodes)
    found = cells(machines, Space(slice_sizes=sizes))
    assert sum(found.gpus) == machines.gpus
    assert ranks(found) == wanted(machines, sizes)
    assert len(found.meshes) == len(ranks(found))
    starts = [sum(found.gpus[:i]) for i in range(len(found.gpus))]
    for mesh in found.meshes:
        run = range(mesh.first_cell, mesh.first_cell + mesh.cells)
        assert mesh.first_rank == starts[mesh.first_cell]
        assert mesh.gpus == sum(found.gpus[cell] for cell in run)
        assert [bit for bit in range(64) if mesh.mask >> bit & 1] == list(run)


def test_each_cell_has_the_memory_of_its_group() -> None:
    found = cells(cluster((2, 8), (1, 4), memory=(8e10, 2.4e10)), Space(slice_sizes=(4,)))
    assert found.memory_bytes == (8e10,) * 4 + (2.4e10,)


def test_without_runs_of_nodes_none_spans_two() -> None:
    assert ranks(cells(cluster((4, 8)), Space(node_runs=False))) == {(0, 8), (8, 8), (16, 8), (24, 8)}


@pytest.mark.parametrize("nodes", [16, 17, 62, 100, 512])
def test_many_nodes_are_taken_in_blocks(nodes: int) -> None:
    found = cells(cluster((nodes, 8)), Space(blocks=16))
    assert len(found.gpus) <= 16
    assert sum(found.gpus) == 8 * nodes
    assert len(found.meshes) == len(found.gpus) * (len(found.gpus) + 1) // 2
    assert (0, 8 * nodes) in ranks(found)
    assert all(a == b for a, b in pairwise(found.gpus[:-1]))


def test_up_to_sixty_two_cells() -> None:
    found = cells(cluster((62, 8)), Space(blocks=62))
    assert len(found.gpus) == 62
    assert max(mesh.mask for mesh in found.meshes) == 2**62 - 1
    with pytest.raises(InputError, match="64 pieces"):
        cells(cluster((8, 8)), Space(slice_sizes=(1,)))
