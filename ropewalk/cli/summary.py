"""What is said of a run that has ended: where it is, how it went, what to do next."""

import json
from collections.abc import Mapping, Sequence

from ropewalk.cli.said import table
from ropewalk.records.prompt import Json
from ropewalk.runtime.run import Run

SHOWN = (
    "reward/mean",
    "score/truth/mean",
    "score/reward_model/mean",
    "score/correct/mean",
    "kl/sequence",
    "loss/nll",
    "pairs/accuracy",
    "eval/pair_accuracy",
    "steps/accuracy",
    "eval/step_accuracy",
    "eval/pass_at_1",
    "entropy",
    "length/mean",
)
"""Metrics worth a line, the first five that a run has."""
MOST = 5


def summary(run: Run) -> list[str]:
    """A few lines about a run folder, of whatever method."""
    rows = [("run", str(run.folder))]
    rows += stages(run)
    metrics = run.metrics()
    rows += changes(metrics)
    seconds = metrics[-1].get("time_seconds") if metrics else None
    if isinstance(seconds, int | float):
        rows.append(("time", f"{seconds:.0f} s over {len(metrics)} iterations"))
    labels = [(name, run.folder / f"{name}.jsonl") for name in ("pairs", "steps")]
    for what, path in (("samples", run.samples_file), *labels):
        if not metrics and path.exists():
            rows.append((what, str(path)))
    rows += [(what, str(path)) for what, path in (("model", run.model), ("report", run.report_file)) if path.exists()]
    return [*table(rows), *(f"next: {line}" for line in following(run))]


def changes(metrics: Sequence[Mapping[str, Json]]) -> list[tuple[str, str]]:
    """First and last value of the metrics that matter most."""
    rows = []
    for name in SHOWN:
        values = [value for row in metrics if isinstance(value := row.get(name), int | float)]
        if values:
            rows.append((name, f"{values[0]:.4g} → {values[-1]:.4g}"))
    return rows[:MOST]


def stages(run: Run) -> list[tuple[str, str]]:
    """Of a chain, each stage with what changed most to the point."""
    place = run.folder / "stages.json"
    rows = []
    for name in json.loads(place.read_text(encoding="utf-8")) if place.exists() else []:
        moved = changes(Run(run.folder / name).metrics())[:1]
        rows.append((name, " ".join([str(run.folder / name), *(f"({what} {about})" for what, about in moved)])))
    return rows


def following(run: Run) -> list[str]:
    """What one would do next with a run's result."""
    method = run.lineage().get("method")
    if (run.folder / "stages.json").exists():
        return [f"ropewalk report {run.folder}"]
    if method == "reward_model":
        return [f"ropewalk eval {run.folder}, or train against it with --set reward_model={run.folder}"]
    if method == "process_reward_model":
        return [f"ropewalk eval {run.folder}, or train against it: [reward_models.NAME] with read.kind = 'process'"]
    if method is not None:
        return [f"ropewalk eval {run.folder}, or ropewalk chat {run.folder}"]
    return []
