"""What a dry run says of episodes: whether the model can play them, and how long they may get."""

import json
from collections.abc import Sequence

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.rollout.config import Sampling
from ropewalk.runtime.look.folders import ModelFacts, text_of
from ropewalk.runtime.look.look import Look
from ropewalk.tasks.environments.formats import declared
from ropewalk.tasks.environments.protocol import EnvironmentFactory
from ropewalk.tasks.scoring.sandbox.shared import sandboxes
from ropewalk.tasks.task import Task

OPENED = 8
"""Episodes of a task that a dry run opens: those of the longest prompts."""


def first_read(task: Task, prompts: Sequence[Prompt], model: ModelFacts, found: Look) -> list[str]:
    """Of each prompt what the policy reads first: its text, or the messages and tools that open its episode.

    Episodes are opened for the longest prompts only; of the others it is the prompt's text.
    """
    texts = [text_of(prompt.dialogue) for prompt in prompts]
    played = [place for place, prompt in enumerate(prompts) if task.environment_of(prompt) is not None]
    if not played:
        return texts
    if not model.speaks:
        found.problem(f"{model.folder} has no chat template, and episodes are played in messages: take a chat model")
    with sandboxes():
        for place in sorted(played, key=lambda place: -len(texts[place]))[:OPENED]:
            world = task.environment_of(prompts[place])
            assert world is not None
            opening = found.attempt(lambda prompt=prompts[place], world=world: _opening(world, prompt))  # type: ignore[misc]
            if opening is None:
                break
            texts[place] = opening
    return texts


def said_tokens(task: Task | None, sampling: Sampling) -> int:
    """How many tokens the policy may say in answer to a prompt; what a world says comes on top."""
    limits = sampling.episode
    if task is None or not task.plays:
        return sampling.max_new_tokens
    most = limits.turns * sampling.max_new_tokens
    return most if limits.tokens is None else min(most, limits.tokens)


def look_at_limits(task: Task, sampling: Sampling, found: Look) -> None:
    """The limits of an episode in a line."""
    if not task.plays:
        return
    limits = sampling.episode
    bounds = [f"{limits.turns} turns of {sampling.max_new_tokens} tokens"]
    bounds += [] if limits.tokens is None else [f"{limits.tokens} tokens"]
    bounds += [] if limits.seconds is None else [f"{limits.seconds:g} seconds"]
    found.fact("episodes", f"at most {', '.join(bounds)}; {limits.at_once} at the same time")


def _opening(factory: EnvironmentFactory, prompt: Prompt) -> str:
    """The text of what opens a prompt's episode. Raises InputError saying what the world raised."""
    try:
        world = factory()
        try:
            messages = world.reset(prompt)
            tools = [json.dumps(declared(tool), ensure_ascii=False) for tool in world.tools]
        finally:
            world.close()
    except Exception as error:
        # The failure boundary, as where episodes are played: a world may raise anything.
        raise InputError(
            f"the environment does not open prompt {prompt.id!r} ({type(error).__name__}: {error}): mend it"
        ) from error
    return "\n".join([*(message.content for message in messages), *tools])
