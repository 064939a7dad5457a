"""FLOPs per parameter and token, counted over a call graph: every call costs what its kind costs, and no factor is
recited.

    generate, forward   2         one multiply and one add per parameter
    train               6 e       forward 2, backward 4 (gradients of inputs and of weights), e passes over the batch
    train, adapters     4 e       no gradients of the frozen weights
    copy                0

Counted are *active* parameters. Attention's own products (4 x layers x queries x context / 2 per token) are left out,
as in the usual 6 N D; `attention_share` says how much that leaves out.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ropewalk.plan.graph import Call, CallGraph
from ropewalk.plan.shape import ModelShape
from ropewalk.records.errors import InputError

FORWARD = 2
BACKWARD_INPUTS = 2
BACKWARD_WEIGHTS = 2
TRAIN = FORWARD + BACKWARD_INPUTS + BACKWARD_WEIGHTS

Part: TypeAlias = Literal["rollout", "scoring", "update"]
PARTS: tuple[Part, ...] = ("rollout", "scoring", "update")


@dataclass(frozen=True, slots=True)
class CallFlops:
    """What one call of an iteration costs."""

    name: str
    role: str
    part: Part
    per_parameter: float
    """FLOPs per active parameter of its role and token."""


def call_flops(graph: CallGraph, *, update_epochs: int = 1, adapted: Collection[str] = ()) -> tuple[CallFlops, ...]:
    """Every call of the graph that computes. `adapted` names the trained roles of which only adapters train."""
    if update_epochs < 1:
        raise InputError(f"a batch is trained on at least once, got {update_epochs} update epochs")
    return tuple(_of(call, update_epochs, call.role in adapted) for call in graph.calls if call.kind != "copy")


def per_token(calls: Collection[CallFlops], parameters: Mapping[str, float]) -> dict[Part, float]:
    """FLOPs per token by part, for roles of these active parameters."""
    found: dict[Part, float] = dict.fromkeys(PARTS, 0.0)
    for call in calls:
        found[call.part] += call.per_parameter * parameters[call.role]
    return found


def relative_cost(graph: CallGraph, *, update_epochs: int = 1, adapted: Collection[str] = ()) -> float:
    """k: a token's cost in training passes of one model, all roles being of one size. SFT 1, GRPO 10/6, PPO
    (8 + 12 e)/6."""
    return sum(call.per_parameter for call in call_flops(graph, update_epochs=update_epochs, adapted=adapted)) / TRAIN


def attention_share(shape: ModelShape, tokens: float) -> float:
    """Attention's own products in a sequence of `tokens`, relative to 2 FLOPs per active parameter and token."""
    queries = shape.heads * shape.head_dim
    return 4 * shape.layers * queries * (tokens / 2) / (FORWARD * shape.active_parameters)


def _of(call: Call, update_epochs: int, adapted: bool) -> CallFlops:
    if call.kind == "train":
        each = TRAIN - BACKWARD_WEIGHTS if adapted else TRAIN
        return CallFlops(call.name, call.role, "update", each * update_epochs)
    return CallFlops(call.name, call.role, "rollout" if call.kind == "generate" else "scoring", FORWARD)
