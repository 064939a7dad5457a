"""Every key of `environment.toml` does something: each row changes what an episode, the prompts or the scores are."""

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ropewalk.config.load import load, to_toml
from ropewalk.config.schema import keys
from ropewalk.records.errors import InputError
from ropewalk.tasks.environments import config
from ropewalk.tasks.environments.config import EnvironmentRecipe
from ropewalk.tasks.environments.recipe import environment_task
from ropewalk.tasks.scoring.run import score_sample
from tests.tasks.environments.player import play
from tests.tasks.samples import sample
from tests.tasks.scoring.sandbox.pools import need_bubblewrap

ROWS = [{"prompt": f"What is {n} + 1?", "gold": str(n % 8 + 2)} for n in range(12)]
SELECT = "SELECT name FROM ships a"
CALLS: Mapping[str, list[tuple[str, dict[str, Any]]]] = {
    "calculator": [("calculator", {"expression": "10^50"})] * 9,
    "python": [("python", {"code": "import time; time.sleep(0.4); print(sorted(__import__('os').listdir('.')))"})],
    "shell": [("shell", {"command": "ls"}), ("shell", {"command": "cat a.txt"})],
    "sql": [("sql", {"query": SELECT}), ("sql", {"query": "SELECT count(*) FROM ships a, ships b, ships c, ships d"})],
    "search": [("search", {"query": "ropes"})],
    "slow": [("slow", {})],
}


def base(world: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "mine", "world": world, "data": {"path": "rows.jsonl"}, **more}


def tools(tool: dict[str, Any], **more: Any) -> dict[str, Any]:
    return base({"kind": "tools", "tools": [tool], **more})


CALCULATOR = tools({"kind": "calculator"})
PYTHON, SHELL = tools({"kind": "python"}, files="files"), tools({"kind": "shell"}, files="files")
SQL = tools({"kind": "sql", "database": "a.db"})
SEARCH = tools({"kind": "search", "folder": "files"})
SLOW = tools({"kind": "file", "path": "slow.py"})
GUESS = base({"kind": "number_guess"})
OWN = base({"kind": "file", "path": "world.py"})

Row = tuple[str, dict[str, Any], str, Any]
TABLE: list[Row] = [
    ("EnvironmentRecipe.name", CALCULATOR, "name", "yours"),
    ("EnvironmentRecipe.system", CALCULATOR, "system", "Be exact."),
    ("EnvironmentRecipe.world ToolWorld.kind NumberGuessWorld.kind", CALCULATOR, "world", GUESS["world"]),
    ("EnvironmentRecipe.data", CALCULATOR, "data", {"path": "few.jsonl"}),
    ("EnvironmentRecipe.scorers", CALCULATOR, "scorers", {"shape": {"kind": "tags"}}),
    ("EnvironmentRows.row_schema", CALCULATOR, "data.row_schema", "schema.json"),
    ("ToolWorld.tools CalculatorTool.kind SearchTool.kind", CALCULATOR, "world.tools", SEARCH["world"]["tools"]),
    ("ToolWorld.files", SHELL, "world.files", "other"),
    ("ToolWorld.turns", CALCULATOR, "world.turns", 1),
    ("ToolWorld.calls", CALCULATOR, "world.calls", 2),
    ("ToolWorld.output_characters", CALCULATOR, "world.output_characters", 20),
    ("ToolWorld.seconds", SLOW, "world.seconds", 0.05),
    ("PythonTool.kind ShellTool.kind", PYTHON, "world.tools", SHELL["world"]["tools"]),
    ("PythonTool.sandbox", PYTHON, "world.tools.0.sandbox.test_seconds", 0.2),
    ("ShellTool.sandbox", SHELL, "world.tools.0.sandbox.packages", ["no_such_package"]),
    ("SqlTool.kind", SQL, "world.tools", CALCULATOR["world"]["tools"]),
    ("SqlTool.database", SQL, "world.tools.0.database", "b.db"),
    ("SqlTool.rows", SQL, "world.tools.0.rows", 2),
    ("SqlTool.steps", SQL, "world.tools.0.steps", 2_000),
    ("SqlTool.seconds", SQL, "world.tools.0.seconds", 1e-9),
    ("SearchTool.folder", SEARCH, "world.tools.0.folder", "other"),
    ("OwnTools.kind", SLOW, "world.tools", CALCULATOR["world"]["tools"]),
    ("OwnTools.path", SLOW, "world.tools.0.path", "fast.py"),
    ("NumberGuessWorld.low", GUESS, "world.low", 5),
    ("NumberGuessWorld.high", GUESS, "world.high", 4),
    ("NumberGuessWorld.guesses", GUESS, "world.guesses", 1),
    ("NumberGuessWorld.later", GUESS, "world.later", 0.5),
    ("OwnWorld.kind", OWN, "world", GUESS["world"]),
    ("OwnWorld.path", OWN, "world.path", "other_world.py"),
]
SLOWLY = """
import time
from ropewalk.tasks.environments.protocol import ToolSpec
from ropewalk.tasks.environments.tools import Tool
TOOLS = [Tool(ToolSpec("slow", "Waits.", {"type": "object"}), lambda _: time.sleep(@) or "done @")]
"""
WORLD = """
from ropewalk.tasks.environments.number_guess import GuessRules, NumberGuess
ENVIRONMENT = lambda: NumberGuess(GuessRules(guesses=@, later=0.3))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_bubblewrap()
    folder = tmp_path_factory.mktemp("settings")
    for name, text in {
        "slow.py": SLOWLY.replace("@", "0.3"),
        "fast.py": SLOWLY.replace("@", "0"),
        "world.py": WORLD.replace("@", "9"),
        "other_world.py": WORLD.replace("@", "1"),
        "files/a.txt": "ropes",
        "other/b.txt": "more ropes",
        "schema.json": json.dumps({"properties": {"prompt": {"pattern": "^What is [0-7]"}}}),
        "rows.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS),
        "few.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS[:5]),
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    for name in ("a", "b"):
        connection = sqlite3.connect(folder / f"{name}.db")
        connection.execute("CREATE TABLE ships (name TEXT)")
        connection.executemany("INSERT INTO ships VALUES (?)", [(f"{name}{n}",) for n in range(12)])
        connection.commit()
        connection.close()
    return folder


def changed(given: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    made = json.loads(json.dumps(given))
    *way, last = key.split(".")
    part: Any = made
    for step in way:
        part = part[int(step)] if step.isdecimal() else part.setdefault(step, {})
    part[last] = value
    return dict(made)


def seen(place: Path, given: dict[str, Any]) -> Any:
    """All that one can see: prompts, refusals, an episode's messages and rewards, scores; or why it is refused."""
    (place / "environment.toml").write_text(to_toml(load(EnvironmentRecipe, given)))
    try:
        task = environment_task(str(place))
    except InputError as error:
        return str(error)
    assert task.environment is not None
    prompts = [[(p.id, p.gold) for p in task.split(split)] for split in ("train", "heldout")]
    first = task.split("train")[0]
    names = [spec.name for spec in task.environment().tools]
    calls = [call for name in names for call in CALLS[name]]
    turn = "".join(f"<tool_call>{json.dumps({'name': n, 'arguments': a})}</tool_call>" for n, a in calls) or "1"
    played = play(task.environment(), first, [turn, "2", str(first.gold)])
    outcomes = score_sample(task, first, sample(f"The answer is {first.gold}", prompt_id=first.id)).scores
    return task.name, prompts, task.refused, played, outcomes


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0].replace(" ", "+"))
def test_a_setting_changes_what_one_sees(place: Path, row: Row) -> None:
    """Fault Q3."""
    _, given, key, value = row
    before = seen(place, given)
    assert not isinstance(before, str), before
    assert seen(place, given) == before, "nothing else changes it"
    assert seen(place, changed(given, key, value)) != before


def test_every_key_of_this_package_is_in_the_table_once() -> None:
    """Fault Q3: those of rows and of scorers are proven where they are at home."""
    there = {
        f"{key.section.__name__}.{key.field}"
        for key in keys(EnvironmentRecipe)
        if key.section.__module__ == config.__name__ and key.field in key.section.__annotations__
    }
    named = [name for row in TABLE for name in row[0].split()]
    assert sorted(there) == sorted(named)
