"""The loop: one pass of the call graph an iteration, driven by the plan, whatever the method.

    gather ──▶ forward calls ──▶ credit ──▶ train calls ──▶ publish ──▶ record ──▶ save
    (rollouts    (reference,      (rewards,   (actor,         (actor to
     or rows)     reward, critic)  advantages) critic)         engine)

There is no second copy of this loop: SFT and reward models have no forward calls and nothing to publish; a replay
gathers from files. Invariant: after `save`, state and weights belong to the same finished iteration.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ropewalk.plan.execution import ExecutionPlan
from ropewalk.plan.graph import Call, CallGraph
from ropewalk.records.metric import Metric, merge
from ropewalk.records.packed import Array, PackedBatch
from ropewalk.records.prompt import Json
from ropewalk.runtime.clock import Stopwatch
from ropewalk.runtime.crew import ROW_OUTPUTS, Crew
from ropewalk.runtime.experience import Experience, Source
from ropewalk.runtime.judging.calls import JUDGED
from ropewalk.runtime.state import RunState

OUTPUT_OF = {"reference_logprobs": "logprobs", "old_logprobs": "logprobs"}
"""Which output of a network a written column holds, where it is not the first word of its name."""


def output_of(column: str) -> str:
    """The output of a network that a column holds: `token_scores/NAME/0` holds `token_scores`."""
    return OUTPUT_OF.get(column, column.partition("/")[0])


def outputs_of(call: Call) -> frozenset[str]:
    """What a forward call's network must compute."""
    return frozenset(map(output_of, call.writes))


def with_outputs(batch: PackedBatch, call: Call, outputs: Mapping[str, Array]) -> PackedBatch:
    """The batch with the columns that a forward call writes."""
    columns = {column: outputs[output_of(column)] for column in call.writes}
    rows = {column: values for column, values in columns.items() if output_of(column) in ROW_OUTPUTS}
    return batch.with_columns(tokens={c: v for c, v in columns.items() if c not in rows}, rows=rows)


@dataclass(frozen=True, slots=True)
class Credited:
    """An experience with its rewards and advantages, and what was learnt on the way."""

    experience: Experience
    metrics: Mapping[str, Metric]
    state: RunState
    records: Sequence[Mapping[str, Json]] = ()
    """Per sample: each component of its reward, raw, normalised and weighted."""


Credit = Callable[[Experience, RunState], Credited]


class Book(Protocol):
    """Writes down what happened; decides nothing but when to stop."""

    def record(self, credited: Credited, metrics: Mapping[str, Metric], watch: Stopwatch) -> RunState:
        """Write an iteration; the state with its best value brought up to date."""

    def save(self, state: RunState, *, last: bool) -> None:
        """Save a checkpoint when one is due."""

    def stop_reason(self, state: RunState) -> str | None:
        """Why the run ends now, or None."""


@dataclass(frozen=True)
class Loop:
    """Everything a run needs; `run` is the only method."""

    crew: Crew
    graph: CallGraph
    plan: ExecutionPlan
    source: Source
    credit: Credit
    book: Book
    watch: Stopwatch

    def run(self, state: RunState) -> tuple[RunState, str]:
        """Iterate until a stop rule holds; the final state and the reason."""
        reason = self.book.stop_reason(state)
        while reason is None:
            with self.watch.span("gather"):
                experience, ledger = self.source.gather(state.iteration, state.ledger, state.rewards)
            experience = self.forward(experience)
            with self.watch.span("credit"):
                credited = self.credit(experience, replace(state, ledger=ledger))
            metrics = self.train(credited.experience, state.iteration)
            credited = replace(credited, state=credited.state.advanced(seconds=self.watch.seconds()))
            state = self.book.record(credited, merge([credited.metrics, metrics]), self.watch)
            # Asked once: a signal that comes while saving ends the next iteration, which then saves too.
            reason = self.book.stop_reason(state)
            self.book.save(state, last=reason is not None)
        return state, reason

    def forward(self, experience: Experience) -> Experience:
        """All forward calls, sent at once so that calls on disjoint meshes overlap; their columns join the batch."""
        named = (self.graph[name] for name in self.plan.order)
        # Judges were asked while samples were gathered.
        calls = [call for call in named if call.kind == "forward" and JUDGED not in outputs_of(call)]
        futures = [self.send(call, experience, outputs=outputs_of(call)) for call in calls]
        batch = experience.batch
        for call, future in zip(calls, futures, strict=True):
            batch = with_outputs(batch, call, future.result())
        return replace(experience, batch=batch)

    def train(self, experience: Experience, iteration: int) -> Mapping[str, Metric]:
        """All train calls; then the engine gets the new weights."""
        calls = [self.graph[name] for name in self.plan.order if self.graph[name].kind == "train"]
        futures = [self.send(call, experience, iteration=iteration) for call in calls]
        metrics = merge(future.result() for future in futures)
        if self.graph.of_kind("generate"):
            with self.watch.span("publish", "actor"):
                self.crew.call("publish").result()
        return metrics

    def send(self, call: Call, experience: Experience, **more: Any) -> Future[Any]:
        """One call of the graph on its way, followed by the clock."""
        payload = {"role": call.role, "batch": experience.batch, "sampling": experience.sampling, **more}
        return self.watch.follow(call.name, call.role, lambda: self.crew.call(call.kind, **payload))
