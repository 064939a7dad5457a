"""Commands that make files: `sample`, `export`."""

from pathlib import Path
from typing import Annotated

import typer

from ropewalk.cli.progress import progress
from ropewalk.cli.said import say
from ropewalk.cli.settings import RECIPE, RUN, Settings, checked_recipe, overrides, parent_exists
from ropewalk.records.errors import InputError


def sample(
    recipe: Annotated[str, RECIPE],
    out: Annotated[Path, typer.Option(help="File of JSON lines to write.")],
    settings: Settings = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
) -> None:
    """Sample answers, score them, write them to a file."""
    if parent_exists(out).exists() and not overwrite:
        raise InputError(f"{out} exists: name another file, or say --overwrite")
    checked_recipe(recipe, settings)
    from ropewalk.runtime.jobs.sample import sample as sample_job

    with progress() as shown:
        samples = sample_job(recipe, out=out, set=overrides(settings), progress=shown)
    say(f"{len(samples)} samples in {out}")


def export(
    run: Annotated[str, RUN],
    out: Annotated[Path, typer.Option(help="Folder to make.")],
) -> None:
    """Copy a model out as a plain Hugging Face folder.

    RUN@best takes the best one instead of the last.
    """
    from ropewalk.runtime.jobs.export import export as export_run

    folder = export_run(run, out)
    say(f"the model is in {folder}")
