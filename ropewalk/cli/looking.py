"""Commands that look: `eval`, `report`, `recipes`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ropewalk.cli.progress import progress
from ropewalk.cli.said import say, table
from ropewalk.cli.settings import RUN
from ropewalk.records.errors import InputError
from ropewalk.runtime.recipe import built_in, read_recipe, recipe_path, recipe_text
from ropewalk.runtime.run import Run, open_run

FELL = 3
"""Exit code of an evaluation in which a set fell beyond its interval."""


def evaluate(
    run: Annotated[str, RUN],
    suite: Annotated[Path | None, typer.Option(help="TOML file of task sets, instead of the run's own task.")] = None,
    model: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Compare with it, not with the start.")] = None,
    judge: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Reward model, or a .toml with a judge, that gives a win rate.")
    ] = None,
    prompts: Annotated[int | None, typer.Option(min=1, help="Held-out prompts.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Samples of each prompt.")] = None,
) -> int:
    """Compare a run's model with its start.

    Both answer the same held-out prompts with the same seeds.

    Exit code 3 says that a set fell beyond its 95 % interval.
    """
    open_run(run.partition("@")[0])
    from ropewalk.runtime.evaluation.evaluate import evaluate as evaluate_run

    with progress() as shown:
        found = evaluate_run(
            run, suite=suite, model=model, judge=judge, prompts=prompts, samples=samples, progress=shown
        )
    say(*found.lines())
    return FELL if found.fell else 0


def report(run: Annotated[Path, RUN]) -> None:
    """Write a run's report, one self-contained page.

    Also of a crashed run, and of a chain's folder: then a page for each stage and one that compares them.
    """
    if not run.is_dir():
        raise InputError(f"there is no run folder {run}: `ropewalk train` makes one under runs/")
    if (run / "stages.json").exists():
        say(*_report_stages(run))
        return
    from ropewalk.monitors.report.page import write_report

    say(f"report: {write_report(open_run(run).folder)}")


def _report_stages(folder: Path) -> list[str]:
    """A page for every stage that trained, and one that compares them."""
    from ropewalk.monitors.report.comparison import write_comparison
    from ropewalk.monitors.report.page import write_report

    names = json.loads((folder / "stages.json").read_text(encoding="utf-8"))
    stages = {name: folder / name for name in names if Run(folder / name).metrics_file.exists()}
    if not stages:
        raise InputError(f"no stage of {folder} has trained yet: resume it first")
    pages = [(name, str(write_report(place))) for name, place in stages.items()]
    page = write_comparison(stages, folder / "report.html", title=folder.name)
    return [*table(pages), f"report: {page}"]


def recipes(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Print this one with every key it has.")] = None,
) -> None:
    """List the built-in recipes, or print one, resolved."""
    if name is not None:
        recipe_path(name)
        say(recipe_text(read_recipe(name)).rstrip())
        return
    say(*table((found, described(path)) for found, path in built_in().items()))
    say("", "ropewalk recipes NAME prints one; ropewalk train NAME --dry-run shows what it would do")


def described(path: Path) -> str:
    """The first line of a recipe's leading comment, a sentence; what follows is for those who open it."""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.lstrip("# ").rstrip() if first.startswith("#") else ""
