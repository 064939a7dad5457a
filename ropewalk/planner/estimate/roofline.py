"""The roofline of one device and its links: what products, attention, elementwise passes and messages take.

    product(m, k, n) = max( 2mkn / (F e), w (kn + mk + mn) / (share BW) )       seconds, w bytes a number
    e                = peak share x m / (m + rows_half) x min(k, n) / (min(k, n) + width_half)
    attention        = 4 n (S/2) q / (attention share F)    over whole sequences: n tokens, S = E[length²]/E[length]
                     = b C KV / (cache share BW)            decoding: b sequences, C tokens of context, KV bytes of one
    layer            = Σ products + attention + passes n h w / (share BW) + kernels x kernel floor
    all-reduce(x, t) = latency + hop (t - 1) + 2 (t - 1)/t x' / (share bandwidth)   x' = x + min(x, ramp)
    all-gather(x, t) = latency + hop (t - 1) + (t - 1)/t x' / (share bandwidth)     x bytes when gathered
    all-to-all(x, t) = the same                                                     x bytes that each rank sends

Widths are those of one tp rank. F is the peak FLOP/s of the dtype, BW the memory bandwidth.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ropewalk.plan.memory import FP32, MIXED, Numbers
from ropewalk.plan.shape import ModelShape
from ropewalk.planner.estimate.calibration import Calibration
from ropewalk.planner.estimate.place import Link, Place


class Product(NamedTuple):
    """A weight matrix on one rank."""

    inputs: float
    outputs: float


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU under a calibration, in units that need no further constant."""

    peak: float
    """FLOP/s of the dtype."""
    product_flops: float
    attention_flops: float
    memory: float
    """Bytes/s of products and elementwise passes."""
    cache: float
    """Bytes/s of reading keys and values."""
    number: int
    """Bytes of one number in the dtype."""
    rows_half: float
    width_half: float

    def product(self, rows: float, weights: Product) -> float:
        """Seconds, without the kernel floor."""
        k, n = weights
        narrow = k if k < n else n
        volume = rows * k * n
        flops = self.product_flops * (rows / (rows + self.rows_half)) * (narrow / (narrow + self.width_half))
        computing = 2 * volume / flops
        moving = self.number * (k * n + rows * (k + n)) / self.memory
        return computing if computing > moving else moving

    def products(self, rows: float, weights: tuple[Product, ...]) -> float:
        """Seconds of all of them, one after another."""
        return sum([self.product(rows, each) for each in weights])


def numbers(dtype: str) -> Numbers:
    """Bytes of a number of each sort under a compute dtype."""
    return FP32 if dtype in ("fp32", "tf32") else MIXED


@lru_cache(maxsize=256)
def device(place: Place, dtype: str, calibration: Calibration) -> Device:
    """The place's GPU. Raises InputError for a dtype it has no figure for."""
    gpu = place.gpu
    peak = gpu.peak(dtype)
    return Device(
        peak=peak,
        product_flops=peak * calibration.peak_share(gpu.name),
        attention_flops=peak * calibration.attention_peak,
        memory=gpu.memory_bytes_per_second * calibration.memory_share,
        cache=gpu.memory_bytes_per_second * calibration.cache_share,
        number=numbers(dtype).weights,
        rows_half=calibration.rows_half,
        width_half=calibration.width_half,
    )


@dataclass(frozen=True, slots=True)
class Wire:
    """Messages over one link between `ranks` ranks."""

    ranks: int
    latency: float
    """Of one message between two ranks."""
    collective: float
    """Latency of a collective over all ranks: that of a message and the hops beyond."""
    bandwidth: float
    ramp: float
    """Bytes that a collective takes twice as long for."""

    def all_reduce(self, size: float) -> float:
        return 2 * self.all_gather(size) - self.collective

    def all_gather(self, size: float) -> float:
        if self.ranks == 1:
            return 0.0
        filled = size + (size if size < self.ramp else self.ramp)
        return self.collective + (self.ranks - 1) / self.ranks * filled / self.bandwidth

    def send(self, size: float) -> float:
        """From one rank to the next."""
        return self.latency + size / self.bandwidth if self.ranks > 1 else 0.0


def wire(link: Link, ranks: int, calibration: Calibration) -> Wire:
    """A link seen by a group of ranks."""
    hop = calibration.hop_seconds if link.inside else calibration.between_hop_seconds
    share = calibration.inside_share if link.inside else calibration.between_share
    return Wire(
        ranks=ranks,
        latency=link.latency_seconds,
        collective=link.latency_seconds + hop * (ranks - 1) if ranks > 1 else 0.0,
        bandwidth=link.bytes_per_second * share,
        ramp=calibration.ramp_bytes,
    )


@lru_cache(maxsize=1024)
def projections(shape: ModelShape, tp: int) -> tuple[Product, ...]:
    """The products of one layer's attention on one of tp ranks."""
    h, latent = shape.width, shape.latent
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    if latent is None:
        return Product(h, (queries + 2 * keys) / tp), Product(queries / tp, h)
    narrow, values = latent.kv_rank + latent.rope_dim, shape.heads * latent.value_dim
    query = (
        (Product(h, queries / tp),)
        if latent.query_rank is None
        else (Product(h, latent.query_rank), Product(latent.query_rank, queries / tp))
    )
    grown = shape.heads * (latent.nope_dim + latent.value_dim)
    return (*query, Product(h, narrow), Product(latent.kv_rank, grown / tp), Product(values / tp, h))


@lru_cache(maxsize=1024)
def inner(shape: ModelShape, ffn: float, tp: int) -> tuple[Product, ...]:
    """The products of a feed-forward part of inner width `ffn` on one of tp ranks."""
    return Product(shape.width, (1 + shape.traits.gated) * ffn / tp), Product(ffn / tp, shape.width)
