"""Runs scorers: the one place where a scorer's exception becomes a record.

What holds: every sample leaves with exactly one outcome per scorer, in the order it came; nothing here
uses signals, threads or clocks, so it works the same in any thread, task or process.
"""

import math
import numbers
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ropewalk.data.order import PART
from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.metric import Metric
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Abstain, Failed, FailureReason, Outcome, Score
from ropewalk.tasks.scoring.config import Component
from ropewalk.tasks.scoring.gates import stands_for
from ropewalk.tasks.task import Scorer, Task

DOMAIN = "domain"
"""Key of a prompt's info: what its reward is mixed and normalised by."""


def outcome_of(value: object, scorer: str, sample: Sample) -> Outcome:
    """What a scorer's return value means.

    An outcome is itself; None abstains; a bool, a Python or a numpy number is a score. NaN, infinities,
    lists, arrays, text and all else are a mistake in the scorer: InputError naming it and the sample.
    """
    where = f"scorer {scorer!r} on sample {sample.prompt_id}/{sample.index}"
    if isinstance(value, Score | Abstain | Failed):
        return value
    if value is None:
        return Abstain()
    if isinstance(value, bool | np.bool_ | numbers.Real):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise InputError(f"{where} returned {number}: return a finite number, None or Failed(reason)")
        return Score(number)
    if isinstance(value, list | tuple | np.ndarray):
        raise InputError(f"{where} returned {len(np.atleast_1d(value))} values in a {type(value).__name__}: return one")
    raise InputError(f"{where} returned a {type(value).__name__}: return a number, None, or Failed(reason)")


def score_sample(task: Task, prompt: Prompt, sample: Sample) -> Sample:
    """The sample with an outcome of each of the task's scorers, and its prompt's domain and task in its info.

    A rollout that failed or was aborted is not shown to the scorers: its outcomes are `Failed` or `Abstain`.
    """
    sample = _with_notes(sample, prompt)
    if sample.finish == "failed":
        return sample.with_scores(**dict.fromkeys(task.scorers, Failed("crashed", "the rollout failed")))
    if sample.finish == "aborted":
        return sample.with_scores(**dict.fromkeys(task.scorers, Abstain("the rollout was aborted")))
    return sample.with_scores(**{name: _judge(name, scorer, prompt, sample) for name, scorer in task.scorers.items()})


def check_failures(samples: Iterable[Sample], limit: float, components: Mapping[str, Component] | None = None) -> None:
    """Stop the run if more than `limit` of a scorer's judgements failed, naming the most frequent reason and the mend.

    A failure for which the scorer's component names a score is decided: a judgement like others, and no failure here.
    Abstentions are neither: the share is failed / (failed + scored).
    """
    named = components or {}
    failures: dict[str, list[Failed]] = {}
    judged: Counter[str] = Counter()
    for sample in samples:
        for name, outcome in sample.scores.items():
            judged[name] += not isinstance(outcome, Abstain)
            if isinstance(outcome, Failed) and (name not in named or stands_for(named[name], outcome) is None):
                failures.setdefault(name, []).append(outcome)
    for name, failed in failures.items():
        if len(failed) > limit * judged[name]:
            raise RunStopped(_stop_sentence(name, failed, judged[name]))


def _stop_sentence(name: str, failed: Sequence[Failed], judged: int) -> str:
    reason, times = Counter(failure.reason for failure in failed).most_common(1)[0]
    details = Counter(failure.detail for failure in failed if failure.reason == reason and failure.detail)
    such = f" (most often: {details.most_common(1)[0][0]})" if details else ""
    key = name if re.fullmatch(r"[\w-]+", name) else f'"{name}"'
    worth = f"say what such an answer is worth by reward.components.{key}.failed = {{ {reason} = 0.0 }}"
    often = "each time" if times == len(failed) else f"{times} times ({times / judged:.0%})"
    return (
        f"scorer {name!r} failed on {len(failed)} of {judged} samples ({len(failed) / judged:.0%}), "
        f"{often} with {reason}{such}: "
        f"{_MENDS.get(reason, worth)}, or raise reward.failure_limit"
    )


_MENDS: Mapping[FailureReason, str] = {
    "crashed": "mend the scorer",
    "timeout": "give the scorer more time",
}
"""What is mended where the scorer, not the answer, is at fault."""


def outcome_metrics(rows: Sequence[Mapping[str, Outcome]]) -> dict[str, Metric]:
    """Per scorer: mean score over what was scored, the shares that failed and abstained, and that of each failure."""
    metrics: dict[str, Metric] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        outcomes = [row[name] for row in rows if name in row]
        values = [outcome.value for outcome in outcomes if isinstance(outcome, Score)]
        # A part of a scorer, such as program/hidden, would be taken for a figure of the whole.
        metrics[f"score/{name}/mean" if "/" in name else f"score/{name}"] = Metric.mean(math.fsum(values), len(values))
        reasons = Counter(f"failed_{outcome.reason}" for outcome in outcomes if isinstance(outcome, Failed))
        abstained = sum(isinstance(outcome, Abstain) for outcome in outcomes)
        shares = {"abstained": abstained, "failed": reasons.total(), **dict(sorted(reasons.items()))}
        for label, found in shares.items():
            metrics[f"score/{name}/{label}"] = Metric.mean(found, len(outcomes))
    return metrics


def _with_notes(sample: Sample, prompt: Prompt) -> Sample:
    """The sample with what its prompt is told by: its domain, and its part of a mixture."""
    notes = {name: prompt.info[name] for name in (DOMAIN, PART) if prompt.info.get(name) is not None}
    for name, note in notes.items():
        if not isinstance(note, str):
            raise InputError(f"prompt {prompt.id} has a {type(note).__name__} for its {name}: give info.{name} as text")
    return replace(sample, info={**sample.info, **notes}) if notes else sample


def _judge(name: str, scorer: Scorer, prompt: Prompt, sample: Sample) -> Outcome:
    try:
        value: object = scorer(prompt, sample)
    except RunStopped:
        raise
    except InputError as error:
        raise InputError(f"scorer {name!r} on sample {sample.prompt_id}/{sample.index}: {error}") from error
    except (Exception, SystemExit) as error:  # noqa: BLE001
        # The failure boundary: whatever a scorer does wrong on one sample is that sample's record, and is counted. Its
        # exit is no end of the run.
        return Failed("crashed", f"{type(error).__name__}: {error}"[:200])
    return outcome_of(value, name, sample)
