"""Train again on the rollouts that a run recorded: no engine, no task, the same batches.

On the same settings every iteration, and so the final weights, are bit for bit those of the run; with other
settings, what they would have made of the same samples.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ropewalk.config.load import ConfigError
from ropewalk.records.errors import InputError
from ropewalk.runtime.progress import Progress
from ropewalk.runtime.recipe import GRPORecipe, PPORecipe, read_recipe
from ropewalk.runtime.run import Run, create_run, open_run, remove_run
from ropewalk.runtime.train import run_recipe


def replay(
    run: str | Path | Run,
    *,
    out: str | Path | None = None,
    set: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Run:
    """Train by a run's recipe, with `set` overriding dotted keys, on its recorded rollouts; return the new run.

    Scores of the task's scorers are the recorded ones; those of a reward model, a reference or a critic are computed
    by forward calls. The run has as many iterations as were recorded. Raises `InputError` if none were.
    """
    origin = run if isinstance(run, Run) else open_run(run)
    recipe = read_recipe(origin.recipe_file, {"record.rollouts": False, **(set or {})})
    if not isinstance(recipe, PPORecipe | GRPORecipe):
        raise InputError(f"{origin.folder} has method {recipe.method!r}, which makes no rollouts to replay")
    replayed = create_run(f"{origin.folder.name}-replay", out=Path(out) if out else None)
    try:
        return run_recipe(recipe, replayed, replay_of=origin, progress=progress)
    except (InputError, ConfigError):
        if not replayed.lineage():
            remove_run(replayed.folder)
        raise
