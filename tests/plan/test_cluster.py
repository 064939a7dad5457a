"""Clusters: who is where, and what no cluster can be."""

from dataclasses import replace
from itertools import chain, repeat

import pytest

from ropewalk.plan.cluster import Cluster, Gpu, NodeGroup
from ropewalk.records.errors import InputError

A100 = Gpu("A100", flops={"bf16": 312e12, "fp32": 19.5e12}, memory_bytes=80e9, memory_bytes_per_second=2.0e12)
L4 = Gpu("L4", flops={"bf16": 121e12}, memory_bytes=24e9, memory_bytes_per_second=300e9)


def group(gpu: Gpu, nodes: int, gpus_per_node: int) -> NodeGroup:
    return NodeGroup(
        gpu, nodes, gpus_per_node, inside_bytes_per_second=2e11, inside_latency_seconds=1e-5, host_bytes_per_second=2e10
    )


def cluster(*groups: NodeGroup) -> Cluster:
    return Cluster("mine", groups, between_bytes_per_second=2e10, between_latency_seconds=2e-5)


MIXED = cluster(group(A100, 2, 4), group(L4, 3, 2), group(A100, 1, 1))


def test_ranks_run_through_groups_and_nodes_in_order() -> None:
    sizes = list(chain(repeat(4, 2), repeat(2, 3), [1]))
    assert MIXED.gpus == sum(sizes) and MIXED.nodes == len(sizes)
    nodes = [number for number, size in enumerate(sizes) for _ in range(size)]
    assert [MIXED.node_of(rank) for rank in range(MIXED.gpus)] == nodes
    kinds = [A100] * 8 + [L4] * 6 + [A100]
    assert [MIXED.group_of(rank).gpu for rank in range(MIXED.gpus)] == kinds
    assert not MIXED.homogeneous and cluster(group(L4, 3, 2)).homogeneous


@pytest.mark.parametrize("rank", [-1, 15, 100])
def test_a_rank_beyond_the_cluster_is_refused(rank: int) -> None:
    for find in (MIXED.node_of, MIXED.group_of):
        with pytest.raises(InputError, match="15 GPUs, so no rank"):
            find(rank)


def test_the_balance_point_of_an_a100_is_156() -> None:
    """312 TFLOP/s over 2.0 TB/s; 153 with the data sheet's 2.039."""
    assert A100.balance("bf16") == 156
    assert round(replace(A100, memory_bytes_per_second=2.039e12).balance("bf16")) == 153


def test_a_dtype_that_a_device_lacks_is_refused_with_those_it_has() -> None:
    MIXED.check_dtype("bf16")
    with pytest.raises(InputError, match="'L4' has no FLOP/s for 'fp32': choose one of bf16"):
        MIXED.check_dtype("fp32")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"flops": {}}, "needs FLOP/s by dtype"),
        ({"flops": {"bf61": 1e12}}, r"needs FLOP/s by dtype .* got \['bf61'\]"),
        ({"flops": {"bf16": 0.0}}, "bf16 FLOP/s = 0: give a number greater than 0"),
        ({"memory_bytes": -80e9}, "memory_bytes = -8e.10: give a number greater than 0"),
        ({"memory_bytes_per_second": float("nan")}, "memory_bytes_per_second = nan"),
        ({"dollars_per_hour": -1.0}, "price -1.0: give dollars per GPU-hour"),
        ({"dollars_range": (1.0, -2.0)}, "price -2.0"),
    ],
)
def test_a_gpu_that_cannot_be(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        replace(A100, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"nodes": 0}, "0 nodes of 4 GPUs: give at least 1"),
        ({"gpus_per_node": 0}, "2 nodes of 0 GPUs: give at least 1"),
        ({"inside_bytes_per_second": -1.0}, "inside_bytes_per_second = -1: give a number greater than 0"),
        ({"host_bytes_per_second": 0.0}, "host_bytes_per_second = 0: give a number greater than 0"),
        ({"inside_latency_seconds": -1e-6}, "inside_latency_seconds = -1e-06: give seconds, 0 or more"),
    ],
)
def test_a_node_group_that_cannot_be(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        replace(group(A100, 2, 4), **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"groups": ()}, "has no GPU"),
        ({"between_bytes_per_second": 0.0}, "between_bytes_per_second = 0"),
        ({"between_bytes_per_second": float("inf")}, "between_bytes_per_second = inf"),
        ({"between_latency_seconds": float("nan")}, "between_latency_seconds = nan"),
    ],
)
def test_a_cluster_that_cannot_be(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        replace(MIXED, **change)  # type: ignore[arg-type]


def test_nouns_are_keys() -> None:
    """Equal clusters are one key, so that what is computed for one may be kept."""
    again = cluster(group(A100, 2, 4), group(L4, 3, 2), group(A100, 1, 1))
    assert len({MIXED, again}) == 1
