"""What one call has to do, apart from where it runs; and how its ranks may share it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ropewalk.plan.graph import CallGraph, Kind, Unit
from ropewalk.plan.shape import ModelShape
from ropewalk.plan.workload import Lengths, Workload
from ropewalk.records.errors import InputError

Shard: TypeAlias = Literal["none", "optimizer", "full"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """How the ranks of a mesh share one call, numbered tp fastest, then dp, pp slowest, as in `plan.transfer`."""

    dp: int = 1
    tp: int = 1
    pp: int = 1
    ep: int = 1
    """Ranks that share the experts; divides dp x tp."""
    micro_batches: int = 1
    """Of a forward or train call, per dp rank (and mini-batch). Of a generation: waves, that is, the engine's slots
    hold 1/micro_batches of the replica's sequences at a time."""
    offload: bool = False
    """The states that the call does not need between iterations wait in the host's memory: a frozen role's weights, a
    trained role's optimizer."""
    shard: Shard = "optimizer"
    """What the dp ranks of a train call share: nothing (each holds it all), the optimizer (ZeRO-1), or all of it."""
    recompute: bool = True
    """A train call keeps one activation per layer and computes the rest again."""

    @property
    def gpus(self) -> int:
        return self.dp * self.tp * self.pp


@dataclass(frozen=True, slots=True)
class Amount:
    """The numbers of a workload that a call's time and memory depend on, counted once."""

    sequences: int
    """Sequences of one iteration, cut into `minibatches` for a train call."""
    minibatches: int
    """Optimizer steps of an iteration: mini-batches x epochs."""
    unit: int
    """Sequences that stay together."""
    prompt: float
    """Mean tokens of a prompt."""
    generated: float
    length: float
    """Mean tokens of prompt and completion."""
    prompt_context: float
    """E[x²]/E[x] of the prompts: what a token attends to, twice over, on the average of the tokens."""
    length_context: float
    """The same of prompt and completion, lengths of the two taken as independent."""


@dataclass(frozen=True, slots=True)
class CallWork:
    """One call of the iteration: whose parameters run, how, and over how much."""

    name: str
    role: str
    kind: Kind
    shape: ModelShape
    trained: bool
    """Some call trains the role."""
    workload: Workload
    unit: Unit = "sequence"
    home: bool = True
    """The role's states live on this call's mesh: the train call of a trained role, the first call of a frozen one."""
    amount: Amount = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "amount", _amount(self.kind, self.workload, self.unit))

    @property
    def lora_rank(self) -> int | None:
        """Of the adapters this call trains; None where it trains all parameters, or none."""
        ranks = self.workload.lora_rank
        return ranks.get(self.role) if ranks and self.kind == "train" else None


def works(graph: CallGraph, shapes: Mapping[str, ModelShape], workload: Workload) -> tuple[CallWork, ...]:
    """The work of every call, in the graph's order. Raises InputError for a role without a shape."""
    missing = [role for role in graph.roles if role not in shapes]
    if missing:
        raise InputError(f"the plan needs the size of every model, and {missing} have none: give one for each role")
    trained = {call.role: call.name for call in graph.of_kind("train")}
    homes = {call.role: call.name for call in reversed(graph.calls)} | trained
    return tuple(
        CallWork(
            name=call.name,
            role=call.role,
            kind=call.kind,
            shape=shapes[call.role],
            trained=call.role in trained,
            workload=workload,
            unit=call.unit,
            home=homes[call.role] == call.name,
        )
        for call in graph.calls
    )


def _amount(kind: Kind, workload: Workload, unit: Unit) -> Amount:
    prompt, generated = workload.prompt_tokens, workload.generated_tokens
    length = prompt.mean + generated.mean
    spread = _square(prompt) - prompt.mean**2 + _square(generated) - generated.mean**2
    steps = workload.minibatches * workload.epochs if kind == "train" else 1
    sequences = math.ceil(workload.sequences / workload.minibatches) if kind == "train" else workload.sequences
    together = {"pair": 2, "group": workload.group_size}.get(unit, 1) if kind != "generate" else 1
    return Amount(
        sequences=sequences,
        minibatches=steps,
        unit=together,
        prompt=prompt.mean,
        generated=generated.mean,
        length=length,
        prompt_context=_square(prompt) / max(prompt.mean, 1e-9),
        length_context=length + spread / max(length, 1e-9),
    )


def _square(lengths: Lengths) -> float:
    total = sum(lengths.weights)
    return sum(w * t * t for t, w in zip(lengths.tokens, lengths.weights, strict=True)) / total
