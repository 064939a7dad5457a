"""From the outcomes of a sample to its reward: reward = Σ weightᵢ · normalise(scoreᵢ).

Pure: the running statistics come in and go out as JSON-able data and belong to the run's state. A row's
reward depends on the other rows only through an `initial_mean` that is not yet frozen.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ropewalk.records.errors import InputError
from ropewalk.records.metric import Metric
from ropewalk.records.prompt import Json
from ropewalk.records.score import Failed, Outcome, Score
from ropewalk.tasks.config import Component, InitialMean, Reward
from ropewalk.tasks.scoring.run import outcome_metrics

Statistics: TypeAlias = Mapping[str, Mapping[str, float]]
"""Per component with `initial_mean`: `sum` and `count` of the scores seen until it froze. Starts as {}."""

Row: TypeAlias = Mapping[str, Outcome]


class Composed(NamedTuple):
    """What an iteration's outcomes come to. Rows are in the order they were given."""

    reward_R: npt.NDArray[np.float32]
    """0 where the row is not valid."""
    valid_R: npt.NDArray[np.bool_]
    """False: a component failed, or all abstained, or the row is excluded; such a row trains nothing."""
    records: list[dict[str, Json]]
    """Per row, for the sample file: each component's outcome, raw, normalised and weighted, and the reward."""
    statistics: dict[str, dict[str, float]]
    """To keep in the run's state and hand in next time."""
    metrics: dict[str, Metric]


def compose(config: Reward, rows: Sequence[Row], statistics: Statistics) -> Composed:
    """The rewards of rows of outcomes.

    An abstaining component is skipped, a failed one makes its row invalid. Raises InputError for a component that
    nobody scored.
    """
    observed = observe(config, rows, statistics)
    means = {name: entry["sum"] / entry["count"] for name, entry in observed.items() if entry["count"]}
    records = [_record(_components(config, row), row, means) for row in rows]
    rewards = [record["reward"] for record in records]
    valid_R = np.array([reward is not None for reward in rewards], np.bool_)
    values = [float(reward) for reward in rewards if isinstance(reward, float)]
    reward_R = np.zeros(len(rows), np.float32)
    reward_R[valid_R] = values
    metrics = outcome_metrics(rows)
    metrics["reward"] = Metric.mean(math.fsum(values), len(values))
    metrics["reward/invalid"] = Metric.mean(len(rows) - len(values), len(rows))
    return Composed(reward_R, valid_R, records, observed, metrics)


def observe(config: Reward, rows: Sequence[Row], statistics: Statistics) -> dict[str, dict[str, float]]:
    """The statistics after these rows: a component not yet frozen takes in all of them.

    Call it once with the scores of the initial policy to freeze them there; `compose` calls it anyway.
    """
    updated = {name: dict(entry) for name, entry in statistics.items()}
    for name, component in config.components.items():
        if not isinstance(component.normalise, InitialMean):
            continue
        entry = updated.setdefault(name, {"sum": 0.0, "count": 0.0})
        if entry["count"] < component.normalise.samples:
            outcomes = [row.get(name) for row in rows]
            scores = [outcome.value for outcome in outcomes if isinstance(outcome, Score)]
            entry["sum"] += math.fsum(scores)
            entry["count"] += len(scores)
    return updated


def _components(config: Reward, row: Row) -> Mapping[str, Component]:
    missing = [name for name in config.components if name not in row]
    if missing:
        raise InputError(f"reward component {missing[0]!r} was scored by nobody: there are {', '.join(row) or 'none'}")
    return config.components or {next(iter(row)): Component()}


def _record(components: Mapping[str, Component], row: Row, means: Mapping[str, float]) -> dict[str, Json]:
    parts: dict[str, Json] = {}
    weighted: list[float] = []
    for name, component in components.items():
        outcome = row[name]
        if not isinstance(outcome, Score):
            parts[name] = {"outcome": describe(outcome)}
            continue
        shift = means[name] if isinstance(component.normalise, InitialMean) else 0.0
        normalised = outcome.value - shift
        weighted.append(component.weight * normalised)
        parts[name] = {"raw": outcome.value, "normalised": normalised, "weighted": weighted[-1]}
    failed = any(isinstance(row[name], Failed) for name in components)
    reward = None if failed or not weighted else math.fsum(weighted)
    return {"components": parts, "reward": reward}


def describe(outcome: Outcome) -> str:
    """An outcome in words, for files and reports."""
    if isinstance(outcome, Score):
        return f"score {outcome.value:g}"
    if isinstance(outcome, Failed):
        return f"failed: {outcome.reason}" + (f" ({outcome.detail})" if outcome.detail else "")
    return "abstained" + (f": {outcome.reason}" if outcome.reason else "")
