"""Tool calls as models write them: by which format, read from a turn, written, and declared where a template cannot.

    hermes   <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>        Qwen 2.5 and 3, Hermes
    llama3   {"name": "f", "parameters": {"a": 1}}, also after <|python_tag|>   Llama 3.1 to 3.3
    python   [f(a=1), g(b="x")]                                                 Llama 3.2 small, Llama 4

What holds: `read_calls(write_calls(calls))` is `calls`; nothing of a text is run; what looks like a call and cannot be
read is reported in its place; thoughts (`<think>…</think>`) are not searched. Time is linear in the text.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ropewalk.records.prompt import Json
from ropewalk.tasks.environments import pythonic
from ropewalk.tasks.environments.protocol import ToolCall, ToolSpec, Unread
from ropewalk.tasks.scoring.rules.structured import MAX_DEPTH, depth

FormatName: TypeAlias = Literal["hermes", "llama3", "python"]
FORMATS: tuple[FormatName, ...] = get_args(FormatName)
MAX_CALLS = 16
"""Calls read from one turn; a seventeenth is reported and the rest of the turn is not read."""
MAX_MISSES = 1_000
"""Places where a call may begin and none does, after which the rest of a turn is not read either."""

_SHOWN = 300
_OPEN, _CLOSE, _TAG = "<tool_call>", "</tool_call>", "<|python_tag|>"
_END_OF_CALL = re.compile(r"\s*</tool_call>")
_NEXT_TAG = re.compile(r"</tool_call>|(?=<tool_call>)")
_MEANT = re.compile(r'\{\s*"[^{}]{0,300}"(?:parameters|arguments)"\s*:')
_SPACE = re.compile(r"\s*")

Read: TypeAlias = tuple[Sequence[ToolCall | Unread], int]
"""What stands at a place, and where to read on."""


def read_calls(text: str, name: FormatName) -> tuple[ToolCall | Unread, ...]:
    """The calls of a turn in their order."""
    form = _FORMATS[name]
    found: list[ToolCall | Unread] = []
    at, misses, thought = 0, 0, False
    while misses < MAX_MISSES and (match := form.start.search(text, at)) is not None:
        if match[0] == "<think>":
            end = text.find("</think>", match.end())
            if end < 0:
                break
            at, thought = end + len("</think>"), True
        elif match[0] == "</think>":
            if not thought:
                # The template had opened the thought, so that all before was part of it.
                found.clear()
            at, thought = match.end(), True
        else:
            calls, at = form.read(text, match.start())
            found += calls
            misses += not calls
            if len(found) > MAX_CALLS:
                return (*found[:MAX_CALLS], Unread("", f"only the first {MAX_CALLS} calls of a turn are read"))
    return tuple(found)


def write_calls(calls: Sequence[ToolCall], name: FormatName) -> str:
    """Calls as a model would write them in one turn."""
    return _FORMATS[name].write(calls)


def format_of(chat_template: str) -> FormatName | None:
    """Which format a chat template speaks; None if it is none of them."""
    if "<function=" in chat_template or "<parameter=" in chat_template:
        return None
    if _OPEN in chat_template:
        return "hermes"
    if "[func_name1(" in chat_template:
        return "python"
    if _TAG in chat_template or "dictionary of argument name and its value" in chat_template:
        return "llama3"
    return None


def declared(tool: ToolSpec) -> dict[str, Json]:
    """A tool in the form that chat templates take in their `tools`."""
    function: dict[str, Json] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def declaration(tools: Sequence[ToolSpec], name: FormatName) -> str:
    """Tools and how to call them, in words: for the system message, where a template knows nothing of tools."""
    lines = "\n".join(json.dumps(declared(tool)["function"], ensure_ascii=False) for tool in tools)
    return (
        "You may call functions. Each is given here with the JSON schema of its arguments:\n"
        f"{lines}\n"
        f"To call them, write\n{_FORMATS[name].form}\n"
        "and end your turn: what they return is then shown to you. A turn without a call is your final answer."
    )


@dataclass(frozen=True, slots=True)
class _Format:
    start: re.Pattern[str]
    """Where a call may begin; thoughts, too, as they hide calls."""
    read: Callable[[str, int], Read]
    write: Callable[[Sequence[ToolCall]], str]
    form: str
    """For declarations."""


def _searched(start: str) -> re.Pattern[str]:
    return re.compile(f"</?think>|{start}")


def _read_hermes(text: str, at: int) -> Read:
    start = at + len(_OPEN)
    place = _after_space(text, start)
    try:
        value, end = _object_at(text, place)
    except ValueError as error:
        stop = _NEXT_TAG.search(text, start)
        end = len(text) if stop is None else stop.end()
        return [_unread(text[at:end], f"what stands in {_OPEN}…{_CLOSE} is no JSON object: {error}")], end
    closing = _END_OF_CALL.match(text, end)
    if closing is None:
        stop = _NEXT_TAG.search(text, end)
        further = len(text) if stop is None else stop.end()
        why = f"a call is one JSON object, and {_CLOSE} right behind it"
        return [_unread(text[at:further], why)], further
    return [_call(value, text[at : closing.end()])], closing.end()


def _write_hermes(calls: Sequence[ToolCall]) -> str:
    return "\n".join(f"{_OPEN}\n{_object(call, 'arguments')}\n{_CLOSE}" for call in calls)


def _read_llama3(text: str, at: int) -> Read:
    if text.startswith(_TAG, at):
        place = _after_space(text, at + len(_TAG))
        if text.startswith("{", place):
            return [], place
        line = text[at:].partition("\n")[0][:_SHOWN]
        return [_unread(line, 'a call is {"name": …, "parameters": {…}}')], at + len(line)
    try:
        value, end = _object_at(text, at)
    except ValueError as error:
        if _MEANT.match(text, at) is None:
            return [], at + 1
        line = text[at : at + _SHOWN]
        return [_unread(line, f"the call is no JSON object: {error}")], at + len(line)
    if isinstance(value.get("name"), str) and ("parameters" in value or "arguments" in value):
        return [_call(value, text[at:end])], end
    return [], end


def _write_llama3(calls: Sequence[ToolCall]) -> str:
    return "; ".join(_object(call, "parameters") for call in calls)


def _read_python(text: str, at: int) -> Read:
    return pythonic.read_at(text, at)


def _object(call: ToolCall, key: str) -> str:
    return json.dumps({"name": call.name, key: dict(call.arguments)}, ensure_ascii=False, allow_nan=False)


def _object_at(text: str, at: int) -> tuple[dict[str, Json], int]:
    """The JSON object at a place and its end. Raises ValueError saying what is wrong."""
    if not text.startswith("{", at):
        raise ValueError("it does not begin with {")
    try:
        value, end = _DECODER.raw_decode(text, at)
    except RecursionError:
        raise ValueError(f"it is deeper than {MAX_DEPTH} brackets") from None
    except json.JSONDecodeError as error:
        raise ValueError(error.msg) from None
    if depth(text[at:end]) > MAX_DEPTH:
        raise ValueError(f"it is deeper than {MAX_DEPTH} brackets")
    try:
        text[at:end].encode()
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("it has half a character (a lone surrogate)") from None
    return value, end


def _call(value: Mapping[str, Json], text: str) -> ToolCall | Unread:
    """A call from its JSON object. The name and the arguments count; a `type` or an `id` beside them does not."""
    name = value.get("name")
    if not isinstance(name, str) or not name:
        return _unread(text, "a call needs a name, as text")
    given = [key for key in ("arguments", "parameters") if key in value]
    if len(given) == 2:
        return _unread(text, "a call has its arguments once, not under two names")
    others = set(value) - {"name", "type", "id", *given}
    if others and not given:
        return _unread(text, 'a call has its arguments in one object: {"name": …, "arguments": {…}}')
    arguments = value[given[0]] if given else {}
    if not isinstance(arguments, dict):
        return _unread(text, "the arguments of a call are an object")
    return ToolCall(name, arguments)


def _unread(text: str, why: str) -> Unread:
    return Unread(text[:_SHOWN], why)


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _pairs(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice in an object")
    return found


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is no JSON value")


def _float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_no_constant, parse_float=_float)
_FORMATS: Mapping[FormatName, _Format] = {
    "hermes": _Format(
        _searched(_OPEN),
        _read_hermes,
        _write_hermes,
        f'{_OPEN}\n{{"name": <name of the function>, "arguments": <object of its arguments>}}\n{_CLOSE}',
    ),
    "llama3": _Format(
        _searched(r"<\|python_tag\|>|\{(?=\s*\")"),
        _read_llama3,
        _write_llama3,
        '{"name": <name of the function>, "parameters": <object of its arguments>}',
    ),
    "python": _Format(_searched(pythonic.START), _read_python, pythonic.write, "[function1(name=value), function2()]"),
}
