"""Chains of stages: each a recipe of its own, some at the same time, finished ones skipped on resume.

    driver ── starts ready stages, at most `at_once` ──▶ child process (forkserver, torch imported once)
       ▲                                                    │ runs one recipe in <folder>/<stage>
       └────────── progress queue, exit ────────────────────┘

A stage waits for those it names as `stage:NAME` (or `stage:NAME@best`) in its settings. A stage is done when its
own status file says finished: so a chain killed anywhere goes on where it stopped. One failed stage lets the
running ones end and starts no more.
"""

import hashlib
import json
import multiprocessing
import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import ropewalk
from ropewalk.config.load import ConfigError
from ropewalk.records.errors import InputError, RopewalkError, RunStopped
from ropewalk.records.files import write_atomic
from ropewalk.runtime.progress import Progress
from ropewalk.runtime.recipe import Recipe, Stage, StagesRecipe, read_recipe, recipe_text
from ropewalk.runtime.run import Run

REFERENCE = re.compile(r"stage:([\w-]+)(@best|@last)?(/.*)?")


def needs(stage: Stage) -> frozenset[str]:
    """Names of the stages this one takes a model or data from."""
    return frozenset(m.group(1) for value in _strings(stage.set) if (m := REFERENCE.fullmatch(value)))


def ready(stages: Sequence[Stage], finished: frozenset[str], started: frozenset[str]) -> list[Stage]:
    """Stages that may start now, in order."""
    return [s for s in stages if s.name not in started | finished and needs(s) <= finished]


def check_stages(recipe: StagesRecipe) -> None:
    """Every reference names an earlier stage; every stage's recipe is valid."""
    known: set[str] = set()
    for stage in recipe.stage:
        if stage.name in known:
            raise InputError(f"two stages are called {stage.name!r}: stage names must differ")
        for name in sorted(needs(stage) - known):
            raise InputError(f"stage {stage.name!r} refers to stage:{name}, which is not an earlier stage")
        if stage.cache and needs(stage):
            raise InputError(f"stage {stage.name!r} cannot be cached: it builds on other stages")
        stage_recipe(recipe, stage, Path("<folder>"))
        known.add(stage.name)


def stage_recipe(recipe: StagesRecipe, stage: Stage, folder: Path) -> Recipe:
    """The stage's own recipe, its references replaced by folders."""
    settings = {key: _resolved(value, folder) for key, value in stage.set.items()}
    try:
        return read_recipe(stage.recipe, {"seed": recipe.seed, **settings})
    except ConfigError as error:
        raise ConfigError([f"stage {stage.name}: {problem}" for problem in error.problems]) from error


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [s for inner in value.values() for s in _strings(inner)]
    return [s for inner in value for s in _strings(inner)] if isinstance(value, list | tuple) else []


def _resolved(value: Any, folder: Path) -> Any:
    if isinstance(value, Mapping):
        return {key: _resolved(inner, folder) for key, inner in value.items()}
    if isinstance(value, str) and (match := REFERENCE.fullmatch(value)):
        name, which, rest = match.groups()
        return f"{folder / name}{which or ''}{rest or ''}"
    return value


@dataclass(frozen=True, slots=True)
class _Forward:
    """A child's progress, sent to the driver."""

    stage: str
    queue: "SimpleQueue[tuple[str, str, tuple[Any, ...]]]"

    def begin(self, what: str, total: int, done: int = 0) -> None:
        self.queue.put((self.stage, "begin", (what, total, done)))

    def advance(self, done: int, note: str = "") -> None:
        self.queue.put((self.stage, "advance", (done, note)))

    def say(self, line: str) -> None:
        self.queue.put((self.stage, "say", (line,)))


def _child(stage: str, text: str, folder: str, queue: "SimpleQueue[tuple[str, str, tuple[Any, ...]]]") -> None:
    from ropewalk.runtime.train import run_recipe  # noqa: PLC0415  (the driver must not import torch)

    # A terminal sends Ctrl-C to children too; the driver hands it down once, as SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run_recipe(read_recipe_text(text), Run(Path(folder)), resume=True, progress=_Forward(stage, queue))
    except RopewalkError as error:
        queue.put((stage, "failed", (str(error),)))
        raise SystemExit(1) from None


def read_recipe_text(text: str) -> Recipe:
    """A resolved recipe from its own text."""
    import tomllib  # noqa: PLC0415

    from ropewalk.runtime.recipe import load_recipe  # noqa: PLC0415

    return load_recipe(tomllib.loads(text))


class Chain:
    """Runs the stages of one recipe in one folder."""

    def __init__(self, recipe: StagesRecipe, folder: Path, progress: Progress) -> None:
        check_stages(recipe)
        self.recipe, self.folder, self.progress = recipe, folder, progress
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["ropewalk.runtime.train"])
        self.queue: SimpleQueue[tuple[str, str, tuple[Any, ...]]] = self.context.SimpleQueue()
        self.running: dict[str, BaseProcess] = {}
        self.done: dict[str, tuple[int, int]] = {}

    def run(self) -> dict[str, Run]:
        """All stages; their runs by name. Raises the first failure once the running stages have ended."""
        failures: list[str] = []
        finished = frozenset(s.name for s in self.recipe.stage if self._finished(s.name))
        self.progress.begin("stages", len(self.recipe.stage), len(finished))
        try:
            while len(finished) < len(self.recipe.stage):
                if not failures:
                    self._start(finished)
                if not self.running:
                    break
                failures += self._wait()
                finished = frozenset(s.name for s in self.recipe.stage if self._finished(s.name))
                self.progress.advance(len(finished), self._note())
        finally:
            self._end()
        if failures:
            raise RunStopped(f"{failures[0]}; mend it and resume {self.folder}")
        return {stage.name: Run(self.folder / stage.name) for stage in self.recipe.stage}

    def _end(self) -> None:
        """Running stages save and end; a second interrupt ends them at once."""
        for _ in range(2):
            for process in self.running.values():
                process.terminate()
            try:
                for process in self.running.values():
                    process.join()
            except KeyboardInterrupt:
                continue
            return

    def _finished(self, name: str) -> bool:
        return name not in self.running and Run(self.folder / name).status().get("state") == "finished"

    def _start(self, finished: frozenset[str]) -> None:
        started = frozenset(self.running)
        for stage in ready(self.recipe.stage, finished, started)[: self.recipe.at_once - len(self.running)]:
            recipe = stage_recipe(self.recipe, stage, self.folder)
            place = self.folder / stage.name
            if stage.cache and restore(recipe, place):
                self.progress.say(f"{stage.name}: taken from the cache")
            arguments = (stage.name, recipe_text(recipe), str(place), self.queue)
            process = self.context.Process(target=_child, args=arguments, name=f"ropewalk-{stage.name}")
            process.start()
            self.running[stage.name] = process

    def _wait(self) -> list[str]:
        """Until a stage ends; the failures among those that did."""
        reasons: dict[str, str] = {}
        while all(process.is_alive() for process in self.running.values()):
            self._listen(reasons)
            next(iter(self.running.values())).join(timeout=0.1)
        self._listen(reasons)
        failures = []
        for name in [n for n, process in self.running.items() if not process.is_alive()]:
            process = self.running.pop(name)
            if process.exitcode != 0:
                failures.append(f"stage {name}: " + reasons.get(name, f"ended with exit code {process.exitcode}"))
                continue
            stage = next(s for s in self.recipe.stage if s.name == name)
            if stage.cache:
                keep(stage_recipe(self.recipe, stage, self.folder), self.folder / name)
        return failures

    def _listen(self, reasons: dict[str, str]) -> None:
        while not self.queue.empty():
            stage, what, arguments = self.queue.get()
            if what == "failed":
                reasons[stage] = arguments[0]
            elif what == "say":
                self.progress.say(f"{stage}: {arguments[0]}")
            elif what == "begin":
                self.done[stage] = (arguments[2], arguments[1])
            elif what == "advance":
                self.done[stage] = (arguments[0], self.done.get(stage, (0, 0))[1])
        self.progress.advance(len(self.recipe.stage) - self._left(), self._note())

    def _left(self) -> int:
        return sum(not self._finished(stage.name) for stage in self.recipe.stage)

    def _note(self) -> str:
        return "  ".join(
            f"{name} {done}/{total}" for name in self.running for done, total in [self.done.get(name, (0, 0))]
        )


# -- cache ---------------------------------------------------------------------------------------------------------


def cache_folder() -> Path:
    """Where finished stages are kept: $ROPEWALK_CACHE, else the user's cache folder."""
    base = os.environ.get("ROPEWALK_CACHE")
    return Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ropewalk"


def cache_key(recipe: Recipe) -> str:
    """Hash of the resolved recipe and of this package's own code."""
    digest = hashlib.blake2b(recipe_text(recipe).encode(), digest_size=16)
    for path in sorted(Path(ropewalk.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def restore(recipe: Recipe, place: Path) -> bool:
    """Copy a kept stage to its place; False if there is none, or the place is taken."""
    kept = cache_folder() / cache_key(recipe)
    if not (kept / "status.json").exists() or place.exists():
        return False
    shutil.copytree(kept, place)
    return True


def keep(recipe: Recipe, place: Path) -> None:
    """Keep a finished stage; a cache that cannot be written costs only time."""
    kept = cache_folder() / cache_key(recipe)
    if kept.exists():
        return
    building = kept.with_name(f"{kept.name}.{os.getpid()}.tmp")
    try:
        building.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(place, building)
        building.rename(kept)
    except OSError:
        shutil.rmtree(building, ignore_errors=True)


def write_stages(recipe: StagesRecipe, folder: Path) -> None:
    """The chain's own recipe beside its stages."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "recipe.toml", recipe_text(recipe))
    write_atomic(folder / "stages.json", json.dumps([stage.name for stage in recipe.stage]) + "\n")
