"""An environment's folder: what it becomes, and everything that can be wrong with it, told when it is read."""

import json
import re
import sqlite3
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk.config.load import load
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Message
from ropewalk.records.score import Failed, Score
from ropewalk.tasks.config import EnvironmentTask
from ropewalk.tasks.environments.config import EnvironmentRecipe, ToolWorld
from ropewalk.tasks.environments.protocol import EPISODE
from ropewalk.tasks.environments.recipe import built_in_environments, environment_task
from ropewalk.tasks.load import load_task
from ropewalk.tasks.scoring.run import score_sample
from ropewalk.tasks.task import Task
from tests.tasks.environments.player import play
from tests.tasks.samples import sample
from tests.tasks.scoring.sandbox.pools import need_bubblewrap

BASE = """
name = "mine"
system = "Be exact."
[world]
kind = "tools"
[[world.tools]]
kind = "calculator"
[data]
path = "rows.jsonl"
"""
ROWS = [{"prompt": f"What is {n} + 1?", "gold": str(n + 1)} for n in range(12)]


def folder(place: Path, text: str = BASE, rows: Any = ROWS, files: Mapping[str, str] | None = None) -> str:
    for name, content in {"environment.toml": text, **(files or {})}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(content)
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(place)


def world(task: Task) -> Any:
    assert task.environment is not None
    return task.environment()


def first(task: Task) -> Any:
    return task.split("train")[0]


def test_a_folder_is_a_task_with_its_world_and_its_verifier(tmp_path: Path) -> None:
    task = load_task(EnvironmentTask(path=folder(tmp_path)))
    assert task.name == "mine" and len(task.split("train")) + len(task.split("heldout")) == 12
    assert list(task.scorers) == ["correct"] and not task.refused
    prompt = first(task)
    turn = '<tool_call>{"name": "calculator", "arguments": {"expression": "6 * 7"}}</tool_call>'
    played = play(world(task), prompt, [turn, "The answer is 42"])
    assert played.opening[0] == Message("system", "Be exact.")
    assert [message.content for message in played.heard] == ["42"] and played.done
    scored = score_sample(task, prompt, sample(f"The answer is {prompt.gold}", prompt_id=prompt.id))
    assert scored.scores == {"correct": Score(1.0)}


@pytest.mark.parametrize("name", ["calculator", "file-search", "number-guess"])
def test_the_built_in_ones_run_as_they_are(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every gold answer scores 1 by its own verifier, and anything else does not."""
    if name == "file-search":
        need_bubblewrap()
    monkeypatch.chdir(tmp_path)
    assert name in built_in_environments()
    task = environment_task(name)
    assert not task.refused and len(task.split("train")) > 20 and task.split("heldout")
    for prompt in (*task.split("train"), *task.split("heldout")):
        golds = {"calculator": f"The answer is {prompt.gold}", "file-search": f"<answer>{prompt.gold}</answer>"}
        for text, value in ((golds.get(name, str(prompt.gold)), 1.0), ("No idea: 123456789", 0.0)):
            played = play(world(task), prompt, [text] * 9) if name == "number-guess" else None
            said = sample(text, prompt_id=prompt.id)
            said = replace(said, info={EPISODE: {"reward": played.reward}}) if played else said
            (outcome,) = score_sample(task, prompt, said).scores.values()
            assert outcome == Score(value)


def test_a_number_found_late_is_found() -> None:
    solved = environment_task("number-guess").solved
    assert [solved(outcome) for outcome in (Score(1.0), Score(0.4), Score(0.0), Failed("crashed"))] == [
        True,
        True,
        False,
        False,
    ]


def test_the_files_of_the_built_in_search_hold_the_answers() -> None:
    need_bubblewrap()
    task = environment_task("file-search")
    prompt = next(p for p in task.split("train") if "cargo" in str(p.dialogue))
    ship, day = str(prompt.dialogue).split("did the ")[1].split(" bring on day ")
    shell = {"name": "shell", "arguments": {"command": f"grep {ship} day-{day[0]}.log | cut -d' ' -f7"}}
    search = {"name": "search", "arguments": {"query": ship}}
    turns = [f"<tool_call>{json.dumps(call)}</tool_call>" for call in (shell, search)]
    played = play(world(task), prompt, turns)
    assert played.heard[0].content == prompt.gold and ship in played.heard[1].content


def test_rows_are_refused_by_number_and_counted(tmp_path: Path) -> None:
    """Fault G10: by the row's schema, by what the world asks of a prompt, and by what the scorers do."""
    properties = {"prompt": {"maxLength": 20}, "gold": {"type": "string"}, "info": {"type": "object"}}
    schema = {"properties": properties, "required": ["prompt", "gold"], "additionalProperties": False}
    rows: list[Any] = [
        *ROWS,
        {"prompt": "no gold"},
        {"prompt": "too long for this schema", "gold": "1"},
        {"prompt": "wrong type", "gold": 1},
        {"prompt": "more", "gold": "1", "extra": 1},
        {"prompt": "bad gold", "gold": r"\frac{1}{"},
        {"prompt": "bad file", "gold": "1", "info": {"files": {"../x": ""}}},
        {"prompt": ROWS[0]["prompt"], "gold": "2"},
    ]
    text = BASE + 'row_schema = "schema.json"\n'
    task = environment_task(folder(tmp_path, text, rows, {"schema.json": json.dumps(schema)}))
    found = {int(where.rpartition(" ")[2]): why for where, why in task.refused}
    assert sorted(found) == [13, 14, 15, 16, 17, 18, 19]
    words = [
        "'gold' is a required",
        "too long",
        "gold: 1 is not",
        "'extra' was unexpected",
        "gold answer",
        "plain relative path",
        "repeats",
    ]
    assert all(word in found[13 + n] for n, word in enumerate(words)), found
    assert len(task.split("train")) + len(task.split("heldout")) == 12


WRONG = [
    (BASE.replace("name = ", "nmae = "), ["nmae", "did you mean", "name"]),
    (BASE.replace('kind = "calculator"', 'kind = "calculater"'), ["calculater", "calculator"]),
    (BASE + "colour = 1\n", ["colour"]),
    (BASE.replace('kind = "tools"', 'kind = "tools"\nturn = 3'), ["turn", "world.turns"]),
    (BASE.replace('kind = "tools"', 'kind = "tools"\nturns = 0'), ["turns"]),
    (BASE.replace('"mine"', '"no spaces please"'), ["name"]),
    ('name = "x"\n[world]\nkind = "tools"\ntools = []\n[data]\npath = "rows.jsonl"\n', ["tools"]),
    ("name = ", ["environment.toml"]),
    (BASE.replace("rows.jsonl", "../rows.jsonl"), ["leads out of the folder"]),
    (BASE.replace("rows.jsonl", "/etc/passwd"), ["leads out of the folder"]),
    (BASE.replace("rows.jsonl", "none.jsonl"), ["none.jsonl"]),
    (BASE + 'row_schema = "none.json"\n', ["row schema", "none.json"]),
    (BASE + 'row_schema = "bad.json"\n', ["bad.json", "malformed"]),
    (BASE + "[[world.tools]]\nkind = 'calculator'\n", ["two tools are named 'calculator'"]),
    (BASE.replace('kind = "calculator"', 'kind = "sql"\ndatabase = "x.db"'), ["no database", "x.db"]),
    (BASE.replace('kind = "calculator"', 'kind = "search"\nfolder = "docs"'), ["no folder of documents"]),
    (BASE.replace('kind = "calculator"', 'kind = "file"\npath = "none.py"'), ["none.py"]),
    (BASE.replace('kind = "calculator"', 'kind = "file"\npath = "notools.py"'), ["does not define TOOLS"]),
    (BASE.replace('kind = "calculator"', 'kind = "file"\npath = "broken.py"'), ["fails with ZeroDivisionError"]),
    (
        BASE.replace('kind = "tools"', 'kind = "tools"\nfiles = "x"'),
        ["world.files", "without a tool of kind python or shell"],
    ),
    (BASE + "[scorers.correct]\nkind = 'mahts'\n", ["mahts", "maths"]),
    (BASE + "[scorers.correct]\nkind = 'python'\npath = '../x.py'\n", ["leads out of the folder"]),
    (BASE + "[scorers.correct]\nkind = 'python'\npath = 'notools.py'\n", ["no function 'score'"]),
]


@pytest.mark.parametrize(("text", "words"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_told_when_it_is_read(tmp_path: Path, text: str, words: list[str]) -> None:
    files = {"bad.json": '{"type": "strnig"}', "notools.py": "x = 1\n", "broken.py": "1 / 0\n"}
    with pytest.raises(InputError) as caught:
        environment_task(folder(tmp_path, text, files=files))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_place_that_is_none_is_told_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="number-guess"):
        environment_task("number-gues")
    with pytest.raises(InputError, match=r"has no environment\.toml"):
        environment_task(str(tmp_path))
    with pytest.raises(InputError, match="there is no environment"):
        environment_task("../examples/number-guess")


OWN = """
from ropewalk.records.prompt import Message
from ropewalk.tasks.environments.protocol import Response, ToolSpec
from ropewalk.tasks.environments.tools import Tool

class Echo:
    tools = ()
    def reset(self, prompt):
        return [Message("user", str(prompt.gold))]
    def respond(self, turn):
        return Response((Message("user", turn.text),), reward=0.5, done=turn.text == "end")
    def close(self):
        pass

ENVIRONMENT = Echo
TOOLS = [Tool(ToolSpec("shout", "Shouts.", {"type": "object", "properties": {"word": {"type": "string"}}}),
              lambda arguments: arguments.get("word", "").upper())]

def score(prompt, sample):
    return len(sample.text) / 10
"""


def test_worlds_tools_and_verifiers_of_ones_own(tmp_path: Path) -> None:
    text = """
name = "own"
[world]
kind = "file"
path = "own.py"
[data]
path = "rows.jsonl"
[scorers.length]
kind = "python"
path = "own.py"
"""
    task = environment_task(folder(tmp_path, text, files={"own.py": OWN}))
    played = play(world(task), first(task), ["a", "end", "b"])
    assert (played.reward, played.done, list(task.scorers)) == (1.0, True, ["reward", "length"])
    said = replace(sample("four", prompt_id=first(task).id), info={EPISODE: {"reward": 1.0}})
    assert score_sample(task, first(task), said).scores == {"reward": Score(1.0), "length": Score(0.4)}
    missing = score_sample(task, first(task), sample("four", prompt_id=first(task).id)).scores["reward"]
    assert isinstance(missing, Failed) and missing.reason == "crashed"
    for change, word in (
        ("own.py", "notools.py"),
        ('name = "own"', 'name = "own"\nsystem = "x"'),
        ("length", "reward"),
    ):
        with pytest.raises(InputError, match=r"(ENVIRONMENT|no effect beside|another name)"):
            environment_task(folder(tmp_path, text.replace(change, word), files={"notools.py": "x = 1\n"}))
    tools = BASE.replace('kind = "calculator"', 'kind = "file"\npath = "own.py"')
    task = environment_task(folder(tmp_path, tools))
    turn = '<tool_call>{"name": "shout", "arguments": {"word": "a"}}</tool_call>'
    assert play(world(task), first(task), [turn]).heard[0].content == "A"


def test_all_tools_together_python_and_shell_on_the_same_files(tmp_path: Path) -> None:
    need_bubblewrap()
    connection = sqlite3.connect(tmp_path / "ships.db")
    connection.execute("CREATE TABLE ships (name TEXT)")
    connection.execute("INSERT INTO ships VALUES ('Heron')")
    connection.commit()
    connection.close()
    more = """
[[world.tools]]
kind = "python"
sandbox = { test_seconds = 20 }
[[world.tools]]
kind = "shell"
sandbox = { test_seconds = 20 }
[[world.tools]]
kind = "sql"
database = "ships.db"
rows = 1
[[world.tools]]
kind = "search"
folder = "given"
"""
    text = BASE.replace(
        'kind = "tools"', 'kind = "tools"\nfiles = "given"\noutput_characters = 40\ncalls = 5\nturns = 2'
    )
    rows = [{**row, "info": {"files": {"own.txt": str(row["gold"])}}} for row in ROWS]
    task = environment_task(folder(tmp_path, text.replace("[data]", f"{more}[data]"), rows, {"given/a.txt": "ropes\n"}))
    opened = world(task)
    assert [spec.name for spec in opened.tools] == ["calculator", "python", "shell", "sql", "search"]
    calls = [
        ("python", {"code": "open('b.txt', 'w').write(open('a.txt').read() + open('own.txt').read())"}),
        ("shell", {"command": "cat b.txt"}),
        ("sql", {"query": "SELECT name FROM ships"}),
        ("search", {"query": "ropes"}),
        ("calculator", {"expression": "10^60"}),
        ("calculator", {"expression": "1"}),
    ]
    turn = "".join(f"<tool_call>{json.dumps({'name': name, 'arguments': given})}</tool_call>" for name, given in calls)
    played = play(opened, first(task), [turn, turn, turn])
    heard = [message.content for message in played.heard]
    size = len("ropes\n" + str(first(task).gold))
    assert heard[:4] == [str(size), f"ropes\n{first(task).gold}", "name\nHeron", "[1] a.txt\nropes"]
    assert heard[4].endswith("[cut: 21 more characters]") and "at most 5 calls" in heard[5]
    assert len(heard) == 6 and played.done and played.info["ended_by"] == "turns"


def test_the_documented_template_is_one() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "environments.md").read_text()
    (template,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    recipe = load(EnvironmentRecipe, tomllib.loads(template))
    assert isinstance(recipe.world, ToolWorld)
    kinds = [tool.kind for tool in recipe.world.tools]
    assert kinds == ["calculator", "python", "shell", "sql", "search", "file"], "every kind of tool is shown"
    assert len(page.splitlines()) <= 100
