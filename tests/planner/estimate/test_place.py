"""Places: blocks that never straddle a node, the slowest of what differs, links by block."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.plan.cluster import Cluster, Gpu, NodeGroup
from ropewalk.planner.estimate.place import place
from ropewalk.records.errors import InputError
from tests.planner.estimate.estimating import A100, cluster

H100 = Gpu("H100", {"bf16": 989e12, "fp8": 1979e12}, 94e9, 3.35e12)
MIXED = Cluster(
    "mixed",
    (NodeGroup(A100, 2, 8, 230e9, 10e-6, 25e9), NodeGroup(H100, 2, 4, 450e9, 5e-6, 50e9)),
    25e9,
    20e-6,
)


@given(st.integers(0, 23), st.integers(1, 24))
def test_blocks_never_straddle_a_node_and_no_larger_one_would_do(first: int, count: int) -> None:
    count = min(count, MIXED.gpus - first)
    block = place(MIXED, first, count).gpus_per_node

    def inside(size: int) -> bool:
        starts = range(first, first + count, size)
        return count % size == 0 and all(MIXED.node_of(s) == MIXED.node_of(s + size - 1) for s in starts)

    assert inside(block)
    assert not any(inside(size) for size in range(block + 1, count + 1) if size % block == 0)


def test_a_mesh_over_unequal_nodes_takes_the_slowest_of_everything() -> None:
    both = place(MIXED, 8, 12)
    assert both.gpu.name == "A100 80 GB+H100"
    assert both.gpu.flops == {"bf16": 312e12}
    assert (both.gpu.memory_bytes, both.gpu.memory_bytes_per_second) == (80e9, 2.0e12)
    assert (both.inside_bytes_per_second, both.inside_latency_seconds) == (230e9, 10e-6)
    assert (both.host_bytes_per_second, both.gpus_per_node, both.gpus) == (25e9, 4, 12)
    assert place(MIXED, 16, 8).gpu is H100
    assert place(MIXED, 0, 16).gpu is A100


def test_links_leave_the_node_only_where_a_block_does() -> None:
    two = place(cluster(16), 0, 16)
    assert [two.link(block).inside for block in (1, 2, 8, 16)] == [True, True, True, False]
    assert two.link(16).bytes_per_second == 25e9
    assert two.link(16, 4).bytes_per_second == 100e9
    assert two.link(16, 99).bytes_per_second == two.inside_bytes_per_second
    assert two.link(8, 4) == two.link(8)
    assert place(cluster(16), 8, 8).link(8).inside
    assert not place(cluster(16), 4, 8).link(8).inside


def test_equal_places_are_one_key() -> None:
    assert {place(cluster(32), 0, 8), place(cluster(32), 8, 8), place(cluster(32), 24, 8)} == {place(cluster(32), 0, 8)}


@pytest.mark.parametrize(("first", "count"), [(0, 0), (-1, 2), (10, 7), (16, 1)])
def test_ranks_that_are_not_there_are_refused(first: int, count: int) -> None:
    with pytest.raises(InputError, match="ranks 0 to 15"):
        place(cluster(16), first, count)
