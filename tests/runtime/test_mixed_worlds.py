"""Prompts that are answered in one turn and prompts that are played in a world, in one run."""

from pathlib import Path

import pytest

from ropewalk.data.order import PART
from ropewalk.records.files import read_jsonl, read_samples, rollout_file
from ropewalk.runtime.jobs.replay import replay
from ropewalk.runtime.jobs.select import select
from ropewalk.runtime.train import train
from tests.fakes import tiny_llama
from tests.models.folders import policy_folder

WORLD = """
from ropewalk.records.prompt import Message, Prompt
from ropewalk.tasks.environments.number_guess import NumberGuess
from ropewalk.tasks.task import Task

def spelt(prompt, sample):
    assert prompt.gold and "/" not in prompt.id
    return sample.info["episode"]["reward"] + sum(letter.isascii() for letter in sample.text) / 10

prompts = [Prompt(f"g{n}", (Message("user", "Guess!"),), gold=n) for n in range(1, 9)]
TASK = Task("guess", prompts, {"spelt": spelt}, environment=NumberGuess, solved=lambda outcome: outcome.value > 0.2)
"""
RECIPE = """
method = "grpo"
[task]
kind = "mixture"
[task.parts.game]
task = { kind = "file", path = "@task" }
[task.parts.text]
task = { kind = "file", path = "@other" }
[model]
kind = "folder"
path = "@model"
[rollout]
prompts = 4
group_size = 3
flat = { kind = "refill", most = 2 }
[sampling]
max_new_tokens = 6
episode = { turns = 2, cut_turns = "go_on" }
[stop]
iterations = 2
[grpo]
normalise_by = "task"
[hardware]
threads = 1
[record]
rollouts = true
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("worlds")
    model = policy_folder(folder, tiny_llama(1, max_positions=256))
    (folder / "task.py").write_text(WORLD)
    once = WORLD.replace(", environment=NumberGuess", "").replace('sample.info["episode"]["reward"] + ', "")
    (folder / "other.py").write_text(once.replace("spelt", "written"))
    text = RECIPE.replace("@task", str(folder / "task.py")).replace("@other", str(folder / "other.py"))
    (folder / "recipe.toml").write_text(text.replace("@model", str(model)))
    return folder / "recipe.toml"


def test_each_prompt_is_answered_as_its_part_says(recipe: Path, tmp_path: Path) -> None:
    """Episodes and single turns train in one batch, each rewarded by its own scorer."""
    run = train(recipe, out=tmp_path / "run")
    seen = set()
    for iteration in (1, 2):
        for sample in read_samples(rollout_file(run.rollouts, iteration)):
            seen.add(sample.info[PART])
            assert ("episode" in sample.info) == (sample.info[PART] == "game")
    assert seen == {"game", "text"}
    row = run.metrics()[-1]
    assert {"task/game/score/spelt", "task/text/score/written"} <= row.keys()
    strangers = ("task/game/score/written", "task/text/score/spelt")
    assert not [name for name in row if name.startswith(strangers)]
    assert row["reward/invalid"] == 0
    again = replay(run.folder, out=tmp_path / "again")
    for name in ("reward/mean", "loss/policy", "grad_norm/actor"):
        assert [r[name] for r in again.metrics()] == [r[name] for r in run.metrics()], "a replay knows the parts, too"


def test_a_world_is_selected_from_as_well(recipe: Path, tmp_path: Path) -> None:
    found = select(recipe, out=tmp_path / "s", set={"select.samples": 3})
    parts = {row["prompt_id"].partition("/")[0] for row in read_jsonl(found.files.prompts)}
    assert parts == {"game", "text"}
    assert sum(one.rate.judged for one in found.selection.prompts) == 3 * len(found.selection.prompts)
