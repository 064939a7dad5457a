"""The command that chooses what to train on: `select`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ropewalk.cli.columns import folded, grid
from ropewalk.cli.progress import progress
from ropewalk.cli.said import say
from ropewalk.cli.settings import Settings, overrides

if TYPE_CHECKING:
    from ropewalk.runtime.jobs.select import SelectedPrompts

WHOSE = typer.Argument(
    metavar="RECIPE", help="A recipe with a task and a model, or a run folder; RUN@best asks its best policy."
)
BAR = 40
"""Characters of the longest bar."""


def select(
    recipe: Annotated[str, WHOSE],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to make, or to go on in.")],
    settings: Settings = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Throw away what the folder holds.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Choose the prompts that are worth training on.

    The policy answers each of them n times; those that pass sometimes are kept.

    Example: ropewalk select grpo-gsm8k --out chosen --set select.samples=16
    """
    from ropewalk.config.load import ConfigError
    from ropewalk.runtime.jobs.select import select as select_prompts
    from ropewalk.runtime.jobs.select import selection_job
    from ropewalk.runtime.look.dryrun import dry_run

    asked = overrides(settings)
    problems = dry_run(selection_job(recipe, asked)[0], deep=False).problems
    if problems:
        raise ConfigError(problems)
    with progress() as shown:
        found = select_prompts(recipe, out=out, set=asked, overwrite=overwrite, progress=shown)
    if as_json:
        say(json.dumps(found.summary(), allow_nan=False))
        return
    say(*lines_of(found))


def lines_of(found: "SelectedPrompts") -> list[str]:
    """The choice in words, the pass rates as a histogram, and what to do with it."""
    words = [line for sentence in found.selection.sentences() for line in folded(sentence)]
    emptied = found.selection.emptied()
    lost = [
        ("  prompts", "  first of the emptied cluster"),
        *((f"  {size}", f"  {first[:60]!r}") for size, first in emptied[:5]),
    ]
    words += grid(lost) if emptied else []
    files = found.files
    return [
        *histogram(found.histogram()),
        "",
        *words,
        "",
        f"kept prompts in {files.kept}, all of them with their pass rates in {files.prompts}",
        f"train on them: ropewalk train RECIPE --set rollout.only={files.kept}",
    ]


def histogram(bins: Sequence[tuple[int, int]]) -> list[str]:
    """A bar for each range of pass rates: dark where prompts are kept, light where not."""
    most = max((prompts for prompts, _ in bins), default=0) or 1
    lines = []
    for number, (prompts, kept) in enumerate(bins):
        dark = round(BAR * kept / most)
        light = round(BAR * prompts / most) - dark
        edge = f"{number / len(bins):.1f}-{(number + 1) / len(bins):.1f}"
        lines.append(f"{edge:>9}  {'█' * dark}{'░' * light} {kept} of {prompts}".rstrip())
    return ["pass rate  prompts kept", *lines]
