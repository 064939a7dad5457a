"""`metrics.jsonl`: one line per iteration, the source of the report and of every resume."""

from pathlib import Path

from ropewalk.monitors.lines import LineFile
from ropewalk.records.metric import Metrics
from ropewalk.records.prompt import Json


class JsonlSink:
    """Appends `{"iteration", "step", "time_seconds", name: value, …}`; a value that is not finite is null."""

    def __init__(self, path: Path) -> None:
        self._lines = LineFile(path)

    def write(self, step: int, metrics: Metrics, *, iteration: int, time_seconds: float) -> None:
        record: dict[str, Json] = {"iteration": iteration, "step": step, "time_seconds": round(time_seconds, 6)}
        record.update({name: float(metric.value) for name, metric in sorted(metrics.items())})
        self._lines.append(record)

    def close(self) -> None:
        self._lines.close()
