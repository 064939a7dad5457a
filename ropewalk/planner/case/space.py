"""The plans that are looked at: which parts of a node may be a mesh, and how a mesh may be cut."""

from collections.abc import Mapping
from dataclasses import dataclass

from ropewalk.plan.cluster import Cluster
from ropewalk.plan.shape import ModelShape
from ropewalk.planner.estimate.work import Shard
from ropewalk.records.errors import InputError

MOST_BLOCKS = 62
MOST_TP = 16
SMALL_GPUS, LARGE_GPUS = 16, 128
"""Up to the first all slices of a node may be meshes; from the second on only whole nodes."""


@dataclass(frozen=True, slots=True)
class Space:
    """Meshes are aligned slices of one node, single nodes, and runs of consecutive whole nodes."""

    slice_sizes: tuple[int, ...] = ()
    """Sizes of the aligned slices of a node, each smaller than a node."""
    tp: tuple[int, ...] = (1, 2, 4, 8)
    pp_max: int = 16
    offload: bool = True
    """Whether a frozen role's parameters may wait in the host's memory."""
    node_runs: bool = True
    """Whether several nodes may be one mesh."""
    ep: tuple[int, ...] = (1,)
    """Ways to spread the experts of a layer."""
    shard: tuple[Shard, ...] = ("optimizer",)
    """What the dp ranks of a train call may share."""
    uneven_stages: bool = True
    """Whether pipeline stages may differ by a layer, where the fullest leaves the others idle for at most 15 %."""
    blocks: int = 16
    """Whole nodes are grouped in at most so many pieces of consecutive nodes; meshes are runs of them."""

    def __post_init__(self) -> None:
        for name in ("slice_sizes", "tp", "ep"):
            sizes = getattr(self, name)
            if any(size < 1 for size in sizes) or len(set(sizes)) != len(sizes):
                raise InputError(f"a space has {name} = {list(sizes)}: give distinct whole numbers of at least 1")
        if not self.tp or not self.ep:
            raise InputError("a space without tp or ep has no plan in it: give at least [1] for each")
        if self.pp_max < 1:
            raise InputError(f"a space has pp_max = {self.pp_max}: give a whole number of at least 1")
        if not self.shard:
            raise InputError("a space without a way to shard has no plan in it: give at least ['optimizer']")
        if not 1 <= self.blocks <= MOST_BLOCKS:
            raise InputError(f"a space has blocks = {self.blocks}: give 1 to {MOST_BLOCKS}")


def default_space(cluster: Cluster, shapes: Mapping[str, ModelShape]) -> Space:
    """Slices 1, 2, 4 of a node up to 16 GPUs, 4 below 128, whole nodes and no fully sharded training beyond."""
    if cluster.gpus <= SMALL_GPUS:
        sizes: tuple[int, ...] = (1, 2, 4)
    else:
        sizes = (4,) if cluster.gpus < LARGE_GPUS else ()
    smallest = min(group.gpus_per_node for group in cluster.groups)
    return Space(
        slice_sizes=tuple(size for size in sizes if size < smallest and smallest % size == 0),
        tp=tuple(tp for tp in _widths(cluster) if any(shape.heads % tp == 0 for shape in shapes.values())),
        ep=_ways(shapes),
        shard=("optimizer", "full") if cluster.gpus < LARGE_GPUS else ("optimizer",),
    )


def _widths(cluster: Cluster) -> list[int]:
    """Degrees of tensor parallelism: 1, 2, 4, 8, and what else divides a node, up to 16."""
    nodes = {group.gpus_per_node for group in cluster.groups}
    return [tp for tp in range(1, MOST_TP + 1) if tp in (1, 2, 4, 8) or any(node % tp == 0 for node in nodes)]


def _ways(shapes: Mapping[str, ModelShape]) -> tuple[int, ...]:
    """Powers of two that spread the largest number of experts, up to 64 ways."""
    most = max((shape.experts.count for shape in shapes.values() if shape.experts), default=1)
    return tuple(2**i for i in range(7) if 2**i <= most)


def check_space(space: Space, cluster: Cluster, shapes: Mapping[str, ModelShape]) -> None:
    """Refuse a space that asks for what cannot be. Raises InputError."""
    for size in space.slice_sizes:
        if not any(size < group.gpus_per_node and group.gpus_per_node % size == 0 for group in cluster.groups):
            nodes = " or ".join(sorted({str(group.gpus_per_node) for group in cluster.groups}))
            raise InputError(f"a slice of {size} GPUs does not cut a node of {nodes}: give a smaller divisor of it")
    for tp in space.tp:
        if not any(shape.heads % tp == 0 for shape in shapes.values()):
            heads = ", ".join(f"{role} {shape.heads}" for role, shape in shapes.items())
            raise InputError(f"tp = {tp} divides no model's attention heads ({heads}): give a divisor of one of them")
