"""What a destination of metrics must offer."""

from typing import Protocol

from ropewalk.records.metric import Metrics


class Sink(Protocol):
    """A destination of metrics. Iterations rise; after a resume they go on from the restored one."""

    def write(self, step: int, metrics: Metrics, *, iteration: int, time_seconds: float) -> None:
        """Take the metrics of one iteration. `step` counts optimiser steps, `time_seconds` runs from the start."""

    def close(self) -> None:
        """Finish writing; calling it twice is harmless."""
