"""Clusters: groups of equal nodes, the GPUs in them and the links between them. Numbers only; no device is touched.

Ranks are numbered through the groups in order, and through the nodes of a group in order.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ropewalk.records.errors import InputError

DTYPES = ("bf16", "fp16", "fp32", "tf32", "fp8")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One kind of device, by its data sheet or by measurement."""

    name: str
    flops: Mapping[str, float] = field(hash=False)
    """Dense peak FLOP/s by dtype: bf16, fp32, and where it has them fp16, tf32, fp8."""
    memory_bytes: float
    memory_bytes_per_second: float
    dollars_per_hour: float | None = None
    source: str = "given"
    dollars_range: tuple[float, float] | None = None
    """Lowest and highest price one finds."""
    dollars_source: str = "given"
    """`given` by the user, or `assumed`: no price here was asked of a seller."""

    def __post_init__(self) -> None:
        unknown = sorted(set(self.flops) - set(DTYPES))
        if unknown or not self.flops:
            raise InputError(f"GPU {self.name!r} needs FLOP/s by dtype ({', '.join(DTYPES)}), got {unknown or 'none'}")
        for dtype, flops in self.flops.items():
            _positive(f"GPU {self.name!r}", f"{dtype} FLOP/s", flops)
        _positive(f"GPU {self.name!r}", "memory_bytes", self.memory_bytes)
        _positive(f"GPU {self.name!r}", "memory_bytes_per_second", self.memory_bytes_per_second)
        for dollars in (self.dollars_per_hour, *(self.dollars_range or ())):
            if dollars is not None and not dollars >= 0:
                raise InputError(f"GPU {self.name!r} has the price {dollars}: give dollars per GPU-hour, 0 or more")

    def peak(self, dtype: str) -> float:
        """Dense peak FLOP/s; raises InputError for a dtype that the device is not known to compute in."""
        if dtype not in self.flops:
            raise InputError(f"GPU {self.name!r} has no FLOP/s for {dtype!r}: choose one of {', '.join(self.flops)}")
        return self.flops[dtype]

    def balance(self, dtype: str) -> float:
        """FLOPs per byte of memory traffic above which arithmetic, not memory, sets the time."""
        return self.peak(dtype) / self.memory_bytes_per_second


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Equal nodes."""

    gpu: Gpu
    nodes: int
    gpus_per_node: int
    inside_bytes_per_second: float
    """Of one GPU's links to the others of its node, one direction."""
    inside_latency_seconds: float
    host_bytes_per_second: float
    """Of one GPU to its host's memory."""

    def __post_init__(self) -> None:
        what = f"a node group of {self.gpu.name!r}"
        if self.nodes < 1 or self.gpus_per_node < 1:
            raise InputError(
                f"{what} has {self.nodes} nodes of {self.gpus_per_node} GPUs: give at least 1 node with at least 1 GPU"
            )
        _positive(what, "inside_bytes_per_second", self.inside_bytes_per_second)
        _positive(what, "host_bytes_per_second", self.host_bytes_per_second)
        _latency(what, "inside_latency_seconds", self.inside_latency_seconds)

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, slots=True)
class Cluster:
    """Node groups and the network between nodes."""

    name: str
    groups: tuple[NodeGroup, ...]
    between_bytes_per_second: float
    """Of one GPU's share of the network between nodes, one direction."""
    between_latency_seconds: float

    def __post_init__(self) -> None:
        if not self.groups or self.gpus < 1:
            raise InputError(f"cluster {self.name!r} has no GPU: give it a node group with nodes and GPUs per node")
        _positive(f"cluster {self.name!r}", "between_bytes_per_second", self.between_bytes_per_second)
        _latency(f"cluster {self.name!r}", "between_latency_seconds", self.between_latency_seconds)

    @property
    def gpus(self) -> int:
        return sum(group.gpus for group in self.groups)

    @property
    def nodes(self) -> int:
        return sum(group.nodes for group in self.groups)

    @property
    def homogeneous(self) -> bool:
        return len(self.groups) == 1

    def group_of(self, rank: int) -> NodeGroup:
        first = 0
        for group in self.groups if rank >= 0 else ():
            first += group.gpus
            if rank < first:
                return group
        raise InputError(f"cluster {self.name!r} has {self.gpus} GPUs, so no rank {rank}")

    def node_of(self, rank: int) -> int:
        """Number of the rank's node, counted through the groups."""
        gpus, nodes = 0, 0
        for group in self.groups if rank >= 0 else ():
            if rank < gpus + group.gpus:
                return nodes + (rank - gpus) // group.gpus_per_node
            gpus, nodes = gpus + group.gpus, nodes + group.nodes
        raise InputError(f"cluster {self.name!r} has {self.gpus} GPUs, so no rank {rank}")

    def check_dtype(self, dtype: str) -> None:
        """Raises InputError if one of its devices is not known to compute in it."""
        for group in self.groups:
            group.gpu.peak(dtype)


def _positive(what: str, name: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise InputError(f"{what} has {name} = {value:g}: give a number greater than 0")


def _latency(what: str, name: str, value: float) -> None:
    if not (value >= 0 and math.isfinite(value)):
        raise InputError(f"{what} has {name} = {value:g}: give seconds, 0 or more")
