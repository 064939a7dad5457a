"""Saving a run's complete state, and deciding where a resumed run goes on.

A checkpoint holds the workers' tensors and the controller's state of one finished iteration. Resuming takes the
newest complete one, names broken ones, checks that the frozen roles are those of the start, cuts the run's files
back to that iteration, and finishes what a crash may have left undone of the save itself: marking the best one and
removing old ones.
"""

import shutil
from collections.abc import Mapping
from dataclasses import replace

from ropewalk.monitors.lines import truncate_after
from ropewalk.monitors.timeline import read_timeline, write_timeline
from ropewalk.records.errors import InputError
from ropewalk.records.files import rollout_files
from ropewalk.runtime.crew import Crew
from ropewalk.runtime.experience import Source
from ropewalk.runtime.progress import Progress
from ropewalk.runtime.run import Run
from ropewalk.runtime.state import RunState
from ropewalk.training.checkpoint import best, load, mark_best, newest, prune, save

HALF_WRITTEN = (".*.tmp", ".*.part", "*.new", "rollouts/.*.tmp", "checkpoints/.*")
"""Names under which files and folders are written before they get their own, or removed after."""


def save_checkpoint(run: Run, crew: Crew, state: RunState, *, keep: int) -> None:
    """Save everything of this iteration; keep the newest `keep` and the best."""
    tensors = crew.call("state_tensors").result()
    path = save(run.checkpoints, state.iteration, tensors=tensors, state=state.to_json())
    if state.best_iteration == state.iteration and state.best_value is not None:
        mark_best(path, state.best_value)
    prune(run.checkpoints, keep=keep)


def restore(
    run: Run, crew: Crew, fresh: RunState, progress: Progress, *, source: Source, role: str, keep: int
) -> RunState:
    """The state to go on from: the newest complete checkpoint's, its tensors put in place; `fresh` if there is none.

    `role` is the one whose weights are the run's result. Raises `InputError`, before anything is changed, if the data
    or a frozen model are not those of the run.
    """
    found = newest(run.checkpoints)
    for broken in found.broken:
        progress.say(f"warning: {broken}; it is passed over")
    if found.path is None:
        cut_back(run, fresh)
        return fresh
    checkpoint = load(found.path)
    state = RunState.from_json(checkpoint.state)
    check_frozen(fresh.fingerprints, state.fingerprints)
    source.check(state.ledger)
    crew.call("load_state_tensors", tensors=checkpoint.tensors).result()
    cut_back(run, state)
    if state.best_iteration == state.iteration and state.best_value is not None:
        mark_best(found.path, state.best_value)
        crew.call("export", role=role, folder=run.best).result()
    prune(run.checkpoints, keep=keep)
    return state


def export_results(run: Run, crew: Crew, role: str, sharpen: float) -> None:
    """`model/` from the weights as they are, and `best/` where no save was the best; with `sharpen`, both sharper."""
    if sharpen != 1:
        marked, last = best(run.checkpoints), newest(run.checkpoints)
        if marked is not None and last.path is not None and marked[0] != last.path:
            crew.call("load_state_tensors", tensors=load(marked[0]).tensors).result()
            crew.call("sharpen", role=role, factor=sharpen).result()
            crew.call("export", role=role, folder=run.best).result()
            crew.call("load_state_tensors", tensors=load(last.path).tensors).result()
        else:
            shutil.rmtree(run.best, ignore_errors=True)
        crew.call("sharpen", role=role, factor=sharpen).result()
    crew.call("export", role=role, folder=run.model).result()
    if not run.best.is_dir():
        crew.call("export", role=role, folder=run.best).result()


def sweep(run: Run) -> None:
    """Remove what a killed process was in the middle of writing; the caller holds the folder's lock."""
    for pattern in HALF_WRITTEN:
        for path in run.folder.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def check_frozen(now: Mapping[str, str], then: Mapping[str, str]) -> None:
    """Frozen roles must be those the run began with."""
    for role in sorted(now.keys() | then.keys()):
        if now.get(role) != then.get(role):
            raise InputError(
                f"the {role} model is not the one this run began with ({then.get(role)} then, {now.get(role)} now): "
                "put the old folder back, or start a new run"
            )


def cut_back(run: Run, state: RunState) -> None:
    """Drop what was written about iterations after this state's."""
    for path in (run.metrics_file, run.samples_file):
        truncate_after(path, state.iteration)
    for number, path in list(rollout_files(run.rollouts)) if run.rollouts.exists() else []:
        if number > state.iteration:
            path.unlink()
    if run.timeline_file.exists():
        spans, _ = read_timeline(run.timeline_file)
        write_timeline(run.timeline_file, [span for span in spans if span.start_seconds < state.seconds])


def with_fingerprints(state: RunState, crew: Crew, frozen: list[str]) -> RunState:
    """The state with the fingerprints of the roles that never train."""
    found = {role: str(crew.call("fingerprint", role=role).result()) for role in frozen}
    return replace(state, fingerprints=found)
