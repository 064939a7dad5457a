"""Calls are checked before a function sees them, and whatever goes wrong comes back as words."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.records.errors import InputError, RunStopped
from ropewalk.tasks.environments import tools
from ropewalk.tasks.environments.protocol import ToolCall, ToolSpec, Unread
from ropewalk.tasks.environments.tools import MAX_UNFINISHED, Tool, Toolbox, ToolFault, ToolLimits, TooManyLate
from ropewalk.tasks.scoring.sandbox.box import SandboxFault

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "word": {"type": "string", "minLength": 1},
        "times": {"type": "integer", "minimum": 0, "maximum": 9},
        "more": {"type": "object", "properties": {"deep": {"type": "array", "items": {"type": "number"}}}},
    },
    "required": ["word"],
}


def tool(function: Any = lambda arguments: "ok", name: str = "repeat", **more: Any) -> Tool:
    return Tool(ToolSpec(name, "Says a word again.", SCHEMA), function, **more)


def told(arguments: Any, function: Any = lambda arguments: "ok", **limits: Any) -> tuple[str, bool]:
    answer = Toolbox([tool(function)], ToolLimits(**limits)).answer(ToolCall("repeat", arguments))
    return answer.text, answer.fault


def test_a_good_call_gives_what_the_function_says() -> None:
    seen = []
    assert told({"word": "a", "times": 2}, lambda a: seen.append(a) or a["word"] * a["times"]) == ("aa", False)
    assert seen == [{"word": "a", "times": 2}]
    assert told({"word": "a"}, lambda _: {"é": [1, None]}) == ('{"é": [1, null]}', False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, ["'word' is missing"]),
        ({"wrod": "a"}, ["no argument 'wrod' (did you mean 'word'?)", "'word' is missing"]),
        ({"word": 1}, ["word: 1 is not of type 'string'"]),
        ({"word": None}, ["word: None is not of type"]),
        ({"word": "a", "times": "2"}, ["times: '2' is not of type 'integer'"]),
        ({"word": "a", "times": 1.5}, ["times: 1.5"]),
        ({"word": "a", "times": True}, ["times: True"]),
        ({"word": "a", "times": 99}, ["times: 99 is greater than the maximum"]),
        ({"word": ""}, ["word: '' should be non-empty"]),
        ({"word": "a", "more": {"deep": [1, "x"]}}, ["more.deep.1: 'x' is not of type 'number'"]),
        ({"word": ["x"] * 9_000}, ["is not of type 'string'"]),
        ({"word": "a", **{f"x{n}": 1 for n in range(500)}}, ["no argument 'x0'"]),
    ],
    ids=range(12),
)
def test_a_bad_argument_never_reaches_the_function(arguments: Any, words: list[str]) -> None:
    seen: list[Any] = []
    text, fault = told(arguments, seen.append)
    assert fault and not seen and len(text) < 800
    assert text.startswith("Error: repeat: ") and all(word in text for word in words)


@given(
    arguments=st.dictionaries(
        st.sampled_from(["word", "times", "more", "x"]),
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2),
        max_size=4,
    )
)
@settings(max_examples=100, deadline=None)
def test_what_the_function_sees_is_of_the_schema(arguments: dict[str, Any]) -> None:
    seen: list[Any] = []
    _, fault = told(arguments, lambda a: seen.append(a) or "ok")
    assert fault == (not seen)
    for each in seen:
        assert set(each) <= {"word", "times", "more"} and isinstance(each["word"], str) and each["word"]
        assert isinstance(each.get("times", 0), int) and not isinstance(each.get("times", 0), bool)


def test_an_unknown_tool_is_told_with_the_nearest_name_and_an_unread_call_with_its_reason() -> None:
    box = Toolbox([tool(), tool(name="look")])
    assert box.answer(ToolCall("repaet", {})).text == (
        "Error: there is no tool 'repaet' (did you mean 'repeat'?). Tools: repeat, look."
    )
    assert box.answer(Unread("<x", "it is not closed")).text == ("Error: the call could not be read: it is not closed.")
    assert "Tools: none" in Toolbox([]).answer(ToolCall("x" * 9_000, {})).text


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("r"),
        AssertionError(),
        MemoryError(),
        ValueError("no"),
        KeyError("k"),
        ZeroDivisionError(),
        FileNotFoundError("f"),
        TypeError("t"),
        RecursionError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_a_function_raises_is_told_and_bounded(error: Exception) -> None:
    def fails(_: Any) -> str:
        raise error

    text, fault = told({"word": "a"}, fails)
    assert fault and text.startswith(f"Error: repeat: {type(error).__name__}")
    assert told({"word": "a"}, lambda _: (_ for _ in ()).throw(ToolFault("mend it")))[0] == "Error: mend it"
    assert len(told({"word": "a"}, lambda _: int("x" * 9_000))[0]) < 300


@pytest.mark.parametrize("error", [SandboxFault("gone"), InputError("bad row"), RunStopped("stop")], ids=range(3))
@pytest.mark.parametrize("bounded", [True, False])
def test_what_our_own_machinery_raises_ends_the_episode(error: Exception, bounded: bool) -> None:
    def fails(_: Any) -> str:
        raise error

    with pytest.raises(type(error)):
        Toolbox([tool(fails, bounded=bounded)]).answer(ToolCall("repeat", {"word": "a"}))


def test_a_long_result_is_cut_and_says_so_and_half_characters_are_mended() -> None:
    assert told({"word": "a"}, lambda _: "x" * 105, output_characters=100) == (
        "x" * 100 + "\n[cut: 5 more characters]",
        False,
    )
    assert told({"word": "a"}, lambda _: "x" * 100, output_characters=100) == ("x" * 100, False)
    assert told({"word": "a"}, lambda _: "a\udcffb") == ("a?b", False)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()
    for thread in list(tools._unfinished):
        thread.join(60)


def test_a_late_function_is_given_up_and_many_of_them_fail_the_episode(release: threading.Event) -> None:
    """Fault G9: what cannot be ended is at least bounded."""
    started = time.monotonic()
    for _ in range(MAX_UNFINISHED):
        text, fault = told({"word": "a"}, lambda _: release.wait(120), seconds=0.02)
        assert fault and "did not finish within 0.02 seconds" in text
    assert time.monotonic() - started < 60
    with pytest.raises(TooManyLate, match="still run"):
        told({"word": "a"}, lambda _: "ok", seconds=0.02)
    assert Toolbox([tool(bounded=True)]).answer(ToolCall("repeat", {"word": "a"})).text == "ok"
    release.set()
    for thread in list(tools._unfinished):
        thread.join(60)
    assert told({"word": "a"})[0] == "ok"


def test_a_turn_has_so_many_calls() -> None:
    box = Toolbox([tool()], ToolLimits(calls=2))
    answers = box.answer_all([ToolCall("repeat", {"word": "a"})] * 3)
    assert [answer.fault for answer in answers] == [False, False, True]
    assert "at most 2 calls" in answers[2].text


@pytest.mark.parametrize(
    ("name", "schema", "word"),
    [
        ("a b", SCHEMA, "name"),
        ("", SCHEMA, "name"),
        ("é", SCHEMA, "name"),
        ("f", {}, "schema of an object"),
        ("f", {"type": "string"}, "schema of an object"),
        ("f", {"type": "object", "properties": []}, "schema of an object"),
        ("f", {"type": "object", "properties": {"a": {"type": "strnig"}}}, "malformed"),
        ("f", {"type": "object", "properties": {"a": {"$ref": "http://x"}}}, "within it"),
    ],
    ids=range(8),
)
def test_a_tool_that_cannot_be_declared_is_refused(name: str, schema: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word):
        Tool(ToolSpec(name, "", schema), lambda _: "")


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="two tools are named 'repeat'"):
        Toolbox([tool(), tool()])
