"""The command that judges what is there: `score`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ropewalk.cli.columns import folded, grid
from ropewalk.cli.progress import progress
from ropewalk.cli.said import say
from ropewalk.cli.settings import Settings, overrides, parent_exists
from ropewalk.records.errors import InputError
from ropewalk.runtime.jobs.score_file import ScoredFile, score_file

TASK = typer.Argument(
    metavar="TASK", help="A recipe, a run folder, a Python file with TASK, or a kind of task such as sums."
)
FILE = typer.Argument(metavar="FILE", help="JSON lines: prompt_id or prompt, and completion; `sample` writes such.")


def score(
    task: Annotated[str, TASK],
    file: Annotated[Path, FILE],
    out: Annotated[Path | None, typer.Option(help="File of scored rows to write.")] = None,
    explain: Annotated[
        int | None, typer.Option(metavar="ROW", help="Say how this row, from 1, got its reward.")
    ] = None,
    settings: Settings = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of scored rows.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Score a file of completions by a task and its reward, as a run would.

    Example: ropewalk score city-grpo samples.jsonl --explain 3
    """
    if out is not None:
        _writable(out, file, overwrite)
    with progress() as shown:
        found = score_file(task, file, set=overrides(settings), progress=shown)
    words = found.explained(explain) if explain is not None else []
    if out is not None:
        found.write(out)
    if as_json:
        more = {"explained": {"row": explain, "words": words}} if explain is not None else {}
        say(json.dumps({**found.summary(), **more}, allow_nan=False))
        return
    say(*summary_lines(found))
    if explain is not None:
        say("", f"row {explain}", *(line for sentence in words for line in folded(sentence, indent=2)))
    if out is not None:
        say(f"scored rows in {out}")


def summary_lines(found: ScoredFile) -> list[str]:
    """The table of scorers, and the reward."""
    head = ("scorer", "mean", "scored", "failed", "abstained", "gated out", "adds to the reward")
    rows = [head, *(_row(name, about) for name, about in found.scorers.items())]
    total = found.summary()
    mean = "none" if total["reward"] is None else f"{total['reward']:.6g} on average"
    return [*grid(rows), f"reward: {mean}, over {total['rewarded']} of {total['rows']} rows of {total['task']}"]


def _row(name: str, about: Mapping[str, Any]) -> tuple[str, ...]:
    reasons = ", ".join(f"{count} {reason}" for reason, count in about["failed"].items())
    numbers = [about[key] for key in ("mean", "adds")]
    mean, adds = ("-" if number is None else f"{number:.6g}" for number in numbers)
    return name, mean, str(about["scored"]), reasons or "0", str(about["abstained"]), str(about["gated"]), adds


def _writable(out: Path, file: Path, overwrite: bool) -> None:
    if parent_exists(out).exists() and file.exists() and out.samefile(file):
        raise InputError(f"{out} is the file to be scored: name another for the scored rows")
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists: name another file, or say --overwrite")
