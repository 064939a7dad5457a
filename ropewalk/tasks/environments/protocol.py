"""A conversation with a world: the environment opens it, and answers every turn of the policy until it is over.

    reset(prompt) ─▶ messages ─▶ policy speaks ─▶ respond(turn) ─▶ messages, reward, done ─▶ policy speaks ─▶ …

One environment object serves one episode: it is made, called and closed by one thread, beside others with theirs. It
knows no engine, no tokens and no clock: limits are kept by whoever plays the episode. What it raises ends its own
episode as a failed rollout and nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from ropewalk.records.prompt import Json, Message, Prompt

EPISODE = "episode"
"""Key of `Sample.info` under which an episode's outcome stands; see `Episode`."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as it is declared to the policy, in the form that chat templates take."""

    name: str
    description: str
    parameters: Mapping[str, Json]
    """JSON schema of an object: one property an argument."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the policy wrote, as its format was read; the arguments are not checked yet."""

    name: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Unread:
    """What looked like a tool call and could not be read."""

    text: str
    why: str
    """One sentence for the policy."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the policy."""

    text: str
    """As it was said, tool calls included."""
    calls: tuple[ToolCall | Unread, ...] = ()
    """In the order they stand in the text."""
    cut: bool = False
    """The turn ended for its length, not because the policy ended it."""


@dataclass(frozen=True, slots=True)
class Response:
    """What the world says to a turn."""

    messages: tuple[Message, ...] = ()
    """What the policy reads before it speaks again; never of the assistant. Not read once the episode is done."""
    reward: float = 0.0
    """Of this turn; an episode's reward is the sum over its turns."""
    done: bool = False
    info: Mapping[str, Json] = field(default_factory=dict)
    """For the sample's record; later turns' entries stand over earlier ones'."""


class Environment(Protocol):
    """One episode's world."""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """What the policy may call; the same for the whole episode."""
        ...

    def reset(self, prompt: Prompt) -> Sequence[Message]:
        """The messages that open the episode, the last one not of the assistant."""
        ...

    def respond(self, turn: Turn) -> Response:
        """Answer a turn. A turn that the policy got wrong is answered by a message, never by an exception."""
        ...

    def close(self) -> None:
        """Let go of processes, files and connections; called once, whatever happened."""
        ...


EnvironmentFactory: TypeAlias = Callable[[], Environment]
"""Makes the world of one episode."""
