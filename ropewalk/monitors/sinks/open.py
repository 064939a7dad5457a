"""From the recipe's list to open sinks."""

from collections.abc import Sequence
from pathlib import Path

from ropewalk.monitors.config import SinkConfig, Tensorboard, Trackio, Wandb
from ropewalk.monitors.sinks.jsonl import JsonlSink
from ropewalk.monitors.sinks.sink import Sink
from ropewalk.monitors.sinks.tensorboard import TensorboardSink
from ropewalk.monitors.sinks.trackio import TrackioSink
from ropewalk.monitors.sinks.wandb import WandbSink


def open_sinks(configs: Sequence[SinkConfig], folder: Path) -> list[Sink]:
    """`metrics.jsonl` first, then what the recipe lists. A missing package is an InputError that names the extra."""
    sinks: list[Sink] = [JsonlSink(folder / "metrics.jsonl")]
    sinks.extend(_open(config, folder) for config in configs)
    return sinks


def _open(config: SinkConfig, folder: Path) -> Sink:
    match config:
        case Tensorboard():
            return TensorboardSink(config, folder)
        case Wandb():
            return WandbSink(config, folder)
        case Trackio():
            return TrackioSink(config, folder)
