"""Trackio: a local database, where `TRACKIO_DIR` or trackio's own default puts it."""

import contextlib
import io
import math
import os
from pathlib import Path

from ropewalk.monitors.config import Trackio
from ropewalk.records.errors import InputError
from ropewalk.records.metric import Metrics


class TrackioSink:
    """Scalars over iterations. A resumed run continues the run of its folder's name."""

    def __init__(self, config: Trackio, folder: Path) -> None:
        os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
        try:
            import trackio  # noqa: PLC0415  (an optional extra)
        except ImportError as error:
            raise InputError(
                "record.sinks asks for trackio, which is not installed: pip install 'ropewalk[sinks]'"
            ) from error
        self._trackio = trackio
        self._open = True
        # Trackio greets on standard output, which belongs to the user's command.
        with contextlib.redirect_stdout(io.StringIO()):
            trackio.init(
                project=config.project,
                name=folder.name,
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )

    def write(self, step: int, metrics: Metrics, *, iteration: int, time_seconds: float) -> None:
        numbers = {name: metric.value for name, metric in metrics.items() if math.isfinite(metric.value)}
        self._trackio.log({"step": step, "time_seconds": time_seconds, **numbers}, step=iteration)

    def close(self) -> None:
        if self._open:
            self._open = False
            with contextlib.redirect_stdout(io.StringIO()):
                self._trackio.finish()
