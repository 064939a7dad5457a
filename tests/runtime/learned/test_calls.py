"""From sections to calls: names, roles, columns; what a critic starts from; what is refused."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ropewalk.config.load import ConfigError
from ropewalk.records.errors import InputError
from ropewalk.runtime.assemble import graph_of, plan_of, setup_of
from ropewalk.runtime.learned.calls import check_names, critic_role, learned_rewards
from ropewalk.runtime.recipe import GRPORecipe, PPORecipe, SampleRecipe, load_recipe, read_recipe

SECTIONS: dict[str, Any] = {
    "many.folders": ["a", "b"],
    "steps": {"folders": ["c"], "read": {"kind": "process"}},
    "wide": {"folders": ["d"], "read": {"kind": "heads", "weights": {"help": 1.0}}},
}
GIVEN: dict[str, Any] = {
    "start_from": "p",
    "reward_model": "short",
    **{f"reward_models.{name}": section for name, section in SECTIONS.items()},
}


def recipe(name: str = "city-ppo", **more: Any) -> PPORecipe | GRPORecipe:
    loaded = read_recipe(name, {**GIVEN, **more})
    assert isinstance(loaded, PPORecipe | GRPORecipe)
    return loaded


@pytest.mark.parametrize("name", ["city-ppo", "city-grpo"])
def test_each_member_is_a_role_with_a_call_and_a_column_that_training_waits_for(name: str) -> None:
    graph = graph_of(recipe(name))
    found = {call.name: (call.role, call.writes) for call in graph.of_kind("forward") if call.role.startswith("reward")}
    assert found == {
        "reward_model": ("reward", ("scores",)),
        "reward/many/0": ("reward/many/0", ("scores/many/0",)),
        "reward/many/1": ("reward/many/1", ("scores/many/1",)),
        "reward/steps": ("reward/steps", ("token_scores/steps/0",)),
        "reward/wide": ("reward/wide", ("head_scores/wide/0",)),
    }
    edges = graph.edges()
    assert all(("generate", call) in edges and (call, "actor_train") in edges for call in found)


def test_the_short_form_alone_is_the_graph_of_before() -> None:
    short = read_recipe("city-ppo", {"start_from": "p", "reward_model": "r"})
    assert isinstance(short, PPORecipe)
    assert [call.name for call in graph_of(short).calls] == [
        "generate",
        "reference",
        "reward_model",
        "values",
        "actor_train",
        "critic_train",
    ]
    assert [one.name for one in learned_rewards(short)] == ["reward_model"]


@pytest.mark.parametrize(
    ("start", "role"),
    [
        ("reward_model", "reward"),
        ("many", "reward/many/0"),
        ("many/1", "reward/many/1"),
        ("steps", "reward/steps"),
    ],
)
def test_a_critic_starts_from_the_model_it_names(start: str, role: str) -> None:
    assert critic_role(recipe(**{"critic.start": start}), start) == role


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"critic.start": "manny"}, "did you mean 'many'"),
        ({"critic.start": "many/2"}, "did you mean 'many/"),
        ({"critic.start": "steps/0"}, "did you mean 'steps'"),
        ({"reward_models.reward_model.folders": ["e"]}, "call that section otherwise"),
        ({"reward_models.many.offsets": [1.0]}, "2 folders have 1 offsets"),
        ({"reward_models.many.folders": ["a", "a"]}, "a is a member twice"),
        ({"reward_models.many.folders": []}, "folders"),
        ({"reward_models.empty": {"folders": ["x"], "read": {"kind": "heads", "weights": {}}}}, "weights"),
        ({"reward_models.steps.read.step": ""}, "step"),
        ({"reward_models.many.combine": {"kind": "mean", "k": 1.0}}, "k"),
        ({"reward_models.many.combine": {"kind": "mean_minus_std", "k": -1.0}}, "k"),
        ({"reward_models.a/b.folders": ["x"]}, "a/b"),
        ({"reward_models.many.read.kind": "proces"}, "process"),
    ],
)
def test_what_means_nothing_is_refused(settings: dict[str, Any], says: str) -> None:
    """Fault Q2."""
    with pytest.raises(ConfigError, match=says):
        recipe(**settings)


def test_a_learned_reward_is_not_called_as_a_scorer_of_the_task() -> None:
    with pytest.raises(InputError, match="scorer called 'many'"):
        check_names(learned_rewards(recipe()), {"truth": 0, "many": 1})


def test_a_setup_needs_the_folders(tmp_path: object) -> None:
    loaded = recipe(start_from=str(tmp_path))
    with pytest.raises(InputError, match="no run or model folder short"):
        setup_of(loaded, plan_of(loaded, graph_of(loaded)), steps=1)


def test_the_examples_of_the_page_are_recipes() -> None:
    page = (Path(__file__).parents[3] / "docs" / "learned-rewards.md").read_text()
    sections, job = (tomllib.loads(block) for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL))
    rest = {"method": "grpo", "start_from": "p", "task": {"kind": "city"}, "rollout": {"group_size": 4}}
    found = load_recipe({**rest, **sections})
    assert isinstance(found, GRPORecipe) and set(found.reward_models) == {"helpful", "aspects", "steps"}
    labelled = load_recipe(job)
    assert isinstance(labelled, SampleRecipe) and labelled.labels.kind == "steps"
