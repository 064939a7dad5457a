"""What one call holds on each of its GPUs: all the time (static), and while it runs (active). Bytes by item.

    train      static  weights and gradients (2 + 2) P / (tp pp), optimizer 12 P / (tp pp dp)       shard="optimizer"
                       none: all 16 P / (tp pp); full: all 16 P / (tp pp dp)
               active  activations 2 n h L/pp min(m, pp) / tp + 40 n h / tp; logits 10 n V / tp
    generate   active  weights copy 2 P / (tp pp); KV of the running sequences / (min(tp, kv heads) pp); logits 4 n V
    forward    frozen  static weights 2 P / (tp pp) at home (with offload: active); of a trained role: active copy
               active  activations 20 n h / tp; logits 6 bytes of a chunk / tp

n tokens of a micro-batch, of which one may hold the longest sequence; bytes are those of bf16.
Fits: on every GPU, Σ static + the largest active <= usable memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ropewalk.plan.memory import Numbers, activation_bytes
from ropewalk.planner.estimate.alive import stretches
from ropewalk.planner.estimate.calibration import Calibration
from ropewalk.planner.estimate.generation import slots
from ropewalk.planner.estimate.passes import Micro, micro
from ropewalk.planner.estimate.roofline import numbers
from ropewalk.planner.estimate.split import split
from ropewalk.planner.estimate.work import CallWork, Strategy
from ropewalk.planner.price.held import adapter_parameters


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes per GPU by item: the fullest GPU of the mesh."""

    static: Mapping[str, float]
    active: Mapping[str, float]
    static_bytes: float = field(init=False)
    active_bytes: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "static_bytes", sum(self.static.values()))
        object.__setattr__(self, "active_bytes", sum(self.active.values()))


def footprint(work: CallWork, strategy: Strategy, calibration: Calibration) -> Footprint:
    number = numbers(work.workload.dtype)
    if work.kind == "train":
        static, active = _train_states(work, strategy, number)
        active |= _train_activations(work, strategy, calibration, number)
    else:
        static, active = _weights(work, strategy, number)
        if work.kind == "generate":
            active |= _cache(work, strategy, number)
        elif work.kind == "forward":
            active |= _forward_activations(work, strategy, calibration, number)
    if calibration.workspace_bytes:
        active["workspace"] = calibration.workspace_bytes
    return Footprint(static, active)


def _weights(work: CallWork, strategy: Strategy, number: Numbers) -> tuple[dict[str, float], dict[str, float]]:
    """Of a call that trains nothing. A trained role's lie where it trains: here is a copy while the call runs."""
    held = split(work.shape, strategy)
    if work.trained or not work.home:
        return {}, {"weights copy": held.parameters * number.weights}
    shared = work.kind == "forward" and strategy.shard == "full"
    size = (held.shared if shared else held.parameters) * number.weights
    active = {"gathered layers": 2 * held.parameters / held.layers * number.weights} if shared else {}
    if strategy.offload:
        return {}, {"weights copy": size} | active
    return {"parameters": size}, active


def _train_states(work: CallWork, strategy: Strategy, number: Numbers) -> tuple[dict[str, float], dict[str, float]]:
    held, full = split(work.shape, strategy), strategy.shard == "full"
    lie = held.shared if full else held.parameters
    learn, own = lie, held.parameters if strategy.shard == "none" else held.shared
    static = {"parameters": lie * number.weights}
    if work.lora_rank is not None:
        adapters = adapter_parameters(work.shape, work.lora_rank) / (strategy.tp * strategy.pp)
        learn = adapters / strategy.dp if full else adapters
        own = adapters if strategy.shard == "none" else adapters / strategy.dp
        static["parameters"] += learn * number.weights
    static["gradients"] = learn * number.gradients
    active = {"gathered layers": 2 * held.parameters / held.layers * number.weights} if full else {}
    if strategy.offload:
        active["optimizer"] = own * number.optimizer
    else:
        static["optimizer"] = own * number.optimizer
    return static, active


def _train_activations(
    work: CallWork, strategy: Strategy, calibration: Calibration, number: Numbers
) -> dict[str, float]:
    shape, batch = work.shape, micro(work, strategy)
    n, flying = _most_tokens(work, batch), min(batch.count, strategy.pp)
    held = n + (flying - 1) * batch.tokens
    layers = -(-shape.layers // strategy.pp)
    if strategy.recompute:
        kept = number.activations * held * shape.width * layers + 20 * number.activations * n * shape.width
    else:
        kept = activation_bytes(shape, 1, number, recompute=False) * held * layers / shape.layers
    logits = min(n * shape.vocabulary / strategy.tp, calibration.train_chunk_logits) * (number.activations + 8)
    return {"activations": kept / strategy.tp} | ({"logits": logits} if shape.vocabulary_head else {})


def _forward_activations(
    work: CallWork, strategy: Strategy, calibration: Calibration, number: Numbers
) -> dict[str, float]:
    shape, n = work.shape, _most_tokens(work, micro(work, strategy))
    logits = min(n * shape.vocabulary, calibration.chunk_logits) * (number.activations + 4) / strategy.tp
    kept = 10 * number.activations * n * shape.width / strategy.tp
    return {"activations": kept} | ({"logits": logits} if shape.vocabulary_head else {})


def _most_tokens(work: CallWork, batch: Micro) -> float:
    """Of the micro-batch with the longest sequence: it cannot be smaller than the unit that this one is in."""
    return max(batch.tokens, work.amount.unit * work.workload.longest)


def _cache(work: CallWork, strategy: Strategy, number: Numbers) -> dict[str, float]:
    """Keys and values of a paged cache: the most that the running sequences hold at any time."""
    shape, served = work.shape, slots(work, strategy)
    layers = -(-shape.layers // strategy.pp)
    each = shape.kv_numbers * number.kv * layers / min(strategy.tp, shape.kv_shards)
    lengths, prompt = work.workload.generated_tokens, work.amount.prompt
    running = stretches(lengths, strategy.dp, served.sequences, served.waves)
    tokens = max([stretch.sequences * (prompt + stretch.until) for stretch in running], default=0.0)
    tokens = max(tokens, served.sequences * prompt)
    groups = min(strategy.pp, served.sequences)
    return {"KV": tokens * each, "logits": 4 * served.sequences / groups * shape.vocabulary}
