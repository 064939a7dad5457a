"""Chains of stages: each a recipe of its own, some at the same time, finished ones skipped on resume.

    driver ── starts ready stages, at most `at_once` ──▶ child process (forkserver, torch imported once)
       ▲                                                    │ runs one recipe in <folder>/<stage>
       └──── one pipe a child: news, or its end ────────────┘

A stage waits for those it names as `stage:NAME` (or `stage:NAME@best`) in its settings. A stage is done when its
own status file says finished: so a chain killed anywhere goes on where it stopped. One failed stage lets the
running ones end and starts no more. A child whose driver dies ends with it. No two children share a pipe or a lock,
so that one killed in the middle of a message harms nobody.
"""

import json
import multiprocessing
import re
import signal
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ropewalk.config.load import ConfigError, read_toml
from ropewalk.records.errors import InputError, RopewalkError, RunStopped
from ropewalk.records.files import write_atomic
from ropewalk.runtime.orphans import end_with_parent
from ropewalk.runtime.progress import Progress
from ropewalk.runtime.recipe import Recipe, Stage, StagesRecipe, load_recipe, recipe_path, recipe_text
from ropewalk.runtime.run import Run
from ropewalk.runtime.stage_cache import keep, take

REFERENCE = re.compile(r"stage:([\w-]+)(@best|@last)?(/.*)?")
STAGES_FILE = "stages.json"
NEWS_SECONDS = 0.2
"""A child tells of its progress at most this often."""


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
    """The stage's own recipe, its references replaced by folders.

    A chain that was begun in `folder` keeps the recipes it began with, whatever became of their files.
    """
    settings = {key: _resolved(value, folder) for key, value in stage.set.items()}
    begun = _begun(folder).get(stage.name)
    data = read_toml(recipe_path(stage.recipe)) if begun is None else tomllib.loads(begun)
    try:
        return load_recipe(data, {"seed": recipe.seed, **settings})
    except ConfigError as error:
        raise ConfigError([f"stage {stage.name}: {problem}" for problem in error.problems]) from error


def write_stages(recipe: StagesRecipe, folder: Path) -> None:
    """The chain's own recipe beside its stages, and every stage's recipe as it was when the chain began."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "recipe.toml", recipe_text(recipe))
    begun = _begun(folder)
    texts = {s.name: begun.get(s.name) or recipe_path(s.recipe).read_text("utf-8") for s in recipe.stage}
    write_atomic(folder / STAGES_FILE, json.dumps(texts, indent=1) + "\n")


def _begun(folder: Path) -> dict[str, str]:
    path = folder / STAGES_FILE
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [s for inner in value.values() for s in _strings(inner)]
    return [s for inner in value for s in _strings(inner)] if isinstance(value, list | tuple) else []


def _resolved(value: Any, folder: Path) -> Any:
    if isinstance(value, Mapping):
        return {key: _resolved(inner, folder) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_resolved(inner, folder) for inner in value]
    if isinstance(value, str) and (match := REFERENCE.fullmatch(value)):
        name, which, rest = match.groups()
        return f"{folder / name}{which or ''}{rest or ''}"
    return value


@dataclass(slots=True)
class _News:
    """A child's progress, sent to the driver; of many steps only some are told."""

    pipe: Connection
    told: float = 0.0
    total: int = 0

    def begin(self, what: str, total: int, done: int = 0) -> None:
        self.total = total
        self.pipe.send(("begin", (what, total, done)))

    def advance(self, done: int, note: str = "") -> None:
        now = time.monotonic()
        if now - self.told >= NEWS_SECONDS or done == self.total:
            self.told = now
            self.pipe.send(("advance", (done, note)))

    def say(self, line: str) -> None:
        self.pipe.send(("say", (line,)))


def _child(text: str, folder: str, pipe: Connection) -> None:
    from ropewalk.runtime.train import run_recipe  # noqa: PLC0415  (the driver must not import torch)

    end_with_parent()
    # A terminal sends Ctrl-C to children too; the driver hands it down once, as SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run_recipe(load_recipe(tomllib.loads(text)), Run(Path(folder)), resume=True, progress=_News(pipe))
    except RopewalkError as error:
        pipe.send(("failed", (str(error),)))
        raise SystemExit(1) from None


@dataclass(slots=True)
class _Running:
    """A stage whose child lives, and what it told."""

    process: BaseProcess
    pipe: Connection
    done: int = 0
    total: int = 0
    failure: str | None = None


@dataclass
class Chain:
    """Runs the stages of one recipe in one folder."""

    recipe: StagesRecipe
    folder: Path
    progress: Progress
    running: dict[str, _Running] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_stages(self.recipe)
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["ropewalk.runtime.train"])

    def run(self) -> dict[str, Run]:
        """All stages; their runs by name. Raises the first failure once the running stages have ended."""
        failures: list[str] = []
        finished = self._finished()
        self.progress.begin("stages", len(self.recipe.stage), len(finished))
        try:
            while len(finished) < len(self.recipe.stage):
                if not failures:
                    self._start(finished)
                if self.running:
                    failures += self._wait()
                elif failures:
                    break
                finished = self._finished()
                self._tell(len(finished))
        finally:
            self._end()
        if failures:
            raise RunStopped(f"{failures[0]}; mend it and resume {self.folder}")
        return {stage.name: Run(self.folder / stage.name) for stage in self.recipe.stage}

    def _end(self) -> None:
        """Running stages save and end; a second interrupt ends them at once."""
        for _ in range(2):
            for stage in self.running.values():
                stage.process.terminate()
            try:
                for stage in self.running.values():
                    self._drain(stage)
                    stage.process.join()
            except KeyboardInterrupt:
                continue
            return

    def _finished(self) -> frozenset[str]:
        return frozenset(
            stage.name
            for stage in self.recipe.stage
            if stage.name not in self.running and Run(self.folder / stage.name).status().get("state") == "finished"
        )

    def _start(self, finished: frozenset[str]) -> None:
        started = frozenset(self.running)
        for stage in ready(self.recipe.stage, finished, started)[: self.recipe.at_once - len(self.running)]:
            recipe = stage_recipe(self.recipe, stage, self.folder)
            place = self.folder / stage.name
            if stage.cache and take(recipe, place):
                self.progress.say(f"{stage.name}: taken from the cache")
                continue
            ours, theirs = self.context.Pipe(duplex=False)
            arguments = (recipe_text(recipe), str(place), theirs)
            process = self.context.Process(target=_child, args=arguments, name=f"ropewalk-{stage.name}")
            process.start()
            theirs.close()
            self.running[stage.name] = _Running(process, ours)

    def _wait(self) -> list[str]:
        """Until a stage ends; the failures among those that did."""
        ended: list[str] = []
        while not ended:
            names = {stage.pipe: name for name, stage in self.running.items()}
            spoke = [name for pipe in wait(list(names)) if isinstance(pipe, Connection) for name in [names[pipe]]]
            ended = [name for name in spoke if not self._hear(name)]
            self._tell()
        failures = []
        for name in ended:
            stage = self.running.pop(name)
            stage.process.join()
            stage.pipe.close()
            if stage.process.exitcode != 0:
                why = stage.failure or f"its process ended with exit code {stage.process.exitcode}"
                failures.append(f"stage {name}: {why}")
            elif Run(self.folder / name).status().get("state") != "finished":
                failures.append(f"stage {name}: its process ended before the stage did")
            elif (own := next(s for s in self.recipe.stage if s.name == name)).cache:
                keep(stage_recipe(self.recipe, own, self.folder), self.folder / name)
        return failures

    def _hear(self, name: str) -> bool:
        """Take in one message of a stage; False at its end. A message cut off by a kill is the end too."""
        stage = self.running[name]
        try:
            what, arguments = stage.pipe.recv()
        except (EOFError, OSError):
            return False
        match what:
            case "failed":
                stage.failure = arguments[0]
            case "say":
                self.progress.say(f"{name}: {arguments[0]}")
            case "begin":
                stage.done, stage.total = arguments[2], arguments[1]
            case _:
                stage.done = arguments[0]
        return True

    def _drain(self, stage: _Running) -> None:
        """Let an ending child finish its messages; nobody needs them."""
        while True:
            try:
                stage.pipe.recv()
            except (EOFError, OSError):
                return

    def _tell(self, finished: int | None = None) -> None:
        done = len(self._finished()) if finished is None else finished
        self.progress.advance(done, "  ".join(f"{n} {s.done}/{s.total}" for n, s in self.running.items()))
