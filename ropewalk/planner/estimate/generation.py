"""What generating takes: one prefill, then one decoding step after another.

    prefill = (g + pp - 1) x stage(prompt tokens of a group)        g = min(pp, sequences) groups in flight
    step    = max( g (stage + head + sampler), pp stage + head + sampler + host )
    stage   = layers / pp x (layer + messages) + send               of the sequences of one group
    head    = product(n, h, V / tp) + all-gather(4 n V, tp)
    sampler = passes 4 n V / (share BW) + fixed                     on every tp rank: not divided by tp
    time    = prefill + Σ steps over the stretches of `alive`, each at its mean context

Host work of a step hides behind other groups where several are in flight. Without a captured graph a layer takes at
least its kernels' launches. With w waves the engine's slots hold 1/w of a replica's sequences at a time.
"""

from dataclasses import dataclass
from typing import NamedTuple

from ropewalk.planner.estimate.alive import stretches
from ropewalk.planner.estimate.calibration import Calibration
from ropewalk.planner.estimate.layer import Layer, layer
from ropewalk.planner.estimate.place import Place
from ropewalk.planner.estimate.readings import NOTHING, Grids, Readings
from ropewalk.planner.estimate.roofline import Product, Wire, wire
from ropewalk.planner.estimate.work import CallWork, Strategy


class Step(NamedTuple):
    """Seconds of one decoding step, by what they go into."""

    decode: float
    communication: float
    sampler: float
    host: float
    bubble: float


@dataclass(frozen=True, slots=True)
class Slots:
    """How one replica's sequences are served."""

    sequences: int
    """At a time."""
    waves: float


def slots(work: CallWork, strategy: Strategy) -> Slots:
    """Of the fullest replica; `micro_batches` is the number of waves."""
    share = -(-work.amount.sequences // strategy.dp)
    running = -(-share // max(1, min(strategy.micro_batches, share)))
    return Slots(running, share / running)


def generation(
    work: CallWork, strategy: Strategy, place: Place, calibration: Calibration, grids: Grids = NOTHING
) -> tuple[dict[str, float], set[str]]:
    """Seconds by part, and what they rest on. A measured step holds sampler and host, a measured prefill messages."""
    engine = engine_of(work, strategy, place, calibration)
    served, read = slots(work, strategy), Readings(grids)
    parts = _prefill(engine, work, served, read)
    decode = communication = sampler = host = bubble = 0.0
    lengths = work.workload.generated_tokens
    for stretch in stretches(lengths, strategy.dp, served.sequences, served.waves):
        step = engine.step(stretch.sequences, work.amount.prompt + stretch.generated, read)
        decode += stretch.steps * step.decode
        communication += stretch.steps * step.communication
        sampler += stretch.steps * step.sampler
        host += stretch.steps * step.host
        bubble += stretch.steps * step.bubble
    parts["decode"] = decode
    parts["sampler"] = sampler
    parts["host"] = host
    parts["communication"] += communication
    parts["bubble"] += bubble
    return parts, read.bases


@dataclass(frozen=True, slots=True)
class Engine:
    """One replica that decodes."""

    layer: Layer
    layers: int
    """Of one stage."""
    pp: int
    head: Product
    vocabulary: int
    send: Wire
    calibration: Calibration
    launch_floor: float
    """Least seconds of a layer in a decoding step."""

    def step(self, sequences: float, context: float, read: Readings) -> Step:
        """One token of each of `sequences`, at that mean context."""
        groups = max(1.0, min(self.pp, sequences))
        n, calibration = sequences / groups, self.calibration
        whole = read.seconds("generate", n, context)
        if whole is not None:
            idle = (self.pp - groups) * (whole / self.pp + self.sent(n))
            return Step(groups / self.pp * whole, groups * self.sent(n), 0.0, 0.0, idle)
        computing = self.layers * max(self.layer.seconds(n, self.layer.cached(n, context)), self.launch_floor)
        messages = self.layers * self.layer.messages(n) + self.sent(n)
        head = self.layer.on.product(n, self.head) + calibration.kernel_seconds
        logits = 4 * n * self.vocabulary
        gather = self.layer.wire.all_gather(logits)
        sampler = calibration.sampler_passes * logits / self.layer.on.memory + calibration.sampler_seconds
        last = head + gather + sampler
        stage = computing + messages
        busy = groups * (stage + last)
        idle = max(0.0, self.pp * stage + last + calibration.step_host_seconds - busy)
        host = min(idle, calibration.step_host_seconds)
        return Step(groups * (computing + head), groups * (messages + gather), groups * sampler, host, idle - host)

    def sent(self, tokens: float) -> float:
        """To the next stage; every tp rank sends it all, for the next one's to have."""
        return self.send.send(self.layer.on.number * tokens * self.layer.width)


def engine_of(work: CallWork, strategy: Strategy, place: Place, calibration: Calibration) -> Engine:
    """One replica of a call."""
    shape = work.shape
    floor = 0.0 if calibration.graph_decode else calibration.layer_kernels * calibration.launch_seconds
    return Engine(
        layer=layer(work, strategy, place, calibration),
        layers=-(-shape.layers // strategy.pp),
        pp=strategy.pp,
        head=Product(shape.width, shape.vocabulary / strategy.tp),
        vocabulary=shape.vocabulary,
        send=wire(place.link(place.gpus), strategy.pp, calibration),
        calibration=calibration,
        launch_floor=floor,
    )


def _prefill(engine: Engine, work: CallWork, served: Slots, read: Readings) -> dict[str, float]:
    amount, calibration = work.amount, engine.calibration
    groups = min(engine.pp, served.sequences)
    tokens = served.sequences / groups * amount.prompt
    if calibration.shared_prompts:
        tokens /= min(work.workload.group_size, served.sequences)
    whole = read.seconds("forward", tokens, amount.prompt)
    if whole is not None:
        stage, sent = whole / engine.pp, engine.sent(tokens)
        return {
            "prefill": served.waves * groups * stage,
            "communication": served.waves * groups * sent,
            "bubble": served.waves * (engine.pp - 1) * (stage + sent),
        }
    floor = 0.0 if calibration.graph_train else calibration.layer_kernels * calibration.launch_seconds
    one = engine.layer.seconds(tokens, engine.layer.whole(tokens, amount.prompt_context)) if tokens else 0.0
    computing = engine.layers * max(one, floor)
    messages = engine.layers * engine.layer.messages(tokens) + engine.sent(tokens)
    return {
        "prefill": served.waves * groups * computing,
        "communication": served.waves * groups * messages,
        "bubble": served.waves * (engine.pp - 1) * (computing + messages),
    }
