"""Weights & Biases, offline unless the recipe says `online = true`; nothing but metrics is recorded."""

import math
import os
from pathlib import Path

from ropewalk.monitors.config import Wandb
from ropewalk.records.errors import InputError
from ropewalk.records.metric import Metrics


class WandbSink:
    """Scalars over iterations. A resumed run is a second wandb run in the same group."""

    def __init__(self, config: Wandb, folder: Path) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        try:
            import wandb  # noqa: PLC0415  (an optional extra)
        except ImportError as error:
            raise InputError(
                "record.sinks asks for wandb, which is not installed: pip install 'ropewalk[sinks]'"
            ) from error
        quiet = wandb.Settings(
            console="off",
            quiet=True,
            silent=True,
            disable_git=True,
            disable_code=True,
            disable_job_creation=True,
            x_disable_stats=True,
            x_disable_meta=True,
        )
        self._run = wandb.init(
            project=config.project,
            name=folder.name,
            group=folder.name,
            dir=str(folder),
            mode="online" if config.online else "offline",
            settings=quiet,
        )

    def write(self, step: int, metrics: Metrics, *, iteration: int, time_seconds: float) -> None:
        numbers = {name: metric.value for name, metric in metrics.items() if math.isfinite(metric.value)}
        self._run.log({"step": step, "time_seconds": time_seconds, **numbers}, step=iteration)

    def close(self) -> None:
        self._run.finish()
