"""Run one recipe from its first iteration, or from where it stopped, to its model and report.

    set-up ─▶ (restore | start) ─▶ loop ─▶ model/ ─▶ report.html ─▶ status "finished"

A first Ctrl-C or SIGTERM ends the run after the present iteration with a checkpoint; a second one, or one outside
the loop, at once. A new run that never got to its loop because of its input leaves no folder behind.
"""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ropewalk
from ropewalk.config.load import ConfigError
from ropewalk.monitors.report.page import write_report
from ropewalk.records.errors import InputError, Interrupted, RopewalkError, RunStopped
from ropewalk.records.files import write_atomic
from ropewalk.records.prompt import Json
from ropewalk.runtime.assemble import formula_of, graph_of, plan_of
from ropewalk.runtime.book import RunBook
from ropewalk.runtime.config import NoEvaluation
from ropewalk.runtime.crew import Crew
from ropewalk.runtime.interrupt import Interrupt, interruptible
from ropewalk.runtime.jobs.sample import run_sample
from ropewalk.runtime.learned.calls import learned_rewards
from ropewalk.runtime.lock import NAME as LOCK_FILE
from ropewalk.runtime.lock import locked
from ropewalk.runtime.loop import Loop
from ropewalk.runtime.progress import Progress, Silent
from ropewalk.runtime.recipe import (
    GRPORecipe,
    PPORecipe,
    Recipe,
    SampleRecipe,
    SFTRecipe,
    StagesRecipe,
    TrainingRecipe,
    read_recipe,
    recipe_text,
)
from ropewalk.runtime.recovery import export_results, restore, sweep
from ropewalk.runtime.run import Run, create_run, has_content, open_run
from ropewalk.runtime.stages import Chain, write_stages
from ropewalk.runtime.state import RunState
from ropewalk.runtime.work import Work, prepare
from ropewalk.tasks.scoring.sandbox.shared import sandboxes
from ropewalk.tasks.task import Task


def train(
    recipe: str | Path,
    *,
    task: Task | None = None,
    set: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Train by a recipe's name or file, with `set` overriding dotted keys, and return the finished run.

    `task` replaces the recipe's task by an object of your own; reward components that it does not score go with the
    old task, unless `set` speaks of the reward. `resume` names a run folder to go on with (the recipe
    is then the folder's own and `set` is refused). Raises `ConfigError` for a wrong recipe, `InputError` for wrong
    input, `RunStopped` when a run ended early.
    """
    progress = progress or Silent()
    if resume is not None:
        if set:
            raise InputError("a resumed run keeps its recipe: start a new run to change settings")
        run = open_run(resume)
        return run_recipe(read_recipe(run.recipe_file), run, task=task, resume=True, progress=progress)
    overrides = dict(set or {})
    if task is not None:
        overrides |= {"task": {"kind": "given"}}
    loaded = read_recipe(recipe, overrides)
    if task is not None and not any(key.partition(".")[0] == "reward" for key in overrides):
        loaded = _rewarded_by(task, loaded)
    run = create_run(Path(recipe).stem, out=Path(out) if out else None, overwrite=overwrite)
    try:
        return run_recipe(loaded, run, task=task, progress=progress)
    except (InputError, ConfigError):
        _remove_unstarted(run)
        raise


def _rewarded_by(task: Task, recipe: Recipe) -> Recipe:
    if not isinstance(recipe, PPORecipe | GRPORecipe):
        return recipe
    learned = {one.name for one in learned_rewards(recipe)}
    components = {n: c for n, c in recipe.reward.components.items() if n in task.scorers or n in learned}
    return recipe.model_copy(update={"reward": recipe.reward.model_copy(update={"components": components})})


def run_recipe(
    recipe: Recipe,
    run: Run,
    *,
    task: Task | None = None,
    resume: bool = False,
    replay_of: Run | None = None,
    progress: Progress | None = None,
) -> Run:
    """Run a recipe in a folder. With `resume`, finished work in it is kept and the rest goes on.

    With `replay_of`, an online recipe trains on that run's recorded rollouts, and goes on so when it is resumed.
    """
    progress = progress or Silent()
    if resume and (origin := run.lineage().get("replay_of")) is not None:
        replay_of = open_run(str(origin))
    run.folder.mkdir(parents=True, exist_ok=True)
    if isinstance(recipe, StagesRecipe):
        check_same_chain(recipe, run)
    if resume and run.status().get("state") == "finished":
        return run
    with locked(run.folder), sandboxes():
        if not resume and has_content(run.folder):
            raise InputError(
                f"another process began a run in {run.folder} meanwhile: name another folder, or resume it"
            )
        sweep(run)
        try:
            with interruptible(run.folder) as asked:
                match recipe:
                    case StagesRecipe():
                        write_stages(recipe, run.folder)
                        Chain(recipe, run.folder, progress).run()
                        run.write("status.json", {"state": "finished"})
                    case SampleRecipe():
                        run_sample(recipe, run, task=task, progress=progress)
                    case _:
                        _train_one(recipe, run, Given(task, resume, asked, replay_of), progress)
        except RopewalkError as error:
            run.write("status.json", {"state": "stopped", "reason": str(error)})
            raise
    return replace(run, task=task)


def check_same_chain(recipe: StagesRecipe, run: Run) -> None:
    """A chain goes on with the recipe it was begun with, or its stages would not fit each other."""
    if run.recipe_file.exists() and run.recipe_file.read_text("utf-8") != recipe_text(recipe):
        raise InputError(f"{run.folder} holds a chain of another recipe or seed: resume it, or name another --out")


@dataclass(frozen=True, slots=True)
class Given:
    """What a call of `train` hands to its one run."""

    task: Task | None
    resume: bool
    interrupt: Interrupt
    replay_of: Run | None


def _train_one(recipe: TrainingRecipe, run: Run, given: Given, progress: Progress) -> None:
    plan = plan_of(recipe, graph_of(recipe))
    write_atomic(run.recipe_file, recipe_text(recipe))
    write_atomic(run.folder / "plan.json", plan.to_json() + "\n")
    run.write("status.json", {"state": "running"})
    progress.begin("loading", 1)
    crew, work = prepare(recipe, given.task, progress, replay_of=given.replay_of)
    try:
        state = work.start
        if given.resume:
            keep = recipe.checkpoint.keep
            state = restore(run, crew, work.start, progress, source=work.source, role=work.role, keep=keep)
        if state.iteration == 0:
            state = work.begin(state)
        _write_lineage(recipe, run, state, crew, work.role)
        if given.replay_of is not None:
            run.write("lineage.json", {**run.lineage(), "replay_of": str(given.replay_of.folder)})
        _loop(recipe, run, crew, work, state, given.interrupt, progress)
    finally:
        crew.close()


def _loop(
    recipe: TrainingRecipe,
    run: Run,
    crew: Crew,
    work: Work,
    state: RunState,
    interrupt: Interrupt,
    progress: Progress,
) -> None:
    book = RunBook(
        run,
        crew,
        record=recipe.record,
        health=recipe.health,
        checkpoints=recipe.checkpoint,
        limits=work.limits,
        best_by=work.best_by,
    )
    book.progress, book.exported_role = progress, work.role
    book.ratio_tolerance = work.ratio_tolerance
    book.go_on(state)
    if not isinstance(recipe.evaluate, NoEvaluation):
        book.evaluate, book.evaluate_every = work.evaluate, recipe.evaluate.iterations
    progress.begin("training", work.limits.iterations, state.iteration)
    watch = work.watch
    watch.restart(state.seconds)
    try:
        interrupt.note = book.interrupt
        graph = graph_of(recipe)
        loop = Loop(crew, graph, plan_of(recipe, graph), work.source, work.credit, book, watch)
        state, reason = loop.run(state)
    finally:
        interrupt.note = None
        book.close()
    if book.dead is not None:
        raise RunStopped(reason)
    if interrupt.number is not None and reason == book.interrupted:
        raise Interrupted(reason, interrupt.number)
    export_results(run, crew, work.role, recipe.sharpen if isinstance(recipe, SFTRecipe) else 1.0)
    finished: dict[str, Json] = {"state": "finished", "reason": reason, "iterations": state.iteration}
    write_report(run.folder, status=finished)
    run.write("status.json", finished)


def _remove_unstarted(run: Run) -> None:
    """Remove the folder of a run in which nothing was done yet, unless another process is at work in it."""
    with suppress(InputError), locked(run.folder, wait_seconds=0):
        names = {path.name for path in run.folder.iterdir()}
        if names <= {"recipe.toml", "stages.json", "plan.json", "status.json", LOCK_FILE}:
            shutil.rmtree(run.folder)


def _write_lineage(recipe: TrainingRecipe, run: Run, state: RunState, crew: Crew, role: str) -> None:
    earlier = run.lineage() if state.iteration else {}
    rewards: Mapping[str, Any] = earlier.get("reward_statistics", state.rewards)  # type: ignore[assignment]
    start = recipe.start_from or getattr(recipe.model, "path", None) or "fresh weights"
    run.write(
        "lineage.json",
        {
            "ropewalk": ropewalk.__version__,
            "method": recipe.method,
            "objective": formula_of(recipe),
            "start": start,
            "start_fingerprint": str(crew.call("fingerprint", role=role).result())
            if state.iteration == 0
            else earlier.get("start_fingerprint"),
            "frozen": dict(state.fingerprints),
            "reward_statistics": {name: dict(entry) for name, entry in rewards.items()},
            "seed": recipe.seed,
        },
    )
