"""What is to be priced, from a method's name and an amount of data: pretraining and inference beside the methods."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from ropewalk.plan.graph import CallGraph
from ropewalk.plan.shape import ModelShape
from ropewalk.planner.case.graphs import GENERATE, METHODS, assign_shapes, method_graph, split_name, trained_roles
from ropewalk.planner.price.job_price import Job
from ropewalk.records.errors import InputError

PRETRAINING, INFERENCE = "pretraining", "inference"
KINDS: tuple[str, ...] = (PRETRAINING, *METHODS, INFERENCE)
MOST = 1e18
SUFFIXES: Mapping[str, float] = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}


@dataclass(frozen=True, slots=True)
class Amount:
    """How much data: tokens in all, or rows as prompts x samples. Of a pair both halves are rows."""

    tokens: float | None = None
    """Of one pass, prompts included; instead of `prompts`."""
    prompts: float | None = None
    """Prompts, pairs or documents of one pass."""
    samples: int | None = None
    """Rows of a prompt; the method's own number by default."""
    row_tokens: float = 1024
    """Prompt and answer."""
    prompt_tokens: float = 128
    passes: int = 1
    update_epochs: int = 1
    """Passes of the optimiser over each generated batch."""


def job(kind: str, models: Mapping[str, str | ModelShape], amount: Amount, *, lora_rank: int | None = None) -> Job:
    """A job of a kind (a method with its options, `pretraining` or `inference`). Trained roles get adapters of
    `lora_rank` where that is given."""
    graph, samples = _graph(kind)
    if any(call.unit == "pair" for call in graph.calls) and amount.samples not in (None, 2):
        raise InputError(f"{kind} trains on pairs, and a pair has 2 rows, not {amount.samples}: leave the samples out")
    rows = _rows(amount, samples if amount.samples is None else amount.samples)
    if amount.samples is not None and amount.samples < 1:
        raise InputError(
            f"a prompt has at least 1 sample, got {amount.samples}: leave the samples out, or say how many"
        )
    trained = trained_roles(graph)
    if lora_rank is not None and not trained:
        raise InputError(f"{kind} trains nothing, so it has no adapters: leave the rank out")
    generates = bool(graph.of_kind("generate"))
    if amount.update_epochs > 1 and not generates:
        raise InputError(f"{kind} generates no batches to pass over again: say how many passes over the data instead")
    return Job(
        graph=graph,
        shapes=assign_shapes(graph, models),
        rows=rows,
        row_tokens=amount.row_tokens,
        generated_tokens=_generated(amount) if generates else 0.0,
        passes=amount.passes,
        update_epochs=amount.update_epochs,
        lora_rank=None if lora_rank is None else dict.fromkeys(sorted(trained), lora_rank),
    )


def trunk(kind: str) -> str:
    """The role that `--model` means: the one that is trained first, or generates."""
    graph, _ = _graph(kind)
    return "actor" if "actor" in graph.roles else graph.roles[0]


def number(text: str, what: str) -> float:
    """A count such as 14.8T, 100k or 2e9."""
    raw = text.strip().replace(",", "").replace("_", "").lower()
    scale = SUFFIXES.get(raw[-1:], 1.0)
    try:
        value = float(raw[:-1] if raw[-1:] in SUFFIXES else raw) * scale
    except ValueError:
        raise InputError(f"{what} is a number such as 100k, 2e9 or 14.8T, got {text!r}") from None
    if not 0 < value < float("inf"):
        raise InputError(f"{what} must be above 0, got {text}: say how many")
    return value


def count(text: str, what: str) -> float:
    """A number of things: at least one of them."""
    value = number(text, what)
    if not 1 <= value <= MOST:
        raise InputError(f"{what} counts things, so it lies between 1 and {MOST:g}, got {text}: say how many")
    return value


def _graph(kind: str) -> tuple[CallGraph, int]:
    """The calls of a kind, and the rows of a prompt."""
    name = kind.strip().lower().replace("_", "-")
    if name == PRETRAINING:
        return method_graph("sft"), 1
    if name == INFERENCE:
        return CallGraph((GENERATE,), given=("prompts",)), 1
    if name.partition("+")[0] not in METHODS:
        near = get_close_matches(name.partition("+")[0], KINDS, n=1, cutoff=0.0)[0]
        raise InputError(f"nothing called {kind!r} can be priced: did you mean {near!r}? (known: {', '.join(KINDS)})")
    return method_graph(name), split_name(name)[0].group_size


def _rows(amount: Amount, samples: int) -> float:
    if (amount.tokens is None) == (amount.prompts is None):
        raise InputError("a price needs the amount of data: give either tokens or prompts")
    if amount.tokens is not None:
        return amount.tokens / amount.row_tokens
    return (amount.prompts or 0.0) * samples


def _generated(amount: Amount) -> float:
    if amount.prompt_tokens >= amount.row_tokens:
        raise InputError(
            f"a prompt of {amount.prompt_tokens:g} tokens leaves nothing to generate of {amount.row_tokens:g}: "
            f"a row is prompt and answer together"
        )
    return amount.row_tokens - amount.prompt_tokens
