"""Environments of the package verifiers through our protocol: its own loop, stops, tools and rubrics decide."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import verifiers as vf
from datasets import Dataset, disable_progress_bars

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Message
from ropewalk.tasks.config import VerifiersTask
from ropewalk.tasks.environments.foreign import Unplayable, environment_task_of, verifiers_task
from ropewalk.tasks.environments.protocol import ToolCall, Turn
from ropewalk.tasks.load import load_task
from ropewalk.tasks.task import Task
from tests.tasks.environments.player import play

disable_progress_bars()
ROWS = [{"question": f"What is {n} + 1?", "answer": str(n + 1), "info": {"n": n}} for n in range(20)]


def right(completion: Any, answer: str, **_: Any) -> float:
    return float(answer in completion[-1]["content"])


async def long(completion: Any) -> float:
    await asyncio.sleep(0)
    return float(len(completion))


def rows(count: int = 20) -> Dataset:
    return Dataset.from_list(ROWS[:count])


def world(task: Task) -> Any:
    assert task.environment is not None
    return task.environment()


def test_rows_are_prompts_and_the_rubric_is_the_reward() -> None:
    rubric = vf.Rubric(funcs=[right, long], weights=[1.0, 0.25])
    env = vf.SingleTurnEnv(dataset=rows(), system_prompt="Be short.", rubric=rubric)
    task = environment_task_of("sums", env)
    prompts = [*task.split("train"), *task.split("heldout")]
    assert sorted(str(prompt.gold) for prompt in prompts) == sorted(row["answer"] for row in ROWS)
    assert len({prompt.id for prompt in prompts}) == 20 and task.split("heldout")
    prompt = prompts[0]
    assert prompt.dialogue == (
        Message("system", "Be short."),
        Message("user", f"What is {int(str(prompt.gold)) - 1} + 1?"),
    )
    for said, reward in ((f"It is {prompt.gold}", 1.25), ("no", 0.25)):
        played = play(world(task), prompt, [said, "never said"])
        assert tuple(played.opening) == prompt.dialogue and not played.heard
        assert (played.done, played.reward) == (True, reward)
        assert played.info == {"turns_taken": 1, "metric/right": reward - 0.25, "metric/long": 1.0}


def test_evaluation_rows_are_held_out_and_counts_bound_both() -> None:
    env = vf.SingleTurnEnv(dataset=rows(), eval_dataset=Dataset.from_list(ROWS[15:]), rubric=vf.Rubric(funcs=[right]))
    task = environment_task_of("sums", env, prompts=4, heldout=2)
    assert [prompt.gold for prompt in task.split("train")] == ["1", "2", "3", "4"]
    assert [prompt.gold for prompt in task.split("heldout")] == ["16", "17"]


class Guess(vf.MultiTurnEnv):  # type: ignore[misc]
    """Says no until the answer is said."""

    async def setup_state(self, state: Any, **kwargs: Any) -> Any:
        state["wanted"] = str(state["info"]["n"] + 1)
        return state

    async def is_completed(self, messages: Any, state: Any, **kwargs: Any) -> bool:
        return messages[-1]["role"] == "assistant" and state["wanted"] in messages[-1]["content"]

    async def env_response(self, messages: Any, state: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0.001)
        if "crash" in messages[-1]["content"]:
            raise ValueError("the world is broken")
        return [{"role": "user", "content": f"No, not {messages[-1]['content']}."}], state


class Forgetful(Guess):
    """Forgets what was asked."""

    async def env_response(self, messages: Any, state: Any, **kwargs: Any) -> Any:
        messages[0] = {"role": "user", "content": "Something else?"}
        return [{"role": "user", "content": "No."}], state


def test_an_environment_that_rewrites_history_fails_its_episode() -> None:
    """Fault F4: what the policy has read is never exchanged for something else."""
    task = environment_task_of("forgetful", Forgetful(dataset=rows(), rubric=vf.Rubric(funcs=[right])))
    with pytest.raises(Unplayable, match="rewrites what was said"):
        play(world(task), task.split("train")[0], ["a", "b"])


def guessing(**more: Any) -> Task:
    return environment_task_of("guess", Guess(dataset=rows(), rubric=vf.Rubric(funcs=[right]), **more))


def test_its_own_responses_stops_and_turn_limit_decide() -> None:
    task = guessing(max_turns=3)
    prompt = task.split("train")[0]
    played = play(world(task), prompt, ["a", "b", "c", "d"])
    assert [message.content for message in played.heard] == ["No, not a.", "No, not b."]
    assert (played.done, played.reward, played.info["turns_taken"]) == (True, 0.0, 3)
    assert play(world(task), prompt, ["a", str(prompt.gold)]).reward == 1.0


def test_episodes_of_one_environment_do_not_meet() -> None:
    task = guessing(max_turns=9)
    prompts = task.split("train")[:6]
    found: dict[str, list[str]] = {}

    def one(number: int) -> None:
        played = play(world(task), prompts[number], [f"{number}{letter}" for letter in "abc"])
        found[prompts[number].id] = [message.content for message in played.heard]

    threads = [threading.Thread(target=one, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A number that happens to hold the answer ends its game earlier.
    for number, prompt in enumerate(prompts):
        said = [f"{number}{letter}" for letter in "abc"]
        assert found[prompt.id] == ([] if str(prompt.gold) in said[0] else [f"No, not {each}." for each in said])


def test_an_episode_can_be_closed_at_any_time_and_leaves_no_task() -> None:
    task = guessing()
    for turns in range(3):
        opened = world(task)
        opened.reset(task.split("train")[0])
        for _ in range(turns):
            opened.respond(Turn("x"))
        loop = opened._loop
        opened.close()
        opened.close()
        assert loop.is_closed() and not asyncio.all_tasks(loop)
    world(task).close()


def test_what_an_environment_or_a_reward_function_raises_is_raised_and_no_reward_of_nought() -> None:
    """Faults G4 and G12: the rubric itself would log it and count 0."""
    task = guessing()
    with pytest.raises(ValueError, match="the world is broken"):
        play(world(task), task.split("train")[0], ["crash"])

    def broken(completion: Any) -> float:
        raise KeyError("gone")

    rubric = vf.RubricGroup([vf.Rubric(funcs=[right]), vf.Rubric(funcs=[broken])])
    task = environment_task_of("sums", vf.SingleTurnEnv(dataset=rows(), rubric=rubric))
    with pytest.raises(Unplayable, match="a reward function failed: KeyError: 'gone'"):
        play(world(task), task.split("train")[0], ["x"])
    assert rubric.rubrics[1].reward_funcs == [broken], "theirs is left as it was"
    nan = vf.Rubric(funcs=[lambda completion: float("nan")])
    task = environment_task_of("sums", vf.SingleTurnEnv(dataset=rows(), rubric=nan))
    with pytest.raises(Unplayable, match="the reward nan"):
        play(world(task), task.split("train")[0], ["x"])


def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: the first
        b: the second
    """
    return a + b


def test_its_tools_are_declared_and_called() -> None:
    env = vf.ToolEnv(dataset=rows(), tools=[add], rubric=vf.Rubric(funcs=[right]), max_turns=9)
    task = environment_task_of("tools", env)
    opened, prompt = world(task), task.split("train")[0]
    (spec,) = opened.tools
    assert (spec.name, spec.description) == ("add", "Adds two numbers.")
    assert spec.parameters["required"] == ["a", "b"]
    good = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
    turns = [
        good + '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call><tool_call>{"name": "sub"}</tool_call>',
        good + "<tool_call>{]</tool_call>",
        str(prompt.gold),
    ]
    played = play(opened, prompt, turns)
    contents = [message.content for message in played.heard]
    assert contents[0] == "3" and "missing 1 required" in contents[1] and "sub" in contents[2]
    assert "not carried out" in contents[3] and "could not be read" in contents[4]
    assert {message.role for message in played.heard} == {"tool"}
    assert (played.done, played.reward, played.info["turns_taken"]) == (True, 1.0, 2)
    opened = world(task)
    opened.reset(prompt)
    assert opened.respond(Turn("", (ToolCall("add", {"a": 2, "b": "é"}),))).messages[0].role == "tool"
    opened.close()


MODULE = """
import verifiers as vf
from datasets import Dataset

def load_environment(count=5):
    rows = [{"question": f"Say {n}.", "answer": str(n)} for n in range(count)]
    rubric = vf.Rubric(funcs=[lambda completion, answer: float(answer in completion[-1]["content"])])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=rubric)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "ropewalk_say_env.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "ropewalk-say-env"
    sys.modules.pop("ropewalk_say_env", None)


def test_its_prompts_may_be_given_other_ids() -> None:
    """As a mixture of tasks does."""
    task = guessing()
    prompt = task.split("train")[0]
    assert play(world(task), replace(prompt, id=f"part/{prompt.id}"), [str(prompt.gold)]).reward == 1.0


def test_a_section_names_an_installed_environment(installed: str) -> None:
    section = VerifiersTask(environment=installed, arguments={"count": 8}, prompts=6)
    task = load_task(section)
    assert len(task.split("train")) + len(task.split("heldout")) == 6
    with pytest.raises(InputError, match="cannot load the environment 'ropewalk-no-env'"):
        verifiers_task(VerifiersTask(environment="ropewalk-no-env"))
    with pytest.raises(InputError, match="cannot load the environment"):
        verifiers_task(VerifiersTask(environment=installed, arguments={"nosuch": 1}))


def test_an_environment_that_continues_texts_is_refused() -> None:
    data = Dataset.from_list([{"prompt": "Once upon", "answer": "a time"}])
    env = vf.SingleTurnEnv(dataset=data, message_type="completion", rubric=vf.Rubric(funcs=[right]))
    with pytest.raises(InputError, match="has no messages"):
        environment_task_of("story", env)
