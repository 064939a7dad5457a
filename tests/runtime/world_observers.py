"""What one can see of a task with a world: how an episode opens, and what the first turns are told."""

from collections.abc import Mapping
from typing import Any

from ropewalk.records.errors import RopewalkError
from ropewalk.runtime.recipe import read_recipe
from ropewalk.tasks.environments.protocol import Turn
from ropewalk.tasks.load import load_task

SAID = ("down", "south", "<answer>right</answer>")


def opened(_: Any, name: str, settings: Mapping[str, Any]) -> Any:
    """The opening of the first prompt's episode, and the response to a few turns."""
    recipe: Any = read_recipe(name, settings)
    try:
        task = load_task(recipe.task)
        assert task.environment is not None
        world = task.environment()
        opening = world.reset(task.split("train")[0])
        if "It wants" in opening[-1].content:
            return opening
        return opening, [world.respond(Turn(text)) for text in SAID]
    except RopewalkError as error:
        return str(error)
