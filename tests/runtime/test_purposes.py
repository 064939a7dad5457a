"""What is drawn for one purpose is not drawn for another: training, its evaluation, jobs, of one seed and one start."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.runtime.evaluation.evaluate import evaluate
from ropewalk.runtime.jobs.sample import sample
from ropewalk.runtime.jobs.select import select
from ropewalk.runtime.train import train
from ropewalk.tasks.task import Task
from tests.runtime.fields_table import EVERY

PROMPTS = [Prompt(f"p{n}", text) for n, text in enumerate(("[ boston", "[ denver", "[ austin", "[ seattle"))]
PROMPTS_HELD = [Prompt("held", "[ portland")]
PURPOSES = (
    "training",
    "its first statistics",
    "evaluation inside it",
    "evaluation",
    "sampling",
    "selection",
    "step labels",
)


class Seeds:
    """A scorer that notes the seeds of what it scores, under the purpose of the moment."""

    def __init__(self) -> None:
        self.of: dict[str, set[int]] = {}
        self.now = ""

    def __call__(self, prompt: Prompt, sample: Sample) -> float:
        self.of.setdefault(self.now, set()).add(sample.seed)
        return float(sample.seed % 2)

    @contextmanager
    def noting(self, purpose: str) -> Iterator[None]:
        self.now = purpose
        yield
        self.now = ""


def training_seeds(noted: Seeds, task: Task, given: dict[str, Any], out: Path, more: dict[str, Any]) -> set[int]:
    with noted.noting("some run"):
        train("city-grpo", task=task, set={**given, **more}, out=out)
    return noted.of.pop("some run")


def test_no_two_purposes_draw_the_same_numbers(tiny_policy: Path, tmp_path: Path) -> None:
    """Fault B6: on the same prompts with the same seed and the same model, every pair of purposes shares no seed."""
    noted = Seeds()
    task = Task("noted", {"train": PROMPTS, "heldout": PROMPTS_HELD}, {"truth": noted})
    start = {"start_from": str(tiny_policy), "hardware.threads": 1, "rollout.prompts": 4, "rollout.group_size": 4}
    online = {**start, "stop.iterations": 2}
    out = tmp_path / "plain"
    plain = training_seeds(noted, task, online, out, {})
    first = {"reward.components.truth.normalise": {"kind": "initial_mean", "samples": 16}}
    noted.of["training"] = plain
    noted.of["its first statistics"] = training_seeds(noted, task, online, tmp_path / "first", first) - plain
    noted.of["evaluation inside it"] = (
        training_seeds(noted, task, online, tmp_path / "held", {"evaluate": EVERY}) - plain
    )
    with noted.noting("evaluation"):
        evaluate(out, suite=task)
    with noted.noting("sampling"):
        sample("city-pairs", task=task, set={**start, "labels": {"kind": "none"}}, out=tmp_path / "samples.jsonl")
    with noted.noting("selection"):
        select("city-grpo", task=task, set={**online, "select.samples": 4}, out=tmp_path / "selected")
    with noted.noting("step labels"):
        labels = {"kind": "steps", "step": " ", "rollouts": 3}
        train("city-pairs", task=task, set={**start, "labels": labels}, out=tmp_path / "steps")
    assert noted.of["step labels"] > noted.of["sampling"], "the completions of a labelling job are a sampling job's"
    noted.of["step labels"] -= noted.of["sampling"]
    assert set(noted.of) == set(PURPOSES) and all(noted.of.values())
    for one, other in itertools.combinations(PURPOSES, 2):
        assert not noted.of[one] & noted.of[other], (one, other)


def test_a_sampling_job_draws_the_same_whatever_its_chunks(
    tiny_policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault I1: a prompt that comes in two chunks is drawn anew, by seeds that go on counting."""
    task = Task("noted", {"train": PROMPTS, "heldout": PROMPTS_HELD}, {"length": lambda prompt, one: len(one.text)})
    given = {"start_from": str(tiny_policy), "hardware.threads": 1, "rollout.prompts": 11, "rollout.group_size": 2}
    given["labels"] = {"kind": "none"}
    whole = sample("city-pairs", task=task, set=given, out=tmp_path / "whole.jsonl")
    monkeypatch.setattr("ropewalk.runtime.jobs.sample.CHUNK_PROMPTS", 3)
    sample("city-pairs", task=task, set=given, out=tmp_path / "chunks.jsonl")
    assert (tmp_path / "chunks.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert len({one.seed for one in whole}) == len(whole) == 22
