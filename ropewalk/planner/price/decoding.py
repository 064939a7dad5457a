"""What decoding costs by the roofline: every step reads all weights once, and every sequence its own cache.

    step     = max( bytes / (share of bandwidth), FLOPs / (share of peak) )
    bytes    = 2 x (weights that the batch touches) + batch x context x KV bytes of a token
    FLOPs    = batch x (2 x active parameters + attention over the context)

A batch of b tokens touches E (1 - (1 - k/E)^b) of a layer's E routed experts. Context is the mean over the
answer: prompt + generated / 2. Left out: communication of a split replica, launch times, the tail of uneven lengths; so
this is a floor, and far nearer than an MFU.
"""

from dataclasses import dataclass

from ropewalk.plan.cluster import Gpu
from ropewalk.plan.memory import MIXED, USABLE, kv_bytes
from ropewalk.plan.shape import ModelShape
from ropewalk.planner.price.flops import FORWARD
from ropewalk.records.errors import InputError

WEIGHT_BYTES = 2
IDEAL = 1.0


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy of the model that decodes."""

    gpus: int
    batch: int
    """Sequences in flight."""
    batch_that_fits: int
    """By the memory that weights leave for the cache of sequences at their full length."""


def step_bytes(shape: ModelShape, *, batch: int, context: float) -> float:
    """Bytes read in one decoding step."""
    per_token = kv_bytes(shape, 1, MIXED)
    return WEIGHT_BYTES * _touched(shape, batch) + batch * context * per_token


def step_flops(shape: ModelShape, *, batch: int, context: float) -> float:
    """FLOPs of one decoding step."""
    attention = 4 * shape.layers * shape.heads * shape.head_dim * context
    return batch * (FORWARD * shape.active_parameters + attention)


@dataclass(frozen=True, slots=True)
class Reach:
    """Shares of the data sheet that decoding gets."""

    peak: float = IDEAL
    bandwidth: float = IDEAL


def step_seconds(
    shape: ModelShape, gpu: Gpu, *, batch: int, context: float, gpus: int = 1, reach: Reach | None = None
) -> float:
    """Time of one decoding step of a replica of `gpus`."""
    reach = reach or Reach()
    reading = step_bytes(shape, batch=batch, context=context) / (gpu.memory_bytes_per_second * reach.bandwidth)
    computing = step_flops(shape, batch=batch, context=context) / (peak_flops(gpu) * reach.peak)
    return max(reading, computing) / gpus


def decode_mfu(shape: ModelShape, gpu: Gpu, *, batch: int, context: float) -> float:
    """Share of the peak that an ideal decoder reaches: 2 FLOPs per active parameter and token over the step's time."""
    useful = FORWARD * shape.active_parameters * batch
    return useful / peak_flops(gpu) / step_seconds(shape, gpu, batch=batch, context=context)


def balance(gpu: Gpu) -> float:
    """FLOPs per byte at which computing takes as long as reading. Decoding's own intensity is about the batch."""
    return peak_flops(gpu) / gpu.memory_bytes_per_second


def peak_flops(gpu: Gpu) -> float:
    """Dense FLOP/s in 16 bits; in fp32 where a device has no such units."""
    return next(gpu.flops[dtype] for dtype in ("bf16", "fp16", "fp32") if dtype in gpu.flops)


def replica(shape: ModelShape, gpu: Gpu, *, batch: int, longest: int) -> Replica:
    """The smallest power of two of GPUs that holds the weights and one full sequence; its batch is what was asked
    for, or what fits."""
    weights, sequence = WEIGHT_BYTES * shape.parameters, kv_bytes(shape, longest, MIXED)
    usable = USABLE * gpu.memory_bytes
    gpus = 1
    while gpus * usable < weights + sequence:
        gpus *= 2
    room = int((gpus * usable - weights) // sequence) if sequence else batch
    return Replica(gpus, min(batch, room), room)


def checked_batch(batch: int) -> int:
    """At least one sequence decodes."""
    if batch < 1:
        raise InputError(f"a replica decodes at least 1 sequence at a time, got {batch}")
    return batch


def _touched(shape: ModelShape, batch: int) -> float:
    """Parameters that one step over `batch` tokens reads: all of a dense model, some experts of a mixture."""
    e = shape.experts
    if e is None:
        return shape.parameters
    missed = e.count * (1 - e.per_token / e.count) ** batch
    return shape.parameters - shape.sparse_layers * 3 * shape.width * e.ffn * missed
