"""Training from recorded rollouts is the training that recorded them, bit for bit, without engine or task."""

import json
from pathlib import Path
from typing import Any

import pytest

from ropewalk.records.errors import InputError
from ropewalk.records.files import read_samples, rollout_file
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.runtime.jobs.replay import replay
from ropewalk.runtime.run import Run
from ropewalk.runtime.train import train
from ropewalk.tasks.task import Task
from tests.runtime.runs import At, Crash

ONLINE: dict[str, Any] = {"rollout.prompts": 6, "stop.iterations": 3, "record.rollouts": True, "hardware.threads": 1}


@pytest.fixture(scope="module")
def recorded(tiny_policy: Path, tiny_reward_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PPO run whose rollouts were recorded; its reward is centred on the starting policy's."""
    settings = {
        **ONLINE,
        "start_from": str(tiny_policy),
        "reward_model": str(tiny_reward_model),
        "reward.components.reward_model.normalise.samples": 12,
        "ppo.epochs": 2,
        "ppo.minibatches": 2,
        "checkpoint.every": 1,
    }
    return train("city-ppo", set=settings, out=tmp_path_factory.mktemp("recorded") / "ppo").folder


def weights(run: Run) -> bytes:
    return (run.model / "model.safetensors").read_bytes()


def story(run: Run) -> list[dict[str, Any]]:
    """Every metric that is not a time."""
    clock = ("time", "seconds", "tokens_per_second")
    return [{k: v for k, v in row.items() if not any(word in k for word in clock)} for row in run.metrics()]


def test_ppo_is_repeated_bit_for_bit(recorded: Path, tmp_path: Path) -> None:
    again = replay(recorded, out=tmp_path / "r")
    assert story(again) == story(Run(recorded))
    assert weights(again) == weights(Run(recorded))
    assert not again.rollouts.exists() and again.status()["state"] == "finished"
    assert again.lineage()["reward_statistics"] == Run(recorded).lineage()["reward_statistics"] != {}


def test_grpo_with_shared_prompts_is_repeated_bit_for_bit(tiny_policy: Path, tmp_path: Path) -> None:
    settings = {**ONLINE, "start_from": str(tiny_policy), "rollout.share_prompts": True, "grpo.epochs": 2}
    run = train("city-grpo", set=settings, out=tmp_path / "first")
    again = replay(run, out=tmp_path / "again")
    assert story(again) == story(run) and weights(again) == weights(run)


def test_files_are_numbered_as_the_metrics_are(recorded: Path) -> None:
    run = Run(recorded)
    for row in run.metrics():
        samples = read_samples(rollout_file(run.rollouts, int(row["iteration"])))
        rewards = [sample.scores["reward_model"].value for sample in samples]
        assert sum(rewards) / len(rewards) == pytest.approx(row["score/reward_model/mean"], abs=1e-6)


def test_other_settings_see_the_same_samples(recorded: Path, tmp_path: Path) -> None:
    again = replay(recorded, out=tmp_path / "r", set={"actor.optimizer.lr": 1e-6, "stop.iterations": 2})
    first, other = story(Run(recorded)), story(again)
    assert [row["reward/mean"] for row in other] == [row["reward/mean"] for row in first[:2]]
    assert other[0]["lr/actor"] != first[0]["lr/actor"] and weights(again) != weights(Run(recorded))


def test_a_replay_that_was_cut_off_goes_on_as_a_replay(recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(Crash):
        replay(recorded, out=tmp_path / "r", progress=At(2, "crash"))
    assert json.loads((tmp_path / "r" / "lineage.json").read_text())["replay_of"] == str(recorded)
    resumed = train("", resume=tmp_path / "r")
    assert weights(resumed) == weights(Run(recorded))


def shortness(prompt: Prompt, sample: Sample) -> float:
    return -float(sample.completion_tokens)


def test_no_task_is_needed(tiny_policy: Path, tmp_path: Path) -> None:
    """The task was a Python object; its scores are in the files, and prompts are shown as the policy read them."""
    recipe = tmp_path / "own.toml"
    recipe.write_text(
        f'method = "grpo"\nstart_from = "{tiny_policy}"\nrollout = {{ prompts = 2, group_size = 2 }}\n'
        "stop = { iterations = 2 }\nsampling = { max_new_tokens = 8 }\nrecord = { rollouts = true }\n"
    )
    task = Task(name="short", prompts=["[ austin", "[ boston", "[ denver"], scorers={"short": shortness})
    run = train(recipe, task=task, out=tmp_path / "first")
    again = replay(run.folder, out=tmp_path / "again")
    assert weights(again) == weights(run)
    shown = {json.loads(line)["prompt"] for line in again.samples_file.read_text().splitlines()}
    assert shown <= {"[ austin", "[ boston", "[ denver"} and shown


def test_what_cannot_be_replayed_is_refused(tiny_policy: Path, recorded: Path, tmp_path: Path) -> None:
    bare = train(
        "city-grpo",
        set={**ONLINE, "start_from": str(tiny_policy), "stop.iterations": 1, "record.rollouts": False},
        out=tmp_path / "bare",
    )
    with pytest.raises(InputError, match=r"no rollouts to replay: .* record.rollouts = true"):
        replay(bare, out=tmp_path / "out")
    with pytest.raises(InputError, match="makes no rollouts"):
        replay(tiny_policy, out=tmp_path / "out")
    with pytest.raises(InputError, match="not empty"):
        replay(recorded, out=bare.folder)
    assert not (tmp_path / "out").exists()
