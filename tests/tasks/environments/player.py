"""Plays an episode whose turns are written down."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ropewalk.records.prompt import Json, Message, Prompt
from ropewalk.tasks.environments.formats import FormatName, read_calls
from ropewalk.tasks.environments.protocol import Environment, Response, Turn


@dataclass
class Played:
    """What was heard and what came of it."""

    opening: Sequence[Message]
    heard: list[Message] = field(default_factory=list)
    reward: float = 0.0
    done: bool = False
    info: dict[str, Json] = field(default_factory=dict)


def play(world: Environment, prompt: Prompt, turns: Sequence[str], form: FormatName = "hermes") -> Played:
    """All turns, or as many as it takes until the world is done; the world is closed, whatever happens."""
    try:
        played = Played(world.reset(prompt))
        for text in turns:
            response: Response = world.respond(Turn(text, read_calls(text, form) if world.tools else ()))
            played.heard += response.messages
            played.reward += response.reward
            played.info.update(response.info)
            if response.done:
                played.done = True
                break
        return played
    finally:
        world.close()
