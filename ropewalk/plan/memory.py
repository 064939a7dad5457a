"""What a plan holds in memory: parameters, gradients, optimiser, KV, activations, logits. One bill, per rank.

    peak of a rank = Σ of what is held all the time + the largest of what a single call needs while it runs

States and KV are exact counts. Activations are a rough model of a Llama-like layer (±30 %), and the allocator's
own loss is not in the bill: hence the share of memory that `fits` leaves free.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ropewalk.plan.execution import CallPlan, ExecutionPlan
from ropewalk.plan.graph import Call, CallGraph
from ropewalk.plan.layout import Layout
from ropewalk.plan.shape import ModelShape
from ropewalk.records.errors import InputError

GB = 1e9
USABLE = 0.92
"""Share of a device's memory that a plan may fill."""

CHUNK_LOGITS = 2**25
"""Logits that exist at once in a forward or train call: log-probs are computed by chunks of tokens."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Bytes of one number of each sort. `weights + gradients + optimizer` = 16 per trained parameter in all presets."""

    weights: int
    gradients: int
    optimizer: int
    """Two Adam moments, and the fp32 master copy where the weights are narrower."""
    activations: int
    kv: int


MIXED = Numbers(weights=2, gradients=2, optimizer=12, activations=2, kv=2)
"""bf16 weights and gradients, fp32 master and moments."""
FP32 = Numbers(weights=4, gradients=4, optimizer=8, activations=4, kv=4)
AUTOCAST = Numbers(weights=4, gradients=4, optimizer=8, activations=2, kv=4)
"""fp32 weights, bf16 arithmetic in training."""


@dataclass(frozen=True, slots=True)
class Workload:
    """How much is in flight at once."""

    slots: int
    """Sequences that one dp shard generates at the same time."""
    sequence_tokens: int
    """Longest sequence, prompt and completion."""


@dataclass(frozen=True, slots=True)
class Item:
    """One line of the bill, on one rank."""

    rank: int
    role: str
    what: str
    bytes: int
    call: str | None = None
    """The call that needs it while it runs; None for what is held all the time."""


@dataclass(frozen=True, slots=True)
class Bill:
    """All lines of all ranks."""

    items: tuple[Item, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted({item.rank for item in self.items}))

    def held_bytes(self, rank: int) -> int:
        return sum(item.bytes for item in self.items if item.rank == rank and item.call is None)

    def call_bytes(self, rank: int) -> dict[str, int]:
        """By call, what it needs beside what is held."""
        found: dict[str, int] = {}
        for item in self.items:
            if item.rank == rank and item.call is not None:
                found[item.call] = found.get(item.call, 0) + item.bytes
        return found

    def rank_bytes(self, rank: int) -> int:
        return self.held_bytes(rank) + max(self.call_bytes(rank).values(), default=0)

    def role_bytes(self) -> dict[str, int]:
        """By role, what it holds all the time, over all ranks."""
        found = {item.role: 0 for item in self.items}
        for item in self.items:
            found[item.role] += item.bytes if item.call is None else 0
        return found

    @property
    def peak_bytes(self) -> int:
        """The fullest rank."""
        return max((self.rank_bytes(rank) for rank in self.ranks), default=0)

    def lines(self) -> list[str]:
        """The fullest rank's bill, as text."""
        if not self.items:
            return []
        rank = max(self.ranks, key=self.rank_bytes)
        lines = [f"rank {rank}: {show(self.rank_bytes(rank))}"]
        for item in self.items:
            if item.rank == rank:
                when = f" during {item.call}" if item.call else ""
                lines.append(f"  {item.role} {item.what}{when}: {show(item.bytes)}")
        return lines


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a bill fits, and the sentence to print."""

    ok: bool
    sentence: str


def state_bytes(parameters: int, *, trained: bool, numbers: Numbers) -> int:
    """Weights, and for a trained model gradients and optimiser too: 16 bytes per trained parameter."""
    each = numbers.weights + (numbers.gradients + numbers.optimizer if trained else 0)
    return parameters * each


def states(graph: CallGraph, parameters: Mapping[str, int], numbers: Numbers) -> dict[str, int]:
    """By role, the bytes of its states on one device. Four 7B models under PPO in mixed precision: 252 GB."""
    trained = {call.role for call in graph.of_kind("train")}
    return {role: state_bytes(parameters[role], trained=role in trained, numbers=numbers) for role in graph.roles}


def kv_bytes(shape: ModelShape, tokens: int, numbers: Numbers) -> int:
    """Keys and values of `tokens` positions in every layer."""
    return shape.layers * shape.kv_numbers * tokens * numbers.kv


def activation_bytes(shape: ModelShape, tokens: int, numbers: Numbers, *, recompute: bool) -> int:
    """What the backward pass keeps of one micro-batch, roughly.

    Per token and layer about 6 widths (norms and residuals), queries and attention output, keys and values, and the
    feed-forward part's three or four inner vectors. With recomputation one width per layer, and one layer in full.
    """
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    inner = (4 if shape.traits.gated else 2) * shape.active_ffn
    layer = 6 * shape.width + 2 * queries + 2 * keys + inner
    per_token = shape.layers * shape.width + layer if recompute else shape.layers * layer
    return tokens * per_token * numbers.activations


def logits_bytes(shape: ModelShape, tokens: int, numbers: Numbers) -> int:
    """Logits of one chunk of the tokens, their float32 form and its gradient; 0 without a vocabulary head."""
    if not shape.vocabulary_head:
        return 0
    return min(tokens * shape.vocabulary, CHUNK_LOGITS) * (numbers.activations + 4 + 4)


def memory_bill(
    graph: CallGraph,
    shapes: Mapping[str, ModelShape],
    plan: ExecutionPlan,
    *,
    workload: Workload,
    numbers: Numbers = MIXED,
) -> Bill:
    """The bill of a plan. A trained role's states lie where it trains; a call of that role on another layout gets a
    copy of the weights while it runs, a call on the same layout uses them in place."""
    items: list[Item] = []
    for role in graph.roles:
        if role not in shapes:
            raise InputError(f"the bill needs the shape of role {role!r}: give one for each of {list(graph.roles)}")
        calls = [call for call in graph.calls if call.role == role]
        home = next((call for call in calls if call.kind == "train"), calls[0])
        at_home = plan.calls[home.name]
        items += _held(role, shapes[role], at_home, trained=home.kind == "train", numbers=numbers)
        for call in calls:
            needs = _needs(call, shapes[role], plan.calls[call.name], workload, numbers)
            if plan.calls[call.name].layout != at_home.layout or (at_home.offload and home.kind != "train"):
                needs["weights copy"] = _split(
                    shapes[role].parameters * numbers.weights, plan.calls[call.name].layout, full=False
                )
            for rank in plan.calls[call.name].layout.ranks:
                items += [Item(rank, role, what, size, call.name) for what, size in needs.items() if size]
    return Bill(tuple(items))


def fits(bill: Bill, available_bytes: float, *, usable: float = USABLE) -> Fit:
    """Compare the fullest rank with a device's memory, of which a share stays free."""
    limit = usable * available_bytes
    need = f"needs {show(bill.peak_bytes)} on its fullest rank, of {show(limit)} usable ({show(available_bytes)})"
    if bill.peak_bytes <= limit:
        return Fit(True, f"this plan {need}: it fits")
    return Fit(False, f"this plan {need}: {_mend(bill)}")


def show(size: float) -> str:
    """Bytes in the largest unit that keeps a leading digit."""
    for unit, scale in (("GB", GB), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}" if size < 1000 * scale else f"{size / scale:.0f} {unit}"
    return f"{size:.0f} bytes"


_Needs: TypeAlias = dict[str, int]


def _held(role: str, shape: ModelShape, at: CallPlan, *, trained: bool, numbers: Numbers) -> list[Item]:
    layout, count = at.layout, shape.parameters
    if at.offload and not trained:
        return []
    full, spread = layout.shard == "full", layout.shard != "none"
    held = {"weights": _split(count * numbers.weights, layout, full=full)}
    if trained:
        held["gradients"] = _split(count * numbers.gradients, layout, full=full)
        held["optimizer"] = _split(count * numbers.optimizer, layout, full=spread)
    return [Item(rank, role, what, size) for rank in layout.ranks for what, size in held.items()]


def _needs(call: Call, shape: ModelShape, at: CallPlan, workload: Workload, numbers: Numbers) -> _Needs:
    layout, tokens = at.layout, at.micro_batch_tokens
    if call.kind == "copy":
        return {}
    if call.kind == "generate":
        cache = kv_bytes(shape, workload.slots * workload.sequence_tokens, numbers)
        return {
            "KV cache": -(-cache // (min(layout.tp, shape.kv_shards) * layout.pp)),
            "logits": workload.slots * -(-shape.vocabulary // layout.tp) * 4,
        }
    chunk = logits_bytes(shape, tokens, numbers)
    if call.kind == "train":
        kept = activation_bytes(shape, tokens, numbers, recompute=at.recompute)
    else:
        kept = activation_bytes(shape, tokens, numbers, recompute=False) // shape.layers
    return {"activations": -(-kept // layout.tp), "logits": -(-chunk // layout.tp)}


def _split(size: int, layout: Layout, *, full: bool) -> int:
    return -(-size // (layout.tp * layout.pp * (layout.dp if full else 1)))


def _mend(bill: Bill) -> str:
    rank = max(bill.ranks, key=bill.rank_bytes)
    largest = max((item for item in bill.items if item.rank == rank), key=lambda item: item.bytes)
    mends = {
        "activations": "lower the micro-batch's token budget or switch recomputation on",
        "logits": "lower the micro-batch's token budget",
        "KV cache": "lower the engine's slots or the completion length",
    }
    mend = mends.get(largest.what, "take a smaller model, more devices, or fewer models in the recipe")
    return f"the largest part is {largest.role} {largest.what} with {show(largest.bytes)}: {mend}"
