"""Where a call runs, reduced to what its time depends on."""

import math
from dataclasses import dataclass

from ropewalk.plan.cluster import Cluster, Gpu, NodeGroup
from ropewalk.records.errors import InputError


@dataclass(frozen=True, slots=True)
class Link:
    """What a message between two ranks costs."""

    bytes_per_second: float
    latency_seconds: float
    inside: bool
    """It does not leave the node."""


@dataclass(frozen=True, slots=True)
class Place:
    """A mesh: its GPUs and its links, the slowest of each where they differ."""

    gpu: Gpu
    gpus: int
    gpus_per_node: int
    """Largest block of consecutive ranks, counted from the mesh's first, that never straddles two nodes."""
    inside_bytes_per_second: float
    inside_latency_seconds: float
    between_bytes_per_second: float
    between_latency_seconds: float
    host_bytes_per_second: float

    def link(self, block: int, adapters: int = 1) -> Link:
        """The slowest link inside the blocks of `block` consecutive ranks that the mesh is cut into. Between nodes a
        group may use the network of several of its ranks at once, up to the speed inside."""
        if self.gpus_per_node % block == 0:
            return Link(self.inside_bytes_per_second, self.inside_latency_seconds, True)
        together = min(adapters * self.between_bytes_per_second, self.inside_bytes_per_second)
        return Link(max(together, self.between_bytes_per_second), self.between_latency_seconds, False)


def place(cluster: Cluster, first: int, count: int) -> Place:
    """The mesh of `count` ranks from `first` on. Raises InputError for ranks the cluster lacks."""
    if count < 1 or first < 0 or first + count > cluster.gpus:
        raise InputError(
            f"cluster {cluster.name!r} has ranks 0 to {cluster.gpus - 1}: {count} ranks from {first} on are not there"
        )
    groups = _groups(cluster, first, count)
    return Place(
        gpu=_slowest([group.gpu for group in groups]),
        gpus=count,
        gpus_per_node=_block(cluster, first, count),
        inside_bytes_per_second=min(group.inside_bytes_per_second for group in groups),
        inside_latency_seconds=max(group.inside_latency_seconds for group in groups),
        between_bytes_per_second=cluster.between_bytes_per_second,
        between_latency_seconds=cluster.between_latency_seconds,
        host_bytes_per_second=min(group.host_bytes_per_second for group in groups),
    )


def _groups(cluster: Cluster, first: int, count: int) -> list[NodeGroup]:
    found, start = [], 0
    for group in cluster.groups:
        if start < first + count and first < start + group.gpus:
            found.append(group)
        start += group.gpus
    return found


def _block(cluster: Cluster, first: int, count: int) -> int:
    """Greatest common divisor of the numbers of ranks on each node: blocks of it never straddle two nodes."""
    block, start = 0, 0
    for group in cluster.groups:
        low, high = max(first, start) - start, min(first + count, start + group.gpus) - start
        size = group.gpus_per_node
        if low < high:
            head = min(high, -(-low // size) * size) - low
            tail = (high - low - head) % size
            whole = size if high - low - head >= size else 0
            block = math.gcd(block, head, tail, whole)
        start += group.gpus
    return block


def _slowest(gpus: list[Gpu]) -> Gpu:
    distinct = list({id(gpu): gpu for gpu in gpus}.values())
    if len(distinct) == 1:
        return distinct[0]
    dtypes = set.intersection(*(set(gpu.flops) for gpu in distinct))
    prices = [gpu.dollars_per_hour for gpu in distinct if gpu.dollars_per_hour is not None]
    return Gpu(
        name="+".join(dict.fromkeys(gpu.name for gpu in distinct)),
        flops={dtype: min(gpu.flops[dtype] for gpu in distinct) for dtype in sorted(dtypes)},
        memory_bytes=min(gpu.memory_bytes for gpu in distinct),
        memory_bytes_per_second=min(gpu.memory_bytes_per_second for gpu in distinct),
        dollars_per_hour=max(prices) if len(prices) == len(distinct) else None,
        source="the slowest of " + ", ".join(dict.fromkeys(gpu.source for gpu in distinct)),
    )
