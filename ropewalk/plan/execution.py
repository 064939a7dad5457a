"""Execution plans: for every call, where it runs and how it is cut. A JSON file one can read, diff and edit."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from ropewalk.plan.graph import CallGraph
from ropewalk.plan.layout import Layout
from ropewalk.records.errors import InputError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class CallPlan:
    """How one call runs."""

    layout: Layout
    micro_batch_tokens: int = 16_384
    """Token budget of a micro-batch on one dp shard; a unit above it runs alone."""
    offload: bool = False
    recompute: bool = False
    """Activation checkpointing in a train call."""


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """A plan for every call of a graph, and the order they are dispatched in."""

    calls: Mapping[str, CallPlan]
    order: tuple[str, ...]
    estimate_seconds: float | None = None
    bound_seconds: float | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=2)

    @staticmethod
    def from_json(text: str) -> "ExecutionPlan":
        raw = json.loads(text)
        if raw.pop("format", None) != FORMAT:
            raise InputError(f"this plan file is not of format {FORMAT}: plan again with this version")
        calls = {}
        for name, call in raw.pop("calls").items():
            layout = call.pop("layout")
            calls[name] = CallPlan(Layout(tuple(layout.pop("ranks")), **layout), **call)
        return ExecutionPlan(calls=calls, order=tuple(raw.pop("order")), **raw)


def default_plan(graph: CallGraph, template: CallPlan) -> ExecutionPlan:
    """Every call on one layout, in the graph's own order."""
    names = tuple(call.name for call in graph.calls)
    return ExecutionPlan(dict.fromkeys(names, template), names, provenance={"planner": "default"})
