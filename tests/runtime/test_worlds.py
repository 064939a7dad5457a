"""Built-in environments, games and foreign environments through the whole line: trained on, and sampled into a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ropewalk.records.files import read_samples, rollout_files
from ropewalk.records.prompt import Message
from ropewalk.records.sample import Sample
from ropewalk.runtime.jobs.sample import sample
from ropewalk.runtime.train import train
from ropewalk.tasks.config import EnvironmentTask
from ropewalk.tasks.environments.formats import declaration
from ropewalk.tasks.environments.protocol import Turn
from ropewalk.tasks.load import load_task
from ropewalk.tasks.task import Task
from tests.fakes import tiny_llama
from tests.models.folders import policy_folder
from tests.tasks.scoring.sandbox.pools import need_bubblewrap

SMALL = {
    "rollout.prompts": 2,
    "rollout.group_size": 3,
    "sampling.max_new_tokens": 5,
    "sampling.episode": {"turns": 3, "cut_turns": "go_on"},
    "hardware.threads": 1,
}
LAKE = {"arguments": {"render_mode": "ansi"}, "actions": ["left", "down", "right", "up"], "prompts": 9}
TASKS: Mapping[str, Mapping[str, Any]] = {
    "number-guess": {"kind": "environment", "path": "number-guess"},
    "calculator": {"kind": "environment", "path": "calculator"},
    "file-search": {"kind": "environment", "path": "file-search"},
    "game": {"kind": "gymnasium", "id": "FrozenLake-v1", "heldout_prompts": 2, **LAKE},
    "verifiers": {"kind": "verifiers", "environment": "tests.runtime.foreign_world"},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("worlds")
    policy_folder(folder, tiny_llama(1, max_positions=2048))
    return folder


def recipe(place: Path, name: str, method: str) -> str:
    model = next(place.rglob("config.json")).parent
    path = place / f"{name}-{method}.toml"
    path.write_text(f'method = "{method}"\nstart_from = "{model}"\n[task]\nkind = "sums"\n[rollout]\n')
    return str(path)


def replayed(task: Task, found: Sample) -> None:
    """What the world said and gave is what a fresh one says and gives to the same turns."""
    (prompt,) = [each for split in ("train", "heldout") for each in task.split(split) if each.id == found.prompt_id]
    episode: Any = found.info["episode"]
    said = [Message(each["role"], each["content"]) for each in episode["messages"]]
    assert task.environment is not None
    world = task.environment()
    try:
        expected = list(world.reset(prompt))
        opening = said[: len(expected)]
        if world.tools:
            assert declaration(world.tools, "hermes") in opening[0].content
            opening[0] = Message("system", opening[0].content.partition("\n\nYou may call functions.")[0])
        assert opening == expected
        rest, reward = said[len(expected) :], 0.0
        for place, message in enumerate(rest):
            if message.role == "assistant":
                response = world.respond(Turn(message.content, cut=True))
                reward += response.reward
                told = rest[place + 1 : place + 1 + len(response.messages)]
                assert told == list(response.messages) or place == len(rest) - 1
        assert reward == pytest.approx(episode["reward"])
    finally:
        world.close()


@pytest.mark.parametrize("name", sorted(TASKS))
def test_a_world_is_trained_on_and_says_the_same_again(place: Path, name: str) -> None:
    if name == "file-search":
        need_bubblewrap()
    settings = {**SMALL, "task": TASKS[name], "stop.iterations": 1, "record.rollouts": True, "checkpoint.every": 1}
    run = train(recipe(place, name, "grpo"), set=settings, out=place / f"run-{name}")
    task = load_task(_section(run.folder))
    found = [each for _, file in rollout_files(run.rollouts) for each in read_samples(file)]
    assert len(found) == 6
    for each in found:
        replayed(task, each)
        if "reward" in task.scorers:
            assert getattr(each.scores["reward"], "value", None) == each.info["episode"]["reward"]  # type: ignore


def _section(folder: Path) -> Any:
    from ropewalk.runtime.recipe import read_recipe

    loaded: Any = read_recipe(str(folder / "recipe.toml"), {})
    return loaded.task


def test_a_world_is_sampled_into_a_file(place: Path) -> None:
    settings = {**SMALL, "task": TASKS["number-guess"]}
    samples = sample(recipe(place, "number-guess", "sample"), set=settings, out=place / "samples.jsonl")
    assert len(samples) == 6 and (place / "samples.jsonl").is_file()
    task = load_task(EnvironmentTask(path="number-guess"))
    for each in samples:
        replayed(task, each)
