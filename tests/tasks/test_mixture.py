"""A mixture: every prompt is scored, played and rewarded by its own task and no other."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ropewalk.config.load import ConfigError, load
from ropewalk.data.config import RowFile
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Abstain, Score
from ropewalk.runtime.assemble import reward_of
from ropewalk.tasks.config import MixtureTask
from ropewalk.tasks.load import load_task
from ropewalk.tasks.mixture import mixture_task, own_prompt
from ropewalk.tasks.scoring.compose import about_sample, compose
from ropewalk.tasks.scoring.config import Component, Gate, Reward
from ropewalk.tasks.scoring.run import score_sample
from ropewalk.tasks.task import Scorer, Task
from tests.parity.beds import samples


def number(value: float) -> Scorer:
    return lambda prompt, sample: value


def seen(prompt: Prompt, sample: Sample) -> float:
    assert prompt.id == sample.prompt_id == "x" and "task" not in prompt.info
    return 4.0


def part(name: str, scorers: Mapping[str, Scorer], **more: Any) -> Task:
    prompts = {"train": [Prompt("x", f"{name}?"), Prompt("y", f"{name}!")], "heldout": [Prompt("z", name)]}
    return Task(name=name, prompts=prompts, scorers=scorers, **more)


@pytest.fixture
def mixed() -> Task:
    left = part("left", {"seen": seen, "other": number(0.5)}, max_new_tokens=5)
    right = part("right", {"right": number(2.0), "other": number(0.25)}, solved=lambda outcome: False, max_new_tokens=9)
    return mixture_task({"left": left, "right": right}, {"left": 1.0, "right": 3.0})


def scored(task: Task, prompt: Prompt) -> Sample:
    return score_sample(task, prompt, replace(samples()[0], prompt_id=prompt.id, finish="stop"))


def test_prompts_keep_their_ids_under_their_part(mixed: Task) -> None:
    assert [p.id for p in mixed.split("train")] == ["left/x", "left/y", "right/x", "right/y"]
    assert [p.info for p in mixed.split("heldout")] == [{"task": "left"}, {"task": "right"}]
    assert [p.id for p in mixed.first("train", 3)] == ["left/x", "right/x", "left/y"]
    assert own_prompt(mixed.split("train")[2]) == Prompt("x", "right?")
    assert mixed.max_new_tokens == 9


def test_a_scorer_judges_its_own_part_and_abstains_on_the_others(mixed: Task) -> None:
    """Scorers of one name are one scorer."""
    assert list(mixed.scorers) == ["seen", "right", "other"]
    left, _, right, _ = mixed.split("train")
    of_left, of_right = scored(mixed, left), scored(mixed, right)
    assert of_left.scores["seen"] == Score(4.0) and of_left.scores["other"] == Score(0.5)
    assert isinstance(of_left.scores["right"], Abstain) and isinstance(of_right.scores["seen"], Abstain)
    assert of_right.scores["right"] == Score(2.0) and of_right.scores["other"] == Score(0.25)
    assert (of_left.info["task"], of_right.info["task"]) == ("left", "right")


def test_what_is_solved_goes_by_the_part(mixed: Task) -> None:
    left, _, right, _ = mixed.split("train")
    assert mixed.solves(scored(mixed, left)) and mixed.verdict(scored(mixed, left)) is True
    assert not mixed.solves(scored(mixed, right)) and mixed.verdict(scored(mixed, right)) is False


def test_without_components_each_part_is_rewarded_by_its_first_scorer(mixed: Task) -> None:
    """No row is lost because the first scorer of all is of another task."""
    reward = reward_of(Reward(), mixed)
    rows = [scored(mixed, prompt) for prompt in mixed.split("train")[1:3]]
    rows = [scored(mixed, mixed.split("train")[0]), rows[1]]
    composed = compose(reward, [row.scores for row in rows], {}, [about_sample(row) for row in rows])
    assert composed.reward_R.tolist() == [4.0, 2.0] and composed.valid_R.all()
    named = Reward(components={"other": Component(weight=2.0)})
    assert reward_of(named, mixed) is named


def test_a_reward_that_would_count_twice_is_refused() -> None:
    twice = mixture_task(
        {"a": part("a", {"one": number(1), "two": number(2)}), "b": part("b", {"two": number(1)})}, {"a": 1, "b": 1}
    )
    with pytest.raises(InputError, match="part 'a' scores one and two"):
        reward_of(Reward(), twice)


def test_the_world_of_a_prompt_is_that_of_its_part() -> None:
    def world() -> Any:
        raise AssertionError("nothing is played here")

    mixed = mixture_task(
        {"plain": part("plain", {"r": number(1)}), "game": part("game", {"r": number(1)}, environment=world)},
        {"plain": 1, "game": 1},
    )
    assert [mixed.environment_of(p) for p in mixed.split("train")] == [None, None, world, world]


def test_a_mixture_is_loaded_with_the_data_of_its_parts(tmp_path: Any) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "2 + 2 =", "gold": "4"}\n{"prompt": "2 + 3 =", "gold": "5"}\n')
    config: MixtureTask = load(
        MixtureTask,
        {
            "parts": {
                "made": {"weight": 2, "task": {"kind": "sums", "prompts": 4, "heldout_prompts": 2, "style": "plain"}},
                "read": {"task": {"kind": "prompts"}, "data": {"path": str(rows)}},
            }
        },
    )
    task = load_task(config)
    assert task.weights == {"made": 2.0, "read": 1.0} and task.rewarding == ("correct",)
    assert isinstance(config.parts["read"].data, RowFile)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({}, "parts"),
        ({"a": {"task": {"kind": "mixture", "parts": {}}}}, "mixture"),
        ({"a b": {"task": {"kind": "sums"}}}, "a b"),
        ({"a": {"weight": 0, "task": {"kind": "sums"}}}, "weight"),
        ({"a": {"wieght": 1, "task": {"kind": "sums"}}}, "weight"),
        ({"a": {"task": {"kind": "sums", "hihg": 3}}}, "high"),
    ],
    ids=["none", "nested", "name", "weight", "key", "key-of-the-task"],
)
def test_what_no_mixture_can_be_is_refused(parts: dict[str, Any], said: str) -> None:
    """Fault Q2."""
    with pytest.raises(ConfigError, match=said):
        load(MixtureTask, {"parts": parts})


def test_a_part_is_named_where_its_data_are_wrong() -> None:
    config: MixtureTask = load(MixtureTask, {"parts": {"a": {"task": {"kind": "prompts"}}}})
    with pytest.raises(InputError, match=r"task\.parts\.a: a task of kind 'prompts' reads its rows from a file"):
        load_task(config)
    config = load(MixtureTask, {"parts": {"a": {"task": {"kind": "sums"}, "data": {"path": "x"}}}})
    with pytest.raises(InputError, match=r"task\.parts\.a: a task of kind 'sums' reads no data file"):
        load_task(config)


def gated(**more: Any) -> Reward:
    return Reward(components={"seen": Component(), "right": Component(), "other": Component(gates=(Gate(**more),))})


def test_a_gate_that_could_never_open_in_a_part_is_refused(mixed: Task) -> None:
    """Fault G12: on the prompts of a part without the gate's scorer the component would be silently worth nothing."""
    with pytest.raises(InputError, match=r"reward\.components\.other\.gates\.0 looks at 'seen', which part 'right'"):
        reward_of(gated(on="seen"), mixed)
    assert reward_of(gated(on="seen", abstained="open"), mixed)
    assert reward_of(gated(on="other"), mixed), "every part has it"
    assert reward_of(gated(on="critic"), mixed), "a judge is of every part"
    alone = Reward(components={"seen": Component(gates=(Gate(on="seen"),)), "right": Component()})
    assert reward_of(alone, mixed) is alone, "the component itself is of the gate's part only"


@pytest.mark.parametrize("nested", [False, True])
def test_a_part_that_no_component_scores_is_refused(mixed: Task, nested: bool) -> None:
    """Fault G12: all of its rows would be invalid, and the part train nothing."""
    task = mixture_task({"all": mixed, "more": part("more", {"seen": number(1)})}, {"all": 1, "more": 1})
    name = "all/right" if nested else "right"
    with pytest.raises(InputError, match=f"part '{name}' is scored by none of"):
        reward_of(Reward(components={"seen": Component()}), task if nested else mixed)
    judged = Reward(components={"seen": Component(), "critic": Component()})
    assert reward_of(judged, mixed) is judged


def test_what_is_refused_is_what_would_never_be_rewarded(mixed: Task) -> None:
    """Fault G12: of all rewards of these scorers and gates exactly those are accepted by which a row of each part
    is scored, and whose gates are decided there."""
    names = ("seen", "right", "other")
    for size in (1, 2, 3):
        for chosen in itertools.permutations(names, size):
            for on in names:
                reward = Reward(components={n: Component(gates=(Gate(on=on, at_least=0.0),)) for n in chosen})
                rows = [scored(mixed, prompt) for prompt in mixed.split("train")[::2]]
                never = any(
                    isinstance(row.scores[on], Abstain) and not isinstance(row.scores[name], Abstain)
                    for row in rows
                    for name in chosen
                )
                none = any(all(isinstance(row.scores[name], Abstain) for name in chosen) for row in rows)
                if never or none:
                    with pytest.raises(InputError, match=r"part '(left|right)'"):
                        reward_of(reward, mixed)
                else:
                    assert reward_of(reward, mixed) is reward
