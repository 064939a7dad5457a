"""What one decoder layer takes on one rank: computing, and messages between the ranks that share it.

    layer       = Σ products + attention + elementwise passes n h w / (share BW) + kernels x kernel floor
    messages    = 2 all-reduce(w n h, tp) per forward layer, + 2 all-to-all(w n k h / tp, ep) with experts over ep ranks

A mixture of experts: of E routed experts a batch of N tokens that choose k touches E (1 - (1 - k/E)^N), spread evenly
over ep ranks; each of them is a product of N k / touched rows. N counts the tokens of all tp groups that share the
experts, ep / gcd(tp, ep) of them; where ep has a factor in common with tp, that part of tp splits experts no further.
Layers of a model whose first ones are dense are averaged.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from ropewalk.plan.shape import Experts, ModelShape
from ropewalk.planner.estimate.calibration import Calibration
from ropewalk.planner.estimate.place import Place
from ropewalk.planner.estimate.roofline import Device, Product, Wire, device, inner, numbers, projections, wire
from ropewalk.planner.estimate.work import CallWork, Strategy


@dataclass(frozen=True, slots=True)
class Mixture:
    """The routed experts of a layer on one rank."""

    experts: Experts
    ep: int
    groups: int
    """tp groups whose tokens meet in the experts."""
    weights: tuple[Product, ...]
    router: tuple[Product, ...]
    share: float
    """Of the layers, those with experts."""
    wire: Wire

    def touched(self, tokens: float) -> float:
        """Experts of one rank that a batch passes; `tokens` of one tp group."""
        e = self.experts
        if e.per_token >= e.count:
            return e.count / self.ep
        missed = math.pow(1 - e.per_token / e.count, tokens * self.groups)
        return e.count * (1 - missed) / self.ep

    def seconds(self, tokens: float, on: Device) -> float:
        touched = self.touched(tokens)
        rows = tokens * self.groups * self.experts.per_token / (touched * self.ep)
        return touched * on.products(rows, self.weights) + on.products(tokens, self.router)


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer on one rank."""

    on: Device
    width: int
    tp: int
    attention: tuple[Product, ...]
    """Products of the attention, without the attention itself."""
    dense: tuple[Product, ...]
    """Products of the feed-forward part; of a mixture that of the shared experts."""
    dense_layers: tuple[Product, ...]
    """Of a mixture, those of its layers without experts."""
    mixture: Mixture | None
    passes: float
    """Seconds of the elementwise passes per token."""
    floor: float
    """Seconds of the kernel floors."""
    wire: Wire
    queries: float
    """Width of the queries on one rank."""
    cache_bytes: float
    """Keys and values of one token in one layer on one rank."""

    def seconds(self, tokens: float, attention: float) -> float:
        """Forward pass of `tokens` tokens, `attention` seconds of them in attention."""
        on = self.on
        time = on.products(tokens, self.attention) + attention + self.passes * tokens + self.floor
        if self.mixture is None:
            return time + on.products(tokens, self.dense)
        share = self.mixture.share
        sparse = on.products(tokens, self.dense) + self.mixture.seconds(tokens, on)
        return time + share * sparse + (1 - share) * on.products(tokens, self.dense_layers)

    def whole(self, tokens: float, context: float) -> float:
        """Attention over whole sequences; `context` is E[length²]/E[length]."""
        return 4 * tokens * (context / 2) * self.queries / self.on.attention_flops

    def cached(self, sequences: float, context: float) -> float:
        """Attention of one token of each sequence over its cache."""
        return sequences * context * self.cache_bytes / self.on.cache

    def messages(self, tokens: float) -> float:
        size = self.on.number * tokens * self.width
        time = 2 * self.wire.all_reduce(size)
        if self.mixture is not None:
            sent = size * self.mixture.experts.per_token / self.tp
            time += 2 * self.mixture.share * self.mixture.wire.all_gather(sent)
        return time


def layer(work: CallWork, strategy: Strategy, place: Place, calibration: Calibration) -> Layer:
    """The layer of a call's model under a strategy."""
    training = work.kind == "train"
    return _layer(work.shape, strategy.tp, strategy.ep, training, place, work.workload.dtype, calibration)


@lru_cache(maxsize=4096)
def _layer(
    shape: ModelShape, tp: int, ep: int, training: bool, place: Place, dtype: str, calibration: Calibration
) -> Layer:
    on, e = device(place, dtype, calibration), shape.experts
    values = shape.heads * (shape.latent.value_dim if shape.latent else shape.head_dim)
    count = calibration.train_elementwise_passes if training else calibration.elementwise_passes
    split_passes = calibration.split_elementwise_train if training else calibration.split_elementwise_forward
    passes = count * shape.width * on.number / on.memory
    return Layer(
        on=on,
        width=shape.width,
        tp=tp,
        attention=projections(shape, tp),
        dense=inner(shape, shape.ffn, tp) if e is None else inner(shape, e.shared * e.ffn, tp) if e.shared else (),
        dense_layers=inner(shape, shape.ffn, tp) if e and e.dense_layers else (),
        mixture=_mixture(shape, tp, ep, place, calibration) if e else None,
        passes=passes / tp if split_passes else passes,
        floor=calibration.layer_kernels * calibration.kernel_seconds,
        wire=wire(place.link(tp), tp, calibration),
        queries=(shape.heads * shape.head_dim + values) / 2 / tp,
        cache_bytes=shape.kv_numbers * numbers(dtype).kv / min(tp, shape.kv_shards),
    )


def _mixture(shape: ModelShape, tp: int, ep: int, place: Place, calibration: Calibration) -> Mixture:
    e = shape.experts
    assert e is not None
    common = math.gcd(tp, ep)
    return Mixture(
        experts=e,
        ep=ep,
        groups=ep // common,
        weights=(Product(shape.width, 2 * e.ffn * common / tp), Product(e.ffn * common / tp, shape.width)),
        router=(Product(shape.width, e.count),) if e.per_token < e.count else (),
        share=shape.sparse_layers / shape.layers,
        wire=wire(place.link(math.lcm(tp, ep)), ep, calibration),
    )
