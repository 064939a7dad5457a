"""Commands that train: `train`, `replay`, `demo`."""

import signal
from pathlib import Path
from typing import Annotated

import typer

from ropewalk.cli.progress import progress
from ropewalk.cli.said import say, table
from ropewalk.cli.settings import RECIPE, RUN, Settings, checked_recipe, overrides
from ropewalk.cli.summary import summary
from ropewalk.config.load import ConfigError
from ropewalk.records.errors import InputError, Interrupted
from ropewalk.runtime.interrupt import NAMES
from ropewalk.runtime.recipe import read_recipe


def train(
    recipe: Annotated[str | None, RECIPE] = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; else the next free runs/RECIPE-NUMBER.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run that is in --out.")] = False,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with a run where it stopped.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check all and show the plan; train nothing.")] = False,
) -> int | None:
    """Train by a recipe, or go on with a run."""
    if resume is not None:
        if recipe is not None or settings or out is not None or overwrite or dry_run:
            raise InputError("--resume goes on with a run as it is: give nothing else with it, or start a new run")
        _resume(resume)
        return None
    if recipe is None:
        raise InputError("name a recipe (`ropewalk recipes` lists them), or a run to go on with by --resume RUN")
    if overwrite and out is None:
        raise InputError("--overwrite needs --out, the run folder to replace")
    if dry_run:
        return _dry_run(recipe, settings)
    checked_recipe(recipe, settings)
    from ropewalk.runtime.train import train as train_run

    with progress() as shown:
        run = train_run(recipe, set=overrides(settings), out=out, overwrite=overwrite, progress=shown)
    say(*summary(run))
    return None


def _resume(folder: Path) -> None:
    from ropewalk.runtime.run import open_run

    run = open_run(folder)
    if run.status().get("state") == "finished":
        say(f"{folder} is finished: there is nothing to go on with")
    else:
        from ropewalk.runtime.train import train as train_run

        with progress() as shown:
            train_run(folder, resume=folder, progress=shown)
    say(*summary(run))


def _dry_run(name: str, settings: Settings) -> int:
    """The plan on stdout; problems on stderr."""
    from ropewalk.runtime.look.dryrun import dry_run

    recipe = read_recipe(name, overrides(settings))
    found = dry_run(recipe)
    say(f"{Path(name).stem}: a dry run of method {recipe.method}", "", *table(found.facts), "")
    if found.problems:
        raise ConfigError(found.problems)
    say("nothing is wrong with it; nothing was trained or written")
    return 0


def replay(
    run: Annotated[Path, RUN],
    out: Annotated[Path | None, typer.Option(help="Folder of the new run; else the next free one in runs/.")] = None,
) -> None:
    """Train again from recorded rollouts, without an engine.

    The run must have recorded them: record.rollouts = true.
    """
    from ropewalk.runtime.jobs.replay import replay as replay_run

    with progress() as shown:
        made = replay_run(run, out=out, progress=shown)
    say(*summary(made))


def demo(
    full: Annotated[bool, typer.Option("--full", help="All runs of the laboratory, not the short form.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder; else the next free runs/demo-NUMBER.")] = None,
    seed: Annotated[int, typer.Option(help="Everything random follows from it.")] = 0,
) -> None:
    """Show reward hacking in a world of known truth.

    The city laboratory: pretraining, a reward model, and runs with and without the rope, on one page.
    """
    from ropewalk.runtime.jobs.laboratory import run_demo
    from ropewalk.runtime.run import create_run

    place = out or create_run("demo").folder
    try:
        with progress() as shown:
            run, facts = run_demo(full=full, out=place, seed=seed, progress=shown)
    except (Interrupted, KeyboardInterrupt) as error:
        number = error.number if isinstance(error, Interrupted) else signal.SIGINT
        again = f"ropewalk demo --out {place} --seed {seed}{' --full' if full else ''}"
        raise Interrupted(f"stopped by {NAMES[signal.Signals(number)]}; go on with: {again}", number) from None
    rows = [
        (label, f"true score {now.true_first:+.2f} → {now.true_last:+.2f}, {now.grammatical:.0%} grammatical")
        for label, now in facts.runs.items()
    ]
    say(*table(rows), "", f"report: {run.report_file}")
