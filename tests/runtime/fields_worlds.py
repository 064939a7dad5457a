"""The rows of the table for tasks with a world; see `fields_table`. What stands in an environment's own folder has a
table of its own, `tests/tasks/environments/test_every_setting.py`."""

from typing import Any

from tests.runtime.fields_table import Row

FOREIGN = {"task": {"kind": "verifiers", "environment": "tests.runtime.foreign_world"}}
LAKE = {
    "kind": "gymnasium",
    "id": "FrozenLake-v1",
    "arguments": {"render_mode": "ansi"},
    "actions": ["left", "down", "right", "up"],
    "prompts": 8,
    "heldout_prompts": 4,
}
GAME = {"task": LAKE}
DOOR = {"task": {"kind": "gymnasium", "id": "RopewalkFieldDoor-v0", "register_file": "@door.py"}}


def door(letters: int) -> str:
    """A file that registers a game whose door wants so many letters."""
    return f"""
import gymnasium
from gymnasium import spaces


class Door(gymnasium.Env):
    action_space = spaces.Text(9)
    observation_space = spaces.Text(99)

    def reset(self, *, seed=None, options=None):
        return "It wants {letters} letters.", {{}}


gymnasium.registry.pop("RopewalkFieldDoor-v0", None)
gymnasium.register("RopewalkFieldDoor-v0", entry_point=Door)
"""


def task(name: str, value: Any, given: Any, seen: str = "task") -> Row:
    section = {"verifiers": "VerifiersTask", "gymnasium": "GymnasiumTask"}[given["task"]["kind"]]
    return Row(f"{section}.{name}", "city", {f"task.{name}": value}, seen, given=given)


WORLDS: list[Row] = [
    Row("EnvironmentTask.kind", "city", {"task": {"kind": "environment", "path": "calculator"}}, "task"),
    Row(
        "EnvironmentTask.path",
        "city",
        {"task.path": "number-guess"},
        "task",
        given={"task": {"kind": "environment", "path": "calculator"}},
    ),
    Row("VerifiersTask.kind", "city", FOREIGN, "task"),
    task("environment", "tests.runtime.other_foreign_world", FOREIGN),
    task("arguments", {"count": 9}, FOREIGN),
    task("prompts", 5, FOREIGN),
    task("heldout_prompts", 2, FOREIGN),
    Row("GymnasiumTask.kind", "city", GAME, "task"),
    task("id", "FrozenLake8x8-v1", GAME, "opened"),
    task("register_file", "@other_door.py", DOOR, "opened"),
    task("arguments", {"render_mode": "ansi", "map_name": "8x8"}, GAME, "opened"),
    task("instruction", "Walk.", GAME),
    task("action", "tags", GAME, "opened"),
    task("actions", ["west", "south", "east", "north"], GAME, "opened"),
    task("prompts", 9, GAME),
    task("heldout_prompts", 5, GAME),
    task("seed", 1, GAME),
]
