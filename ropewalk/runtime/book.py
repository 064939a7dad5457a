"""The run's book: metrics, samples, timeline, checkpoints, and the rules that end a run.

It reads what the loop did and writes it down; training never depends on it. Invariant: lines of iterations after
the newest checkpoint are dropped on resume, so every file tells the same story.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ropewalk.monitors.config import Health, Record
from ropewalk.monitors.health import Values, diagnose, extend
from ropewalk.monitors.lines import LineFile
from ropewalk.monitors.samples import choose, sample_record
from ropewalk.monitors.sinks.open import open_sinks
from ropewalk.monitors.sinks.sink import Sink
from ropewalk.monitors.timeline import TimelineFile
from ropewalk.records.errors import RunStopped
from ropewalk.records.files import rollout_file, write_samples
from ropewalk.records.metric import Metric
from ropewalk.records.packed import PackedBatch
from ropewalk.records.span import Span
from ropewalk.runtime.clock import Stopwatch
from ropewalk.runtime.config import Checkpoints
from ropewalk.runtime.crew import Crew
from ropewalk.runtime.guard import ratio_fault
from ropewalk.runtime.loop import Credited
from ropewalk.runtime.names import shown
from ropewalk.runtime.progress import Progress
from ropewalk.runtime.recovery import save_checkpoint
from ropewalk.runtime.run import Run
from ropewalk.runtime.state import RunState
from ropewalk.runtime.stretches import WORKED

Evaluate = Callable[[int], Mapping[str, Metric]]


@dataclass(frozen=True, slots=True)
class Limits:
    """When the run ends."""

    iterations: int
    minutes: float | None = None
    reward: float | None = None
    kl: float | None = None


class RunBook:
    """Writes one run's folder."""

    def __init__(
        self,
        run: Run,
        crew: Crew,
        *,
        record: Record,
        health: Health,
        checkpoints: Checkpoints,
        limits: Limits,
        best_by: str,
    ) -> None:
        self.run, self.crew = run, crew
        self.recording, self.health, self.checkpoints, self.limits = record, health, checkpoints, limits
        self.best_by = checkpoints.best_by if checkpoints.best_by != "auto" else best_by
        self.sinks: list[Sink] = open_sinks(record.sinks, run.folder)
        self.samples = LineFile(run.samples_file)
        self.timeline = TimelineFile(run.timeline_file)
        self.history: tuple[Values, ...] = ()
        self.warned: set[str] = set()
        self.latest: Mapping[str, float] = {}
        self.interrupted: str | None = None
        self.progress: Progress | None = None
        self.evaluate: Evaluate | None = None
        self.evaluate_every = 0
        self.exported_role = "actor"
        self.ratio_tolerance: float | None = None
        """Largest gap between engine and trainer; None where they may differ (bf16, recorded rollouts)."""
        self.dead: str | None = None
        self.previous_seconds = 0.0

    def go_on(self, state: RunState) -> None:
        """Take up a resumed run: what its rules have seen so far is read from its own metrics."""
        self.previous_seconds = state.seconds
        for row in self.run.metrics():
            values = {name: value for name, value in row.items() if isinstance(value, int | float) or value is None}
            self.history = extend(self.history, values, self.health)
            self.latest = {name: value for name, value in values.items() if value is not None}

    def record(self, credited: Credited, metrics: Mapping[str, Metric], watch: Stopwatch) -> RunState:
        """Write an iteration; the state with its best value and its clock brought up to date.

        Raises `RunStopped` if the first ratio was not 1: then nothing of this iteration is saved.
        """
        state, public = credited.state, shown(metrics)
        tokens = Metric.mean(credited.experience.batch.tokens, state.seconds - self.previous_seconds)
        if self.evaluate is not None and state.iteration % self.evaluate_every == 0:
            with watch.span("evaluate"):
                public |= self.evaluate(state.iteration)
        spans = watch.take()
        public |= {**_seconds(spans), "tokens_per_second": tokens}
        step = int(self.crew.call("steps", role=self.exported_role).result())
        for sink in self.sinks:
            sink.write(step, public, iteration=state.iteration, time_seconds=state.seconds)
        self.timeline.append(spans)
        self.latest = {name: metric.value for name, metric in public.items()}
        self._look_after(public)
        self._write_samples(credited)
        if self.progress is not None:
            self.progress.advance(state.iteration, self._note())
        self.previous_seconds = watch.seconds()
        return self._with_best(replace(state, seconds=self.previous_seconds))

    def save(self, state: RunState, *, last: bool) -> None:
        """Save when one is due: every n iterations, at the end, and when interrupted."""
        if not last and state.iteration % self.checkpoints.every:
            return
        save_checkpoint(self.run, self.crew, state, keep=self.checkpoints.keep)
        if state.best_iteration == state.iteration:
            self.crew.call("export", role=self.exported_role, folder=self.run.best).result()

    def stop_reason(self, state: RunState) -> str | None:
        """Why the run ends now, or None."""
        return self.end_reason(state) or self.interrupted

    def end_reason(self, state: RunState) -> str | None:
        """Why the run is at its end by its own rules; a resumed run finds the same end as one never interrupted."""
        limits, latest = self.limits, self.latest
        if self.dead is not None:
            return self.dead
        if state.iteration >= limits.iterations:
            return f"all {limits.iterations} iterations are done"
        if limits.minutes is not None and state.seconds >= 60 * limits.minutes:
            return f"{limits.minutes:g} minutes are over"
        if limits.reward is not None and latest.get("reward/mean", -math.inf) >= limits.reward:
            return f"the mean reward reached {limits.reward:g}"
        if limits.kl is not None and latest.get("kl/sequence", -math.inf) > limits.kl:
            return f"the KL to the reference exceeded {limits.kl:g} nats per sequence"
        return None

    def interrupt(self, reason: str) -> None:
        """End the run after the present iteration."""
        self.interrupted = reason

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()
        self.samples.close()
        self.timeline.close()

    # -- parts -------------------------------------------------------------------------------------------------

    def _note(self) -> str:
        wanted = ("reward/mean", "kl/token", "loss/nll", "pairs/accuracy", "loss/pairs", "loss/steps")
        return "  ".join(f"{name} {self.latest[name]:.3f}" for name in wanted if name in self.latest)

    def _with_best(self, state: RunState) -> RunState:
        if state.iteration % self.checkpoints.every and self.end_reason(state) is None:
            return state
        value = self.latest.get(self.best_by.removeprefix("-"))
        if value is None:
            self._warn("best_by", f"no metric is called {self.best_by}, so this iteration cannot be the best")
        if value is None or not math.isfinite(value):
            return state
        value = -value if self.best_by.startswith("-") else value
        if state.best_value is not None and value <= state.best_value:
            return state
        return replace(state, best_value=value, best_iteration=state.iteration)

    def _warn(self, rule: str, message: str) -> None:
        if rule not in self.warned and self.progress is not None:
            self.warned.add(rule)
            self.progress.say(f"warning: {message}")

    def _look_after(self, public: Mapping[str, Metric]) -> None:
        if self.ratio_tolerance is not None and (fault := ratio_fault(public, tolerance=self.ratio_tolerance)):
            raise RunStopped(fault)
        self.history = extend(self.history, {name: metric.value for name, metric in public.items()}, self.health)
        if (short := public.get("groups/short")) is not None and short.value:
            self._warn("short", _short_words(1 - short.value, public["groups/drawn"].value))
        diagnosis = diagnose(self.history, self.health)
        if diagnosis is None:
            return
        if diagnosis.action == "stop":
            self.dead = diagnosis.message
        else:
            self._warn(diagnosis.rule, diagnosis.message)

    def _write_samples(self, credited: Credited) -> None:
        experience, iteration = credited.experience, credited.state.iteration
        if not experience.samples:
            return
        if self.recording.rollouts:
            self.run.rollouts.mkdir(exist_ok=True)
            write_samples(rollout_file(self.run.rollouts, iteration), experience.samples)
        rewards = [r.get("reward") for r in credited.records]
        numbers = [float(r) if isinstance(r, int | float) else None for r in rewards]
        last = self.end_reason(credited.state) is not None
        kl_R = _kl_per_row(experience.batch)
        for index, kept in choose(numbers, iteration, self.recording, last=last).items():
            sample = experience.samples[index]
            line = sample_record(
                sample,
                iteration=iteration,
                kept=kept,
                prompt=experience.prompts[sample.prompt_id].dialogue,
                reward=numbers[index],
                kl=None if kl_R is None else float(kl_R[index]),
            )
            self.samples.append({**line, **credited.records[index]})


def _short_words(share: float, drawn: float) -> str:
    """What is said of an iteration with fewer groups than wanted."""
    if not share:
        return f"none of {drawn:g} groups drawn had variance, so they train as they are, which teaches nothing"
    return (
        f"only {share:.0%} of the groups wanted had variance after {drawn:g} were drawn, so the iteration trains on "
        "fewer; rollout.flat says how many are tried"
    )


def _kl_per_row(batch: PackedBatch) -> npt.NDArray[np.float64] | None:
    """Nats per row between the policy that sampled and the reference, where there is one."""
    columns = batch.token_columns
    if "reference_logprobs" not in columns:
        return None
    trained = columns["policy_mask"].astype(bool) & (batch.row_T >= 0)
    gap = columns["rollout_logprobs"][trained].astype(float) - columns["reference_logprobs"][trained].astype(float)
    return np.bincount(batch.row_T[trained], weights=gap, minlength=batch.rows).astype(np.float64)


def _seconds(spans: Sequence[Span]) -> dict[str, Metric]:
    """Seconds of each call; of what the controller does, those in which it does not wait for a generation."""
    total: dict[str, float] = {}
    generated = [span for span in spans if span.name == "generate"]
    for span in spans:
        seconds = span.info.get(WORKED, span.end_seconds - span.start_seconds)
        assert isinstance(seconds, float | int)
        if span.lane == "controller":
            within = [g for g in generated if span.start_seconds <= g.start_seconds <= span.end_seconds]
            seconds -= sum(g.end_seconds - g.start_seconds for g in within)
        total[span.name] = total.get(span.name, 0.0) + max(seconds, 0.0)
    return {f"time/{name}_seconds": Metric.mean(seconds, 1) for name, seconds in total.items()}
