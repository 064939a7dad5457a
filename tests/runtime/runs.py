"""Tiny runs of every method, ways to end them early, and what of two runs must be equal."""

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import safetensors.torch

from ropewalk.records.errors import Interrupted
from ropewalk.runtime.assemble import graph_of, plan_of
from ropewalk.runtime.book import RunBook
from ropewalk.runtime.clock import Stopwatch
from ropewalk.runtime.crew import Crew
from ropewalk.runtime.experience import Experience
from ropewalk.runtime.loop import Loop
from ropewalk.runtime.progress import Silent
from ropewalk.runtime.recipe import TrainingRecipe, read_recipe
from ropewalk.runtime.run import Run
from ropewalk.runtime.state import RunState
from ropewalk.runtime.train import train
from ropewalk.runtime.work import Work, prepare

ITERATIONS = 6
PRELOAD = ["ropewalk.runtime.train"]

ONLINE: dict[str, Any] = {
    "rollout.prompts": 4,
    "task.prompts": 64,
    "stop.iterations": ITERATIONS,
    "checkpoint.every": 2,
    "record.rollouts": True,
    "record.samples_every": 3,
}
LEARNED: dict[str, Any] = {**ONLINE, "reward.components.reward_model.normalise.samples": 16, "ppo.epochs": 2}
COMPOSED: dict[str, Any] = {
    "reward.components.truth.normalise": {"kind": "z_score"},
    "reward.components.grammatical": {"normalise": {"kind": "z_score", "estimate": "batch"}, "weight": 0.5},
    "reward.length": {"kind": "linear", "at_tokens": 15, "coefficient": 0.2},
    "reward.repetition": {"kind": "ngrams", "words": 2},
}
PARTS = {"near": (12, 0), "far": (7, 5)}
"""Parts of the mixed task: prompts and seed of each."""
MIXED: dict[str, Any] = {
    **{name: value for name, value in ONLINE.items() if name != "task.prompts"},
    "task": {
        "kind": "mixture",
        "parts": {
            name: {"weight": 2.0 if name == "near" else 1.0, "task": {"kind": "city", "prompts": count, "seed": seed}}
            for name, (count, seed) in PARTS.items()
        },
    },
    "rollout.group_size": 2,
    "rollout.flat": {"kind": "refill", "most": 2.5},
    "rollout.curriculum": {},
    "grpo.normalise_by": "task",
}
ADAPTIVE = {"kind": "adaptive", "target_nats_per_sequence": 0.01, "horizon_sequences": 20.0}
SUPERVISED: dict[str, Any] = {"checkpoint.every": 2, "actor.optimizer.lr": 1e-2}

CASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "sft": ("city-pretrain", {**SUPERVISED, "data.sentences": 40, "sft.rows_per_step": 20}),
    "reward-model": ("city-reward-model", {**SUPERVISED, "data.limit": 48, "pairwise.pairs_per_step": 14}),
    "ppo": ("city-ppo", LEARNED),
    "ppo-shared": ("city-ppo", {**LEARNED, "critic": "none", "ppo.critic.kind": "shared"}),
    "ppo-adaptive": ("city-ppo", {**LEARNED, "ppo.kl.controller": ADAPTIVE, "ppo.minibatches": 2}),
    "grpo": (
        "city-grpo",
        {**ONLINE, **COMPOSED, "actor.schedule": {"kind": "cosine", "warmup_steps": 3}, "grpo.epochs": 2},
    ),
    "grpo-mixed": ("city-grpo", MIXED),
}
"""Method → built-in recipe and settings; each makes six iterations, SFT and the reward model over epoch ends."""


@dataclass(frozen=True)
class Starts:
    """Where the tiny runs start from."""

    policy: Path
    pairs: Path
    reward_model: Path


def settings_of(case: str, starts: Starts) -> tuple[str, dict[str, Any]]:
    """Recipe and settings of a case."""
    recipe, own = CASES[case]
    settings = {**own, "start_from": str(starts.policy), "hardware.threads": 1}
    match case:
        case "sft":
            settings |= {"model": "none", "sft.epochs": 3, "sharpen": 1.1}
        case "reward-model":
            settings |= {"data.path": str(starts.pairs / "pairs.jsonl"), "data.held_out": 0.2, "pairwise.epochs": 2}
            settings |= {"evaluate": {"kind": "every", "iterations": 2}}
        case "grpo-mixed":
            settings |= {"rollout.only": str(chosen_prompts(starts.policy.parent / "chosen.jsonl"))}
            settings |= {"evaluate": {"kind": "every", "iterations": 2, "prompts": 4}}
        case "grpo":
            settings |= {"evaluate": {"kind": "every", "iterations": 3, "prompts": 4}}
        case _:
            settings |= {"reward_model": str(starts.reward_model)}
    return recipe, settings


def chosen_prompts(path: Path) -> Path:
    """A file of the mixed task's prompts with a difficulty each, without a few of them."""
    buckets = ("easy", "medium", "hard")
    ids = [(name, f"{name}/city-train-{seed}-{n}") for name, (count, seed) in PARTS.items() for n in range(count - 1)]
    rows = [{"id": id, "info": {"difficulty": buckets[n % 3]}} for n, (_, id) in enumerate(ids)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class Crash(Exception):
    """Stands for anything that ends a process between two statements."""


@dataclass
class At:
    """Progress that acts when the loop has written down iteration `iteration`, before it is saved."""

    iteration: int
    act: str
    """`crash`, or `signal` for a first SIGTERM."""
    said: list[str] = field(default_factory=list)
    training: bool = False

    def begin(self, what: str, total: int, done: int = 0) -> None:
        self.training = what == "training"

    def advance(self, done: int, note: str = "") -> None:
        if not self.training or done != self.iteration:
            return
        if self.act == "crash":
            raise Crash
        signal.raise_signal(signal.SIGTERM)

    def say(self, line: str) -> None:
        self.said.append(line)


def stopped_at(case: tuple[str, Mapping[str, Any]], out: Path, k: int, act: str) -> None:
    """Run a case until iteration k, and end it there."""
    recipe, settings = case
    try:
        train(recipe, set=settings, out=out, progress=At(k, act))
    except (Crash, Interrupted):
        return
    assert act == "signal" and k == ITERATIONS, f"the run was not ended at iteration {k}"


def resumed(out: Path) -> Run:
    """Go on with a run whose process was killed, were it at its very start."""
    assert (out / "recipe.toml").exists()
    return train("", resume=out)


# --- what must be equal ---------------------------------------------------------------------------

TIMES = ("time", "tokens_per_second")


def without_times(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith(TIMES)}


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def story(run: Run) -> dict[str, Any]:
    """All that a run leaves behind but for times: metrics, samples, prompts, weights, moments, state."""
    (newest, *_) = sorted(run.checkpoints.glob("step-*"), reverse=True)
    state = json.loads((newest / "state.json").read_text())
    told: dict[str, Any] = {
        "metrics": [without_times(row) for row in run.metrics()],
        "samples": lines(run.samples_file),
        "state": {name: value for name, value in state.items() if name != "seconds"},
        "status": run.status(),
        "lineage": run.lineage(),
        "recipe": run.recipe_file.read_text().replace(str(run.folder), ""),
        "kept": sorted(path.name for path in run.checkpoints.iterdir()),
        "best": json.loads((run.checkpoints / "best.json").read_text())
        if (run.checkpoints / "best.json").exists()
        else None,
        "files": files(run.folder),
        "rollouts": {path.name: path.read_text() for path in sorted(run.rollouts.glob("*"))},
    }
    for file in sorted(newest.glob("*.safetensors")):
        told[f"tensors of {file.stem}"] = contents(file)
    for folder in (run.model, run.best):
        told[f"weights of {folder.name}"] = contents(folder / "model.safetensors")
    return told


def files(folder: Path) -> list[str]:
    """Every file but the lock and the numbered rollouts."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in found if name != ".lock")


def contents(file: Path) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in safetensors.torch.load_file(file).items()}


def differences(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Names of the parts in which two stories differ; the first differing metric is named with its iteration."""
    found = [name for name in sorted(mine.keys() | theirs.keys()) if mine.get(name) != theirs.get(name)]
    for a, b in zip(mine["metrics"], theirs["metrics"], strict=False):
        for name in sorted(a.keys() | b.keys()):
            if a.get(name) != b.get(name):
                return [*found, f"{name} at iteration {a.get('iteration')}: {a.get(name)} and {b.get(name)}"]
    return found


# --- processes that are killed --------------------------------------------------------------------

WRITING = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"}


def _operations(folder: str, kill_at: int | None, count: list[int]) -> Any:
    """An audit hook that counts changes of files under a folder, and kills its own process at the n-th."""

    def hook(event: str, arguments: Sequence[Any]) -> None:
        if event == "open":
            mode = arguments[2]
            if not (isinstance(mode, int) and mode & (os.O_WRONLY | os.O_RDWR)):
                return
        elif event not in WRITING:
            return
        path = arguments[0]
        if isinstance(path, str | os.PathLike) and os.fspath(path).startswith(folder):
            if count[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            count[0] += 1

    return hook


def _child(pipe: Any, recipe: str, settings: Mapping[str, Any], out: str, kill_at: int | None) -> None:
    count = [0]
    sys.addaudithook(_operations(out, kill_at, count))
    train(recipe, set=settings, out=out)
    pipe.send(count[0])


def run_killed(case: tuple[str, Mapping[str, Any]], out: Path, kill_at: int | None) -> int:
    """Run a case in a child that is killed at its n-th change of a file; the number of changes if it never was."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(theirs, *case, str(out), kill_at))
    child.start()
    theirs.close()
    child.join(240)
    assert child.exitcode == (0 if kill_at is None else -signal.SIGKILL)
    return int(ours.recv()) if kill_at is None else kill_at


# --- a run in parts -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parts:
    """A run made ready, to be driven or looked at from outside."""

    loop: Loop
    state: RunState
    work: Work

    @property
    def crew(self) -> Crew:
        return self.loop.crew


@contextmanager
def parts(recipe: str, settings: Mapping[str, Any], folder: Path) -> Iterator[Parts]:
    """What `train` builds, not yet running."""
    loaded = read_recipe(recipe, settings)
    assert isinstance(loaded, TrainingRecipe)
    run = Run(folder)
    folder.mkdir(parents=True, exist_ok=True)
    crew, work = prepare(loaded, None, Silent())
    book = RunBook(
        run,
        crew,
        record=loaded.record,
        health=loaded.health,
        checkpoints=loaded.checkpoint,
        limits=work.limits,
        best_by=work.best_by,
    )
    book.exported_role, book.ratio_tolerance = work.role, work.ratio_tolerance
    graph = graph_of(loaded)
    loop = Loop(crew, graph, plan_of(loaded, graph), work.source, work.credit, book, Stopwatch())
    try:
        yield Parts(loop, work.begin(work.start), work)
    finally:
        book.close()
        crew.close()


def first_batch(made: Parts) -> Experience:
    """The first iteration's experience with its rewards and advantages, ready for the train calls."""
    experience, ledger = made.loop.source.gather(0, made.state.ledger)
    return made.loop.credit(made.loop.forward(experience), replace(made.state, ledger=ledger)).experience
