"""What a run folder holds, however the run ended: files may be missing, torn or huge.

What could not be read is said in `problems`; reading never fails for the state of the files.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ropewalk.monitors.lines import Row, ends, finite, rows
from ropewalk.monitors.report.words import number
from ropewalk.monitors.timeline import read_timeline_end
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json
from ropewalk.records.span import Span

_POINTS = 2000
"""At most about this many iterations are drawn."""
_SAMPLES_FIRST, _SAMPLES_LAST = 500, 2000
_TIMELINE_BYTES = 4 << 20
_TEXT_BYTES = 1 << 20


@dataclass(frozen=True)
class Run:
    """A run as its folder tells it."""

    name: str
    recipe_text: str = ""
    recipe: Mapping[str, Json] = field(default_factory=dict)
    lineage: Mapping[str, Json] = field(default_factory=dict)
    status: Mapping[str, Json] = field(default_factory=dict)
    metrics: tuple[Mapping[str, float], ...] = ()
    """Per iteration, in order: `iteration` and every finite metric."""
    samples: tuple[Row, ...] = ()
    spans: tuple[Span, ...] = ()
    evaluation: Json = None
    problems: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Every metric that has a value somewhere, sorted."""
        return sorted({name for values in self.metrics for name in values} - _MOMENT)

    def curve(self, name: str) -> tuple[list[int], list[float]]:
        """Iterations and values of a metric, where it has one."""
        points = [(int(values["iteration"]), values[name]) for values in self.metrics if name in values]
        return [when for when, _ in points], [value for _, value in points]

    @property
    def iterations(self) -> int:
        return int(self.metrics[-1]["iteration"]) if self.metrics else 0

    @property
    def seconds(self) -> float | None:
        return self.metrics[-1].get("time_seconds") if self.metrics else None


_MOMENT = {"iteration", "step", "time_seconds"}


def read_run(folder: Path) -> Run:
    """Errors: InputError if the folder itself is missing."""
    if not folder.is_dir():
        raise InputError(f"there is no run folder {folder}: name a folder that a run has written")
    problems: list[str] = []
    recipe_text, recipe = _recipe(folder / "recipe.toml", problems)
    samples, unreadable = ends(folder / "samples.jsonl", first=_SAMPLES_FIRST, last=_SAMPLES_LAST)
    if unreadable:
        problems.append(f"samples.jsonl: {unreadable} unreadable {_lines(unreadable)} left out")
    return Run(
        name=folder.resolve().name,
        recipe_text=recipe_text,
        recipe=recipe,
        lineage=_object(folder / "lineage.json", problems),
        status=_object(folder / "status.json", problems),
        metrics=_metrics(folder / "metrics.jsonl", problems),
        samples=tuple(samples),
        spans=_spans(folder / "timeline.json", problems),
        evaluation=_json(folder / "eval.json", problems),
        problems=tuple(problems),
    )


def _metrics(path: Path, problems: list[str]) -> tuple[Mapping[str, float], ...]:
    """All iterations, thinned evenly on the way so that memory stays bounded; of a repeated one the last."""
    if not path.is_file():
        problems.append("metrics.jsonl is missing: no iteration was finished, or this is not a run folder")
        return ()
    kept: dict[int, Mapping[str, float]] = {}
    last: tuple[int, Mapping[str, float]] | None = None
    stride, seen, unreadable = 1, 0, 0
    for row in rows(path):
        when = number(row.get("iteration")) if row is not None else None
        if row is None or when is None:
            unreadable += 1
            continue
        values = {name: value for name, part in row.items() if (value := number(part)) is not None}
        last = int(when), values
        if seen % stride == 0:
            kept[last[0]] = values
        seen += 1
        if len(kept) > 2 * _POINTS:
            stride *= 2
            kept = dict(list(kept.items())[::2])
    if last is not None:
        kept[last[0]] = last[1]
    if unreadable:
        problems.append(f"metrics.jsonl: {unreadable} unreadable {_lines(unreadable)} left out")
    if stride > 1:
        problems.append(f"metrics.jsonl has {seen:,} lines: one in {stride} is drawn")
    return tuple(values for _, values in sorted(kept.items()))


def _recipe(path: Path, problems: list[str]) -> tuple[str, Mapping[str, Json]]:
    try:
        with path.open("rb") as file:
            text = file.read(_TEXT_BYTES).decode("utf-8", "replace")
    except OSError:
        problems.append("recipe.toml is missing")
        return "", {}
    try:
        return text, tomllib.loads(text)
    except (ValueError, RecursionError):
        problems.append("recipe.toml is not whole TOML")
        return text, {}


def _json(path: Path, problems: list[str]) -> Json:
    """The file's value; None if it is missing or cannot be read."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(f"{path.name} cannot be read: {error.strerror}")
        return None
    try:
        return finite(json.loads(text))
    except (ValueError, RecursionError):
        problems.append(f"{path.name} is not whole JSON")
        return None


def _object(path: Path, problems: list[str]) -> Mapping[str, Json]:
    value = _json(path, problems)
    return value if isinstance(value, dict) else {}


def _spans(path: Path, problems: list[str]) -> tuple[Span, ...]:
    if not path.is_file():
        return ()
    try:
        spans, whole = read_timeline_end(path, _TIMELINE_BYTES)
    except InputError as error:
        problems.append(f"timeline.json: {error}")
        return ()
    if not whole:
        problems.append("timeline.json is torn, or too long to read whole: what its end holds is drawn")
    return tuple(spans)


def _lines(count: int) -> str:
    return "line" if count == 1 else "lines"
