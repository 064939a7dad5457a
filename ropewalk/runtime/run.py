"""The run folder: what a run leaves behind, and how others find it.

Nothing in an existing run folder is ever overwritten unless the caller says so.

    runs/<recipe>-<number>/
      recipe.toml      resolved, re-loadable        metrics.jsonl   one line an iteration
      lineage.json     where its parts came from    samples.jsonl   what the policy said
      status.json      running | finished | stopped timeline.json   Chrome trace of the calls
      checkpoints/     complete states to resume    rollouts/       samples to replay, if asked
      model/ best/     plain Hugging Face folders   report.html     one page, opens without network
"""

import itertools
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ropewalk.records.errors import InputError
from ropewalk.records.files import read_jsonl, write_atomic
from ropewalk.records.prompt import Json
from ropewalk.runtime.lock import locked
from ropewalk.runtime.recipe import built_in
from ropewalk.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Run:
    """A run folder, by its path."""

    folder: Path
    task: Task | None = field(default=None, compare=False, repr=False)
    """The Task object that a run was given from Python, which no file can hold."""

    @property
    def recipe_file(self) -> Path:
        return self.folder / "recipe.toml"

    @property
    def metrics_file(self) -> Path:
        return self.folder / "metrics.jsonl"

    @property
    def samples_file(self) -> Path:
        return self.folder / "samples.jsonl"

    @property
    def timeline_file(self) -> Path:
        return self.folder / "timeline.json"

    @property
    def rollouts(self) -> Path:
        return self.folder / "rollouts"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def best(self) -> Path:
        return self.folder / "best"

    @property
    def report_file(self) -> Path:
        return self.folder / "report.html"

    def metrics(self) -> list[dict[str, Json]]:
        """One dictionary per iteration, as written; a torn last line is left out."""
        if not self.metrics_file.exists():
            return []
        return [row for row in read_jsonl(self.metrics_file, torn_tail=True) if isinstance(row, dict)]

    def status(self) -> dict[str, Json]:
        return self.read("status.json")

    def lineage(self) -> dict[str, Json]:
        return self.read("lineage.json")

    def read(self, name: str) -> dict[str, Json]:
        """A JSON object of the folder; empty when it is not there."""
        path = self.folder / name
        if not path.exists():
            return {}
        content = json.loads(path.read_text(encoding="utf-8"))
        return content if isinstance(content, dict) else {}

    def write(self, name: str, content: Mapping[str, Json]) -> None:
        write_atomic(self.folder / name, json.dumps(content, indent=1) + "\n")


def create_run(name: str, *, out: Path | None = None, overwrite: bool = False) -> Run:
    """A new, empty run folder: `out`, or the next free `runs/<name>-<number>`."""
    if out is not None:
        if out.exists() and (not out.is_dir() or has_content(out)):
            if not overwrite:
                raise InputError(f"{out} is not empty: name another --out, or say --overwrite to replace it")
            remove_run(out)
        out.mkdir(parents=True, exist_ok=True)
        return Run(out)
    for number in itertools.count(1):
        folder = Path("runs") / f"{name}-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return Run(folder)
    raise AssertionError("unreachable")


def has_content(folder: Path) -> bool:
    """Hidden files alone, which a run killed at its very start leaves, are none."""
    return any(not path.name.startswith(".") for path in folder.iterdir())


def remove_run(folder: Path) -> None:
    """Delete a run folder; anything else is refused, and so is one in which another process is working."""
    if not (folder / "recipe.toml").exists() and not (folder / "stages.json").exists():
        raise InputError(f"{folder} is not a run folder (it has no recipe.toml): remove it yourself or name another")
    with locked(folder):
        shutil.rmtree(folder)


def open_run(path: str | Path) -> Run:
    """An existing run folder."""
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"there is no run folder {folder}: `ropewalk train` makes one under runs/")
    run = Run(folder)
    if not run.recipe_file.exists():
        raise InputError(f"{folder} is not a run folder: it has no recipe.toml")
    return run


def model_folder(reference: str) -> Path:
    """The model folder meant by `runs/x`, `runs/x@best`, `runs/x@last`, or a plain model folder."""
    name, _, which = reference.partition("@")
    folder = Path(name)
    if which not in ("", "best", "last"):
        raise InputError(f"{reference}: after @ comes best or last, not {which!r}")
    if not (folder / "recipe.toml").exists():
        if which:
            raise InputError(f"{reference}: {folder} is not a run folder, so it has no {which} model")
        return folder
    found = folder / ("best" if which == "best" else "model")
    if not found.is_dir():
        raise InputError(f"{reference}: the run has no {found.name}/ folder yet; let it finish or resume it first")
    return found


def local_model(reference: str) -> Path:
    """Like `model_folder`, for what must lie on this machine: a missing run is never looked for on the hub."""
    found = model_folder(reference)
    if found.is_dir():
        return found
    recipe = Path(reference.partition("@")[0]).name.rpartition("-")[0]
    mend = f"make it with: ropewalk train {recipe}" if recipe in built_in() else "train it first, or name another"
    raise InputError(f"there is no run or model folder {reference}: {mend}")
