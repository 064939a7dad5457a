"""A dialogue with tools goes on until a turn has no call."""

from typing import Any

import pytest

from ropewalk.records.prompt import Message, Prompt
from ropewalk.tasks.environments.calculator import calculator
from ropewalk.tasks.environments.formats import FORMATS, FormatName, write_calls
from ropewalk.tasks.environments.protocol import ToolCall, ToolSpec, Turn
from ropewalk.tasks.environments.tool_use import ToolEnvironment, opening
from ropewalk.tasks.environments.tools import Tool, ToolLimits
from tests.tasks.environments.player import play

ASKED = Prompt("p", "What is 2 + 2?", gold="4")


def call(expression: str) -> ToolCall:
    return ToolCall("calculator", {"expression": expression})


@pytest.mark.parametrize("form", FORMATS)
def test_calls_are_answered_in_order_until_the_final_answer(form: FormatName) -> None:
    world = ToolEnvironment(
        [calculator()], system="Be exact.", final=lambda prompt, text: float(str(prompt.gold) in text)
    )
    turns = [
        f"Let me see. {write_calls([call('2 + 2'), call('1/')], form)}" if form != "python" else
        f"Let me see.\n{write_calls([call('2 + 2'), call('1/')], form)}",
        write_calls([ToolCall("calculater", {"expression": "2"})], form),
        "It is 4.",
        "never said",
    ]  # fmt: skip
    played = play(world, ASKED, turns, form)
    assert played.opening == (Message("system", "Be exact."), Message("user", "What is 2 + 2?"))
    assert [message.role for message in played.heard] == ["tool"] * 3
    assert played.heard[0].content == "4"
    assert played.heard[1].content.startswith("Error: ") and "did you mean 'calculator'" in played.heard[2].content
    assert (played.done, played.reward) == (True, 1.0)
    assert played.info == {"tool_calls": 3, "tool_faults": 2}


def test_the_world_ends_an_episode_after_its_turns_and_a_cut_answer_earns_nothing() -> None:
    turns = [write_calls([call("1")], "hermes")] * 9
    played = play(ToolEnvironment([calculator()], turns=3, final=lambda *_: 1.0), ASKED, turns)
    assert (played.done, played.reward, played.info["tool_calls"], played.info["ended_by"]) == (True, 0.0, 3, "turns")
    world = ToolEnvironment([calculator()], final=lambda *_: 1.0)
    world.reset(ASKED)
    assert world.respond(Turn("It is", cut=True)).reward == 0.0


def test_kits_are_begun_with_the_prompt_and_all_closed_whatever_one_raises() -> None:
    log: list[str] = []

    class Noisy:
        def __init__(self, name: str) -> None:
            self.name = name
            self.tools = [Tool(ToolSpec(name, "", {"type": "object"}), lambda _: name)]

        def begin(self, prompt: Prompt) -> None:
            log.append(f"{self.name} begins {prompt.id}")

        def close(self) -> None:
            log.append(f"{self.name} closes")
            raise OSError(self.name)

    kits: list[Any] = [Noisy("a"), Noisy("b")]
    world = ToolEnvironment(kits, limits=ToolLimits(calls=1))
    world.reset(ASKED)
    with pytest.raises(OSError, match="a"):
        world.close()
    assert log == ["a begins p", "b begins p", "b closes", "a closes"]
    assert [spec.name for spec in world.tools] == ["a", "b"]


def test_the_system_message_joins_the_prompts_own() -> None:
    own = (Message("system", "Rule."), Message("user", "Q"))
    assert opening(Prompt("p", own), "World.") == (Message("system", "World.\n\nRule."), Message("user", "Q"))
    assert opening(Prompt("p", own), "") == own
    assert opening(Prompt("p", "Q"), "") == (Message("user", "Q"),)
