"""Tools: what the policy may call, and how every fault of a call comes back to it as words.

A tool is a declaration and a function of arguments that have been checked against the declared schema. What the policy
gets wrong (a name, an argument, a query) is answered by a sentence and never raised; what our own machinery gets wrong
(a sandbox that does not start) is raised, and ends the episode as failed.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol, TypeAlias

from ropewalk.records.errors import InputError, RopewalkError
from ropewalk.records.prompt import Prompt
from ropewalk.tasks.environments.protocol import ToolCall, ToolSpec, Unread
from ropewalk.tasks.scoring.rules.structured import schema_fault, validator
from ropewalk.tasks.scoring.sandbox.box import SandboxFault

Arguments: TypeAlias = Mapping[str, Any]
"""As the tool's schema says."""

MAX_UNFINISHED = 8
"""Calls of own functions in this process that ran out of time and still run; above that an episode fails."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_SHOWN = 200


class ToolFault(Exception):
    """A call cannot be carried out; the message is for the policy."""


class TooManyLate(RuntimeError):
    """Too many calls that were given up still run in this process."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A declared function."""

    spec: ToolSpec
    call: Callable[[Arguments], object] = field(repr=False)
    """Gives a text, or JSON data; raises ToolFault for what the policy should mend. Any other exception is told to the
    policy as the tool's error, but for those that say that our own machinery is broken."""
    bounded: bool = False
    """It ends in bounded time by itself; else it is given up when the time of a call is over."""
    _schema: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        name, schema = self.spec.name, dict(self.spec.parameters)
        if _NAME.fullmatch(name) is None:
            raise InputError(f"{name!r} cannot be a tool's name: letters, digits and _, at most 64")
        if schema.get("type") != "object" or not isinstance(schema.get("properties", {}), dict):
            raise InputError(
                f'the parameters of tool {name!r} are the JSON schema of an object: {{"type": "object", …}}'
            )
        if fault := schema_fault(schema):
            raise InputError(f"the parameters of tool {name!r} are a JSON schema that {fault}")
        object.__setattr__(self, "_schema", json.dumps({"additionalProperties": False} | schema, sort_keys=True))

    def fault(self, arguments: Arguments) -> str | None:
        """What is wrong with arguments, for the policy; None if nothing is."""
        faults = [self._words(error) for error in validator(self._schema).iter_errors(dict(arguments))]
        return "; ".join(sorted(faults)[:3]) or None

    def _words(self, error: Any) -> str:
        properties = self.spec.parameters.get("properties")
        known = list(properties) if isinstance(properties, dict) else []
        where = ".".join(map(str, error.absolute_path))
        if error.validator == "additionalProperties" and not where and isinstance(error.instance, dict):
            extra = sorted(set(error.instance) - set(known))
            return "; ".join(f"it has no argument {name[:60]!r}{_nearest(name, known)}" for name in extra[:3])
        if error.validator == "required" and not where:
            missing = [name for name in error.validator_value if name not in error.instance]
            return f"the argument {', '.join(map(repr, missing))} is missing"
        said = str(error.message)
        short = said if len(said) <= _SHOWN else f"{said[:60]}…{said[60 - _SHOWN :]}"
        return f"{where[:60] or 'arguments'}: {short}"


class Kit(Protocol):
    """Tools that belong together in one episode, with what they hold."""

    @property
    def tools(self) -> Sequence[Tool]:
        """The same for the whole episode."""
        ...

    def begin(self, prompt: Prompt) -> None:
        """The episode begins."""
        ...

    def close(self) -> None:
        """Let go of what is held; called once."""
        ...


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """Bounds of what calls may take and give."""

    calls: int = 8
    """Carried out in one turn; further ones are told so."""
    output_characters: int = 4_000
    """Of one result; what is longer is cut, and says so."""
    seconds: float = 10.0
    """Of one call of a function that does not bound itself."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of one call."""

    text: str
    fault: bool
    """The policy got it wrong, or the tool could not do it."""


class Toolbox:
    """Tools by name; carries out calls and puts every fault into words."""

    def __init__(self, tools: Sequence[Tool], limits: ToolLimits | None = None) -> None:
        self._limits = limits or ToolLimits()
        self._tools = {tool.spec.name: tool for tool in tools}
        if len(self._tools) < len(tools):
            names = [tool.spec.name for tool in tools]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise InputError(f"two tools are named {twice[0]!r}: give one of them another name")

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """As they are declared."""
        return tuple(tool.spec for tool in self._tools.values())

    def answer_all(self, calls: Sequence[ToolCall | Unread]) -> list[Answered]:
        """One answer a call, in order."""
        most = self._limits.calls
        late = Answered(f"Error: not carried out, as a turn has at most {most} calls.", True)
        return [self.answer(call) if number < most else late for number, call in enumerate(calls)]

    def answer(self, call: ToolCall | Unread) -> Answered:
        """What the policy is told about one call."""
        try:
            return Answered(self._cut(self._carried_out(call)), False)
        except ToolFault as error:
            return Answered(self._cut(f"Error: {error}"), True)

    def _carried_out(self, call: ToolCall | Unread) -> str:
        if isinstance(call, Unread):
            raise ToolFault(f"the call could not be read: {call.why}.")
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            near = _nearest(call.name, list(self._tools))
            raise ToolFault(f"there is no tool {call.name[:60]!r}{near}. Tools: {known}.")
        if fault := tool.fault(call.arguments):
            raise ToolFault(f"{call.name}: {fault}.")
        return _text(tool.call, call, None if tool.bounded else self._limits.seconds)

    def _cut(self, text: str) -> str:
        text = text.encode("utf-8", "replace").decode()
        most = self._limits.output_characters
        if len(text) <= most:
            return text
        return f"{text[:most]}\n[cut: {len(text) - most} more characters]"


def _nearest(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name[:100], known, n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _text(function: Callable[[Arguments], object], call: ToolCall, seconds: float | None) -> str:
    try:
        found = function(call.arguments) if seconds is None else _in_time(function, call, seconds)
    except (ToolFault, TooManyLate, SandboxFault, RopewalkError):
        raise
    except Exception as error:
        # The failure boundary: whatever a tool's own function raises is for the policy to read.
        raise ToolFault(f"{call.name}: {type(error).__name__}: {error}"[:_SHOWN]) from error
    if isinstance(found, str):
        return found
    try:
        return json.dumps(found, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(found)


_unfinished: set[threading.Thread] = set()
_guard = threading.Lock()


def _in_time(function: Callable[[Arguments], object], call: ToolCall, seconds: float) -> object:
    """The function's result, from a thread that is given up when it is late: Python can end no thread.

    Raises TooManyLate where too many that were given up still run.
    """
    with _guard:
        _unfinished.difference_update([thread for thread in _unfinished if not thread.is_alive()])
        if len(_unfinished) >= MAX_UNFINISHED:
            raise TooManyLate(f"{MAX_UNFINISHED} calls of tools ran out of time and still run: bound these tools")
    found: list[object] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            found.append(function(call.arguments))
        except BaseException as error:  # noqa: BLE001  raised again in the thread that asked
            raised.append(error)

    thread = threading.Thread(target=run, name=f"tool {call.name}", daemon=True)
    thread.start()
    thread.join(seconds)
    if raised:
        raise raised[0]
    if found:
        return found[0]
    with _guard:
        _unfinished.add(thread)
    raise ToolFault(f"{call.name}: it did not finish within {seconds:g} seconds.")
