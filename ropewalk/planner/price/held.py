"""What a job's roles hold in memory, and how few GPUs hold it. All parameters count here, active or not.

    trained              16 bytes a parameter: weights 2, gradients 2, fp32 master and two Adam moments 12
    trained by adapters  2 a parameter, and 16 for each of the adapters'
    frozen               2

Activations, KV and logits come on top: the planner's bill has them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from ropewalk.plan.cluster import Gpu
from ropewalk.plan.graph import CallGraph
from ropewalk.plan.memory import MIXED, USABLE, state_bytes
from ropewalk.plan.shape import ModelShape
from ropewalk.records.errors import InputError

ZERO1_REPLICATED = MIXED.weights + MIXED.gradients
ZERO1_SHARDED = MIXED.optimizer


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes that stay, by role, and how they lie on a number of GPUs."""

    by_role: Mapping[str, float]
    replicated: Mapping[str, float]
    """Of these, what every data-parallel rank keeps in full under ZeRO-1."""
    engine_copy_bytes: float = 0.0
    """Weights that a generation engine of its own would hold as well; 0 where nothing is generated or trained."""

    @property
    def bytes(self) -> float:
        """All states once."""
        return sum(self.by_role.values())

    def zero1_bytes(self, gpus: int) -> float:
        """Per GPU when data parallelism over all of them shards the optimiser alone."""
        replicated = sum(self.replicated.values())
        return replicated + (self.bytes - replicated) / gpus

    def sharded_bytes(self, gpus: int) -> float:
        """Per GPU when everything is split, by ZeRO-3, tensor or pipeline parallelism."""
        return self.bytes / gpus

    def fewest_gpus(self, gpu: Gpu) -> int:
        """That hold the states when everything is split."""
        return max(1, ceil(self.bytes / usable_bytes(gpu)))

    def fits(self, gpu: Gpu, gpus: int) -> bool:
        """Whether the states fit when everything is split; activations and KV come on top."""
        return self.sharded_bytes(gpus) <= usable_bytes(gpu)


def usable_bytes(gpu: Gpu) -> float:
    """What a plan may fill of one GPU."""
    return USABLE * gpu.memory_bytes


def held(graph: CallGraph, shapes: Mapping[str, ModelShape], lora_rank: Mapping[str, int] | None = None) -> Held:
    """The states of every role of the graph."""
    trained = {call.role for call in graph.of_kind("train")}
    ranks = lora_rank or {}
    by_role: dict[str, float] = {}
    replicated: dict[str, float] = {}
    for role in graph.roles:
        count = shapes[role].parameters
        frozen = role not in trained or role in ranks
        changing = 0
        if role in trained:
            changing = adapter_parameters(shapes[role], ranks[role]) if role in ranks else count
        base = frozen * count * MIXED.weights
        by_role[role] = float(base + state_bytes(changing, trained=True, numbers=MIXED))
        replicated[role] = float(base + changing * ZERO1_REPLICATED)
    generating = {call.role for call in graph.of_kind("generate")} & trained
    copies = sum(MIXED.weights * shapes[role].parameters for role in generating)
    return Held(by_role, replicated, float(copies))


def adapter_parameters(shape: ModelShape, rank: int) -> int:
    """Low-rank adapters (Hu et al. 2021) on every matrix of attention and of the dense feed-forward part: rank x (in +
    out) each. Routed experts get none."""
    if rank < 1:
        raise InputError(f"adapters have a rank of at least 1, got {rank}: write 16")
    if rank > shape.width:
        raise InputError(f"adapters of rank {rank} are larger than the model's width {shape.width}: write 16")
    d, queries, keys = shape.width, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = (d + queries) + 2 * (d + keys) + (queries + d)
    inner = (2 + shape.traits.gated) * (d + shape.ffn)
    dense = shape.layers - shape.sparse_layers
    return rank * (shape.layers * attention + dense * inner)
