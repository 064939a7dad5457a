"""Execution plans: for every call, where it runs and how it is cut. A JSON file one can read, diff and edit."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from typing import Any, get_args

from ropewalk.plan.graph import CallGraph
from ropewalk.plan.layout import Layout, Shard
from ropewalk.records.errors import InputError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class CallPlan:
    """How one call runs."""

    layout: Layout
    micro_batch_tokens: int = 16_384
    """Token budget of a micro-batch on one dp shard; a unit above it runs alone. Of a generation: of all sequences that
    are being generated at once."""
    offload: bool = False
    """What the call does not need between iterations waits in the host's memory."""
    recompute: bool = False
    """Activation checkpointing in a train call."""


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """A plan for every call of a graph, and the order they are dispatched in."""

    calls: Mapping[str, CallPlan]
    order: tuple[str, ...]
    """Calls of one round. Moves of parameters are not in it: each is made as soon as its source has trained."""
    late: tuple[str, ...] = ()
    """Calls of the order that belong to the iteration before: they run beside the next generation."""
    estimate_seconds: float | None = None
    bound_seconds: float | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """One line a call and a few more, so that two files can be read side by side."""
        calls = ",\n".join(f"    {json.dumps(name)}: {json.dumps(asdict(call))}" for name, call in self.calls.items())
        others = {
            "order": list(self.order),
            "late": list(self.late),
            "estimate_seconds": self.estimate_seconds,
            "bound_seconds": self.bound_seconds,
            "provenance": dict(self.provenance),
        }
        rest = json.dumps(others, indent=2, ensure_ascii=False)[2:]
        return f'{{\n  "format": {FORMAT},\n  "calls": {{\n{calls}\n  }},\n{rest}\n'

    @staticmethod
    def from_json(text: str) -> "ExecutionPlan":
        """Raises InputError: what is wrong with the file, by the name of the call."""
        try:
            raw = json.loads(text)
        except ValueError as error:
            raise InputError(f"this plan file is not JSON ({error}): mend it, or plan again") from None
        if not isinstance(raw, dict) or raw.pop("format", None) != FORMAT:
            raise InputError(f"this plan file is not of format {FORMAT}: plan again with this version")
        listed = raw.pop("calls", None)
        if not isinstance(listed, dict) or not listed:
            raise InputError("this plan file places no call: give it a table `calls`, or plan again")
        calls = {name: _call(name, call) for name, call in listed.items()}
        order = _names("order", raw.pop("order", list(calls)))
        late = _names("late", raw.pop("late", []))
        provenance = _texts(raw.pop("provenance", {}))
        times = {name: _seconds(name, raw.pop(name, None)) for name in ("estimate_seconds", "bound_seconds")}
        _nothing_else("this plan file", raw, [field.name for field in fields(ExecutionPlan)])
        return ExecutionPlan(calls=calls, order=order, late=late, provenance=provenance, **times)


def _call(name: str, raw: Any) -> CallPlan:
    what = f"call {name!r} of this plan file"
    if not isinstance(raw, dict) or not isinstance(raw.get("layout"), dict):
        raise InputError(f'{what} has no layout: give it {{"layout": {{"ranks": [...], "dp": 1, "tp": 1, "pp": 1}}}}')
    rest, layout = {key: value for key, value in raw.items() if key != "layout"}, dict(raw["layout"])
    ranks = layout.pop("ranks", None)
    if not isinstance(ranks, list) or not all(_whole(rank) for rank in ranks):
        raise InputError(f"{what} has ranks {ranks!r}: give a list of whole numbers")
    _nothing_else(what, rest, ["micro_batch_tokens", "offload", "recompute"])
    _nothing_else(f"the layout of {what}", layout, ["dp", "tp", "pp", "ep", "shard"])
    for key, value in (layout | rest).items():
        if key in ("offload", "recompute") and not isinstance(value, bool):
            raise InputError(f"{what} has {key} = {value!r}: give true or false")
        if key == "shard" and value not in get_args(Shard):
            raise InputError(f"{what} has shard = {value!r}: give one of {', '.join(get_args(Shard))}")
        if key not in ("offload", "recompute", "shard") and not (_whole(value) and value >= 1):
            raise InputError(f"{what} has {key} = {value!r}: give a whole number of at least 1")
    try:
        return CallPlan(Layout(tuple(ranks), **layout), **rest)
    except InputError as error:
        raise InputError(f"{what}: {error}") from None


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _names(what: str, raw: Any) -> tuple[str, ...]:
    if not isinstance(raw, list) or not all(isinstance(name, str) for name in raw):
        raise InputError(f"this plan file has {what} = {raw!r}: give a list of names of calls")
    return tuple(raw)


def _texts(raw: Any) -> dict[str, str]:
    if not isinstance(raw, dict) or not all(isinstance(value, str) for value in raw.values()):
        raise InputError("the provenance of this plan file is a table of texts: quote what is in it, or leave it out")
    return raw


def _seconds(name: str, raw: Any) -> float | None:
    if raw is None or (isinstance(raw, int | float) and not isinstance(raw, bool) and math.isfinite(raw)):
        return raw
    raise InputError(f"this plan file has {name} = {raw!r}: give a number, or leave it out")


def _nothing_else(what: str, raw: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in raw:
        if key not in known:
            near = get_close_matches(key, known, n=1, cutoff=0.0)[0]
            raise InputError(f"{what} has a key {key!r}, which means nothing: did you mean {near!r}?")


def default_plan(graph: CallGraph, template: CallPlan) -> ExecutionPlan:
    """Every call on one layout, in the graph's own order."""
    names = tuple(call.name for call in graph.calls)
    return ExecutionPlan(dict.fromkeys(names, template), names, provenance={"planner": "default"})
