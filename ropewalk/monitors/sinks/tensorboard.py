"""TensorBoard event files, written by the tensorboard package itself: neither torch nor TensorFlow is needed."""

import math
import time
from pathlib import Path

from ropewalk.monitors.config import Tensorboard
from ropewalk.records.errors import InputError
from ropewalk.records.metric import Metrics


class TensorboardSink:
    """Scalars over iterations. A resumed run writes a further file, whose points replace later ones on screen."""

    def __init__(self, config: Tensorboard, folder: Path) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2  # noqa: PLC0415  (an optional extra)
            from tensorboard.summary.writer.event_file_writer import EventFileWriter  # noqa: PLC0415
        except ImportError as error:
            raise InputError(
                "record.sinks asks for tensorboard, which is not installed: pip install 'ropewalk[sinks]'"
            ) from error
        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self._writer = EventFileWriter(str(folder / config.folder))

    def write(self, step: int, metrics: Metrics, *, iteration: int, time_seconds: float) -> None:
        numbers = {"step": float(step), **{name: metric.value for name, metric in metrics.items()}}
        values = [
            self._summary.Value(tag=name, simple_value=number)
            for name, number in numbers.items()
            if math.isfinite(number)
        ]
        event = self._event(wall_time=time.time(), step=iteration, summary=self._summary(value=values))
        self._writer.add_event(event)

    def close(self) -> None:
        self._writer.close()
