"""What a resume takes up, what it refuses, and what stays of a run's past."""

import itertools
import json
import multiprocessing
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from ropewalk.records.errors import InputError
from ropewalk.runtime.lock import locked
from ropewalk.runtime.recipe import read_recipe
from ropewalk.runtime.run import Run
from ropewalk.runtime.train import run_recipe, train
from tests.runtime.runs import At, Crash, lines, story

SMALL: dict[str, Any] = {
    "rollout.prompts": 4,
    "stop.iterations": 6,
    "checkpoint.every": 2,
    "hardware.threads": 1,
    "task.prompts": 64,
}


def crashed(recipe: str, settings: dict[str, Any], out: Path, *, at: int = 5) -> Run:
    """A run whose process ended at iteration `at`, before it was saved."""
    with pytest.raises(Crash):
        train(recipe, set=settings, out=out, progress=At(at, "crash"))
    return Run(out)


# --- other data -----------------------------------------------------------------------------------


def documents(count: int, first: int = 0) -> str:
    texts = [f"[ boston is {word} and {other} ." for other in WORDS for word in WORDS]
    return "".join(json.dumps({"text": text}) + "\n" for text in texts[first : first + count])


WORDS = ["sunny", "rainy", "windy", "cloudy", "humid", "snowy", "mild", "warm"]


@pytest.mark.parametrize(
    "now",
    [documents(3), documents(60), documents(12, first=1), documents(12).replace("boston", "denver", 1)],
    ids=["fewer", "more", "reordered", "one-changed"],
)
def test_other_rows_are_refused_by_fingerprint(tmp_path: Path, tiny_policy: Path, now: str) -> None:
    """Fault I4: saved after some rows of A, resumed with B: smaller, larger, another order, another word."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text(documents(12))
    data = {"kind": "documents", "path": str(rows), "held_out": 0.0}
    settings = {"model": "none", "start_from": str(tiny_policy), "data": data, "sft.rows_per_step": 2, "sft.epochs": 2}
    run = crashed("city-pretrain", {**settings, "checkpoint.every": 2}, tmp_path / "run")
    rows.write_text(now)
    with pytest.raises(InputError, match=r"data with fingerprint \w+ and cannot resume on data with fingerprint \w+"):
        train("", resume=run.folder)
    rows.write_text(documents(12))
    assert train("", resume=run.folder).status()["state"] == "finished"


def with_other_model(tmp_path: Path, policy: Path, change: str) -> None:
    """Change the folder that a run started from."""
    folder = tmp_path / "start"
    if change == "tokenizer":
        file = folder / "tokenizer.json"
        text = json.loads(file.read_text())
        words = text["model"]["vocab"]
        words["boston"], words["denver"] = words["denver"], words["boston"]
        file.write_text(json.dumps(text))
    elif change == "weights":
        shutil.copytree(policy, tmp_path / "other")
        made = {"model": "none", "start_from": str(policy), "data.sentences": 60, "hardware.threads": 1}
        other = train("city-pretrain", set=made, out=tmp_path / "trained")
        shutil.copy(other.model / "model.safetensors", folder / "model.safetensors")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("tokenizer", r"data with fingerprint \w+ and cannot resume on data with fingerprint \w+"),
        ("weights", r"the reference model is not the one this run began with \(\w+ then, \w+ now\)"),
    ],
)
def test_another_starting_model_is_refused(tmp_path: Path, tiny_policy: Path, change: str, message: str) -> None:
    """Faults C3, I4: the reference is the starting policy; another tokenizer makes other rows of the same text."""
    shutil.copytree(tiny_policy / "model", tmp_path / "start")
    run = crashed("city-grpo", {**SMALL, "start_from": str(tmp_path / "start")}, tmp_path / "run")
    with_other_model(tmp_path, tiny_policy, change)
    with pytest.raises(InputError, match=message):
        train("", resume=run.folder)


def test_other_prompts_are_refused(tmp_path: Path, tiny_policy: Path) -> None:
    """Fault I4 for prompts: the task of a run is part of its data."""
    task = tmp_path / "task.py"
    text = (
        "from ropewalk.tasks.task import Task\n"
        "TASK = Task('t', [f'[ {w}' for w in ('boston', 'denver', 'students', 'artists')], "
        "{'length': lambda prompt, sample: float(len(sample.text))})\n"
    )
    task.write_text(text)
    own = {name: value for name, value in SMALL.items() if name != "task.prompts"}
    own |= {"start_from": str(tiny_policy), "task": {"kind": "file", "path": str(task)}}
    recipe = tmp_path / "own.toml"
    recipe.write_text('method = "grpo"\nrollout.group_size = 4\nsampling.max_new_tokens = 8\n')
    run = crashed(str(recipe), own, tmp_path / "run")
    task.write_text(text.replace("'artists'", "'winter'"))
    with pytest.raises(InputError, match=r"data with fingerprint \w+ and cannot resume"):
        train("", resume=run.folder)
    task.write_text(text)
    assert train("", resume=run.folder).status()["state"] == "finished"


# --- what stays -----------------------------------------------------------------------------------


def test_lines_of_dropped_iterations_never_appear_twice(tmp_path: Path, tiny_policy: Path) -> None:
    """Fault I1: metrics, samples, rollouts and spans of the lost iteration are there once, after one resume or many."""
    own = {**SMALL, "start_from": str(tiny_policy), "record.rollouts": True, "record.samples_every": 1}
    run = crashed("city-grpo", own, tmp_path / "run", at=3)
    assert [row["iteration"] for row in run.metrics()] == [1, 2, 3]
    with pytest.raises(Crash):
        train("", resume=run.folder, progress=At(5, "crash"))
    train("", resume=run.folder)
    assert [row["iteration"] for row in run.metrics()] == [1, 2, 3, 4, 5, 6]
    seen = [(line["iteration"], line["prompt_id"], line["index"]) for line in lines(run.samples_file)]
    assert len(seen) == len(set(seen)) and sorted({key[0] for key in seen}) == [1, 2, 3, 4, 5, 6]
    from ropewalk.monitors.timeline import read_timeline

    spans, whole = read_timeline(run.timeline_file)
    gathered = [span for span in spans if span.name == "gather"]
    assert whole and len(gathered) == 6
    assert all(a.end_seconds <= b.start_seconds for a, b in itertools.pairwise(gathered))


@pytest.mark.parametrize("keep", [1, 3])
def test_the_newest_saves_and_the_best_are_kept(tmp_path: Path, tiny_policy: Path, keep: int) -> None:
    """The best one stays however old it is, and `best/` holds its very weights, after a resume too."""
    own = {**SMALL, "start_from": str(tiny_policy), "checkpoint.every": 1, "checkpoint.keep": keep}
    own |= {"checkpoint.best_by": "-entropy", "actor.optimizer.lr": 3e-3}
    run = crashed("city-grpo", own, tmp_path / "run", at=4)
    train("", resume=run.folder)
    rows = {row["iteration"]: -float(row["entropy"]) for row in run.metrics()}  # type: ignore[arg-type]
    best = max(rows, key=lambda iteration: (rows[iteration], -int(str(iteration))))
    kept = sorted(int(path.name.removeprefix("step-")) for path in run.checkpoints.glob("step-*"))
    assert kept == sorted({*range(7 - keep, 7), best})
    told = story(run)
    folder = run.checkpoints / f"step-{int(str(best)):08d}"
    from tests.runtime.runs import contents

    saved = contents(folder / "actor.safetensors")
    for name, tensor in told["weights of best"].items():
        assert tensor == saved[f"network/{own_name(name)}"], name
    assert told["best"]["value"] == rows[best]


def test_both_results_of_a_sharpened_run_are_sharp(tmp_path: Path, tiny_policy: Path) -> None:
    """`best/` holds the best save's weights with a sharper head, `model/` the last one's."""
    settings = {"model": "none", "start_from": str(tiny_policy), "data.sentences": 80, "sft.epochs": 1, "sharpen": 2.0}
    settings |= {"sft.rows_per_step": 20, "checkpoint.every": 1, "checkpoint.best_by": "-lr/actor"}
    run = train("city-pretrain", set=settings, out=tmp_path / "run")
    marked = json.loads((run.checkpoints / "best.json").read_text())["checkpoint"]
    assert marked == "step-00000001", "the learning rate is lowest in the first of these steps"
    for folder, save in ((run.best, marked), (run.model, "step-00000004")):
        saved = safetensors.torch.load_file(run.checkpoints / save / "actor.safetensors")
        exported = safetensors.torch.load_file(folder / "model.safetensors")
        assert torch.equal(exported["lm_head.weight"], 2 * saved["network/lm_head.weight"])


def own_name(exported: str) -> str:
    """A Hugging Face name as the network calls it."""
    return exported if exported.startswith("lm_head") else exported.replace("model.", "body.", 1)


def test_a_broken_newest_save_is_named_and_passed_over(tmp_path: Path, tiny_policy: Path) -> None:
    """Fault I3: what was cut short after the rename is not used, and said; the run is still the same."""
    own = {**SMALL, "start_from": str(tiny_policy), "checkpoint.keep": 2}
    whole = story(train("city-grpo", set=own, out=tmp_path / "whole"))
    run = crashed("city-grpo", own, tmp_path / "run")
    broken = run.checkpoints / "step-00000004" / "actor.safetensors"
    broken.write_bytes(broken.read_bytes()[:-8])
    watch = At(0, "crash")
    train("", resume=run.folder, progress=watch)
    assert any("step-00000004" in line and "passed over" in line for line in watch.said)
    told = story(run)
    assert (told["weights of model"], told["metrics"]) == (whole["weights of model"], whole["metrics"])


def test_where_a_run_came_from_is_remembered_over_a_resume(tmp_path: Path, tiny_policy: Path) -> None:
    run = crashed("city-grpo", {**SMALL, "start_from": str(tiny_policy)}, tmp_path / "run")
    before = run.lineage()
    train("", resume=run.folder)
    assert run.lineage() == before and before["start_fingerprint"]


def test_a_run_killed_before_its_first_save_starts_anew(tmp_path: Path, tiny_policy: Path) -> None:
    run = crashed("city-grpo", {**SMALL, "start_from": str(tiny_policy)}, tmp_path / "run", at=1)
    assert not run.checkpoints.exists()
    train("", resume=run.folder)
    assert [row["iteration"] for row in run.metrics()] == [1, 2, 3, 4, 5, 6]


def test_a_finished_run_is_left_alone(tmp_path: Path, tiny_policy: Path) -> None:
    """Its status is the last thing it writes: what says finished is whole."""
    own = {"model": "none", "start_from": str(tiny_policy), "data.sentences": 60, "hardware.threads": 1}
    run = train("city-pretrain", set=own, out=tmp_path / "run")
    written = {path: path.stat().st_mtime_ns for path in run.folder.rglob("*") if path.is_file()}
    last = max(written.values())
    assert written[run.folder / "status.json"] == last and str(run.status()["reason"]) in run.report_file.read_text()
    train("", resume=run.folder)
    assert {path: path.stat().st_mtime_ns for path in written} == written


# --- two processes in one folder ------------------------------------------------------------------


def _hold(folder: str, held: Any, release: Any) -> None:
    with locked(Path(folder)):
        held.set()
        release.wait(60)


def test_a_folder_another_process_works_in_is_refused_until_it_ends(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    held, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(str(tmp_path), held, release))
    other.start()
    assert held.wait(60)
    with pytest.raises(InputError, match="another process is working in"), locked(tmp_path, wait_seconds=0.1):
        raise AssertionError
    other.kill()
    other.join()
    with locked(tmp_path), locked(tmp_path / ".."):
        pass


def test_a_run_is_not_begun_over_one_that_is_at_work_or_has_just_been(
    tmp_path: Path, tiny_policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault I3: `--overwrite` removes nothing under another process, and a folder that filled up meanwhile is kept."""
    own = {"model": "none", "start_from": str(tiny_policy), "data.sentences": 60, "hardware.threads": 1}
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "recipe.toml").touch()
    for module in ("run", "train"):
        monkeypatch.setattr(f"ropewalk.runtime.{module}.locked", lambda place, **_: locked(place, wait_seconds=0.1))
    with locked(folder):
        with pytest.raises(InputError, match="another process is working in"):
            train("city-pretrain", set=own, out=folder, overwrite=True)
        with pytest.raises(InputError, match="another process is working in"):
            run_recipe(read_recipe("city-pretrain", own), Run(folder))
        monkeypatch.setattr("ropewalk.runtime.train.create_run", lambda *_, **__: Run(folder))
        with pytest.raises(InputError, match="another process is working in"):
            train("city-pretrain", set=own, out=folder)
        assert (folder / "recipe.toml").exists(), "what another process has begun is its own"
    with pytest.raises(InputError, match="began a run in"):
        run_recipe(read_recipe("city-pretrain", own), Run(folder))
    assert {path.name for path in folder.iterdir()} == {"recipe.toml", ".lock"}
