"""What a forward call and a train call take: micro-batches through a pipeline, then the optimizer.

    forward = (m + pp - 1) x (stage + send) + m head                           stage = layers / pp x (layer + messages)
    train   = minibatches x ( (m + pp - 1) x (layers / pp x (p layer + c messages) + 2 send) + p' m head
                              + all-reduce(w P, dp) + optimizer bytes x P' / (share BW) + fixed )

Per micro-batch of n tokens. Passes through a layer: forward 1, recomputation 1, and backward 2, or 1 where only
adapters learn (no gradient of the matrix itself): p = 4 (3 without recomputation), with adapters 3 (2); c counts
forward, recomputation and backward; p' = 3 (2 with adapters), for the head is not recomputed. P are the trained
parameters on one rank, P' those whose optimizer it holds. With shard="full" parameters are gathered for the forward and
for the backward pass of every micro-batch, and gradients reduce-scattered once per micro-batch, in place of the
all-reduce. Between stages each tp rank sends its share of the hidden states. A scalar head takes no time.
"""

import math
from dataclasses import dataclass, replace

from ropewalk.planner.estimate.calibration import Calibration
from ropewalk.planner.estimate.layer import Layer, layer
from ropewalk.planner.estimate.place import Link, Place
from ropewalk.planner.estimate.readings import NOTHING, Grids, Readings
from ropewalk.planner.estimate.roofline import Product, Wire, numbers, wire
from ropewalk.planner.estimate.split import Split, split
from ropewalk.planner.estimate.work import CallWork, Strategy
from ropewalk.planner.price.held import adapter_parameters


@dataclass(frozen=True, slots=True)
class Micro:
    """The micro-batches of one pass over a dp rank's sequences."""

    count: int
    tokens: float
    """Of each."""


def micro(work: CallWork, strategy: Strategy) -> Micro:
    """Of the fullest dp rank; a micro-batch holds whole units, so there are never more than units."""
    amount = work.amount
    units = -(-math.ceil(amount.sequences / amount.unit) // strategy.dp)
    each = -(-units // min(max(1, strategy.micro_batches), units))
    count = -(-units // each)
    return Micro(count, units * amount.unit * amount.length / count)


@dataclass(frozen=True, slots=True)
class Pipe:
    """One stage of a pipeline, and what one micro-batch takes in it."""

    micro: Micro
    stages: int
    layers: int
    computing: float
    """Seconds of one forward pass through the stage's layers."""
    messages: float
    send: float
    head: float
    """Of one forward pass, on the last stage."""


def forward(
    work: CallWork, strategy: Strategy, place: Place, calibration: Calibration, grids: Grids = NOTHING
) -> tuple[dict[str, float], set[str]]:
    """Seconds by part, and what they rest on. A measured micro-batch holds head and messages."""
    pipe, read = _pipe(work, strategy, place, calibration), Readings(grids)
    whole = read.seconds("forward", pipe.micro.tokens, work.amount.length)
    if whole is not None:
        pipe = replace(pipe, computing=whole / strategy.pp, messages=0.0, head=0.0)
    count = pipe.micro.count
    parts = {
        "layers": count * pipe.computing,
        "head": count * pipe.head,
        "communication": count * (pipe.messages + pipe.send),
        "bubble": (pipe.stages - 1) * (pipe.computing + pipe.messages + pipe.send),
    }
    if strategy.shard == "full" and strategy.dp > 1:
        gathering = _gather(work, strategy, place, calibration)
        parts["gathering"] = count * _visible(gathering, calibration.gather_overlap, pipe.computing)
    return parts, read.bases


def train(
    work: CallWork, strategy: Strategy, place: Place, calibration: Calibration, grids: Grids = NOTHING
) -> tuple[dict[str, float], set[str]]:
    """Seconds by part, and what the passes rest on. A measured micro-batch holds head and messages; a quarter of it is
    shown as recomputation."""
    pipe, rank, read = _pipe(work, strategy, place, calibration), work.lora_rank, Readings(grids)
    backward, head_passes = (2, 3) if rank is None else (1, 2)
    again = int(strategy.recompute)
    whole = read.seconds("train", pipe.micro.tokens, work.amount.length)
    if whole is not None:
        passes = 1 + backward + again
        pipe = replace(pipe, computing=whole / strategy.pp / passes, messages=0.0, head=0.0)
    count, steps = pipe.micro.count, work.amount.minibatches
    adapters = 0.0 if rank is None else _adapters(work, strategy, place, calibration) * (3 + again)
    computing = (1 + backward) * pipe.computing + adapters
    messages = (2 + again) * pipe.messages + 2 * pipe.send
    parts = {
        "layers": steps * count * computing,
        "recomputation": steps * count * again * pipe.computing,
        "head": steps * head_passes * count * pipe.head,
        "communication": steps * count * messages,
        "bubble": steps * (pipe.stages - 1) * (computing + again * pipe.computing + messages),
        "fixed": steps * calibration.minibatch_seconds,
    }
    hiding = backward * pipe.computing
    for name, seconds in _update(work, strategy, place, calibration, (count, hiding)).items():
        parts[name] = steps * seconds
    return parts, read.bases


def _update(
    work: CallWork, strategy: Strategy, place: Place, calibration: Calibration, behind: tuple[int, float]
) -> dict[str, float]:
    """Gradients and optimizer of one mini-batch; `behind`: micro-batches, and seconds of one's backward pass."""
    held = split(work.shape, strategy)
    if work.lora_rank is not None:
        each = adapter_parameters(work.shape, work.lora_rank) / (strategy.tp * strategy.pp)
        held = Split(each, 0.0, strategy.dp, held.expert_copies, held.layers)
    count, backward = behind
    own = held.parameters if strategy.shard == "none" else held.shared
    memory = place.gpu.memory_bytes_per_second * calibration.memory_share
    parts = {"optimizer": calibration.optimizer_bytes * own / memory}
    if strategy.shard == "full" and strategy.dp > 1:
        gathering = _gather(work, strategy, place, calibration)
        parts["gathering"] = count * 2 * _visible(gathering, calibration.gather_overlap, backward / 2)
        scattering = gathering if work.lora_rank is None else 0.0
        parts["gradients"] = count * _visible(scattering, calibration.gradient_overlap, backward)
    else:
        parts["gradients"] = _visible(
            _reduction(held, work, strategy, place, calibration), calibration.gradient_overlap, backward
        )
    return parts


def _reduction(held: Split, work: CallWork, strategy: Strategy, place: Place, calibration: Calibration) -> float:
    """Summing gradients over the ranks that hold the same parameters."""
    number, link = numbers(work.workload.dtype).gradients, _between_replicas(strategy, place, calibration)
    return sum(wire(link, copies, calibration).all_reduce(number * count) for copies, count in held.copies)


def _gather(work: CallWork, strategy: Strategy, place: Place, calibration: Calibration) -> float:
    """Gathering the parameters of one stage once, layer by layer."""
    held, number = split(work.shape, strategy), numbers(work.workload.dtype).weights
    link = _between_replicas(strategy, place, calibration)
    time = 0.0
    for copies, parameters in held.copies:
        if copies > 1:
            over = wire(link, copies, calibration)
            time += over.all_gather(number * parameters) + (held.layers - 1) * over.collective
    return time


def _between_replicas(strategy: Strategy, place: Place, calibration: Calibration) -> Link:
    adapters = max(1, place.gpus_per_node // strategy.tp) if calibration.pooled_adapters else 1
    return place.link(strategy.tp * strategy.dp, adapters)


def _visible(seconds: float, overlap: float, behind: float) -> float:
    """What does not hide behind other work."""
    return seconds - min(overlap * seconds, behind)


def _pipe(work: CallWork, strategy: Strategy, place: Place, calibration: Calibration) -> Pipe:
    shape, batch = work.shape, micro(work, strategy)
    one: Layer = layer(work, strategy, place, calibration)
    n, layers = batch.tokens, -(-shape.layers // strategy.pp)
    computing = one.seconds(n, one.whole(n, work.amount.length_context))
    if not calibration.graph_train:
        computing = max(computing, calibration.layer_kernels * calibration.launch_seconds)
    head = 0.0
    if shape.vocabulary_head:
        head = one.on.product(n, Product(shape.width, shape.vocabulary / strategy.tp)) + calibration.kernel_seconds
    send: Wire = wire(place.link(place.gpus), strategy.pp, calibration)
    return Pipe(
        micro=batch,
        stages=strategy.pp,
        layers=layers,
        computing=layers * computing,
        messages=layers * one.messages(n),
        send=send.send(one.on.number * n * shape.width / strategy.tp),
        head=head,
    )


def _adapters(work: CallWork, strategy: Strategy, place: Place, calibration: Calibration) -> float:
    """Seconds of one pass through a stage's adapters: two narrow products beside each matrix that has one."""
    one, rank = layer(work, strategy, place, calibration), work.lora_rank
    assert rank is not None
    n = micro(work, strategy).tokens
    matrices = (*one.attention, *(one.dense if work.shape.experts is None else one.dense_layers))
    narrow = [product for k, m in matrices for product in (Product(k, rank), Product(rank, m))]
    time = one.on.products(n, tuple(narrow)) + len(narrow) * calibration.kernel_seconds
    return -(-work.shape.layers // strategy.pp) * time
