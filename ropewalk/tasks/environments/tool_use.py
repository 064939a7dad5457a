"""A dialogue with tools: the policy calls them until it ends a turn without a call, which is its final answer."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias

from ropewalk.records.prompt import Json, Message, Prompt
from ropewalk.tasks.environments.protocol import Response, ToolSpec, Turn
from ropewalk.tasks.environments.tools import Kit, Tool, Toolbox, ToolLimits

FinalReward: TypeAlias = Callable[[Prompt, str], float]
"""What the world gives for a final answer; without one the task's scorers are all that judges it."""

ENDED_BY_TURNS = "turns"


@dataclass(frozen=True, slots=True)
class Loose:
    """A tool that holds nothing, as a kit."""

    tool: Tool

    @property
    def tools(self) -> Sequence[Tool]:
        """The one tool."""
        return (self.tool,)

    def begin(self, prompt: Prompt) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


@dataclass(slots=True)
class _Count:
    turns: int = 0
    calls: int = 0
    faults: int = 0


class ToolEnvironment:
    """One episode of a dialogue with tools.

    Each call is answered by a message of the role `tool`, faults included. The episode is done with the first turn
    that has no call, or with turn number `turns`.
    """

    def __init__(
        self,
        kits: Sequence[Kit | Tool],
        *,
        system: str = "",
        turns: int | None = None,
        limits: ToolLimits | None = None,
        final: FinalReward | None = None,
    ) -> None:
        self._kits = [Loose(kit) if isinstance(kit, Tool) else kit for kit in kits]
        self._box = Toolbox([tool for kit in self._kits for tool in kit.tools], limits)
        self._system = system
        self._turns = turns
        self._final = final
        self._prompt: Prompt | None = None
        self._count = _Count()

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """Of all kits, in their order."""
        return self._box.specs

    def reset(self, prompt: Prompt) -> Sequence[Message]:
        """The system message, if there is one, and the prompt's own."""
        self._prompt = prompt
        for kit in self._kits:
            kit.begin(prompt)
        return opening(prompt, self._system)

    def respond(self, turn: Turn) -> Response:
        """The results of its calls, or the end."""
        assert self._prompt is not None, "reset comes first"
        count = self._count
        count.turns += 1
        if not turn.calls:
            reward = 0.0 if self._final is None or turn.cut else self._final(self._prompt, turn.text)
            return Response(reward=reward, done=True, info=self._info())
        answers = self._box.answer_all(turn.calls)
        count.calls += len(answers)
        count.faults += sum(answer.fault for answer in answers)
        if count.turns == self._turns:
            return Response(done=True, info=self._info(ended_by=ENDED_BY_TURNS))
        return Response(tuple(Message("tool", answer.text) for answer in answers), info=self._info())

    def close(self) -> None:
        """Let go of every kit, whatever one of them raises."""
        with ExitStack() as stack:
            for kit in self._kits:
                stack.callback(kit.close)

    def _info(self, **more: Json) -> dict[str, Json]:
        return {"tool_calls": self._count.calls, "tool_faults": self._count.faults, **more}


def opening(prompt: Prompt, system: str) -> tuple[Message, ...]:
    """The messages of a prompt behind a system message; a prompt's own system message follows it in the same one."""
    given = (Message("user", prompt.dialogue),) if isinstance(prompt.dialogue, str) else prompt.dialogue
    if not system:
        return given
    if given and given[0].role == "system":
        return (Message("system", f"{system}\n\n{given[0].content}"), *given[1:])
    return (Message("system", system), *given)
