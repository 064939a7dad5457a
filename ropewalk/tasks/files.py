"""Tasks from files: JSON lines of prompts with gold numbers, and Python files that define TASK.

A row whose gold answer cannot be read is refused when it is loaded and named in `Task.refused`; no scorer ever
meets it. A Python file is run only because the user named it.
"""

import hashlib
import importlib.util
import sys
from pathlib import Path

from ropewalk.data.config import RowFile
from ropewalk.data.read import ReadReport, Rows, prompts_rows
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Prompt
from ropewalk.tasks.config import AnswerPlace
from ropewalk.tasks.scoring.numbers import NumberScorer, parse_gold
from ropewalk.tasks.task import Task


def gold_prompts(rows: Rows) -> tuple[list[Prompt], ReadReport]:
    """The prompts of a file that have a gold number; rows without one are refused and reported."""
    return prompts_rows(rows, gold_fault=gold_fault)


def gold_fault(gold: Json) -> str | None:
    """What is wrong with a gold answer; None if it can be read."""
    if gold is None:
        return "is missing"
    try:
        parse_gold(gold)
    except InputError:
        return "is no number"
    return None


def prompts_task(rows: Rows, answer: AnswerPlace) -> Task:
    """Prompts of one file, a tenth held out, scored by their gold number."""
    prompts, report = gold_prompts(rows)
    return Task(
        name=Path(rows.path if isinstance(rows, RowFile) else rows).name.split(".")[0],
        prompts=prompts,
        scorers={"correct": NumberScorer(answer)},
        refused=report.refused,
    )


def task_from_file(path: str | Path) -> Task:
    """The TASK that a Python file defines. Raises InputError naming the file and what is wrong with it."""
    file = Path(path).resolve()
    if not file.is_file():
        raise InputError(f"there is no task file {path}: name a Python file that defines TASK")
    name = "ropewalk_task_" + hashlib.blake2b(str(file).encode(), digest_size=6).hexdigest()
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file: name one ending in .py that defines TASK")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickling look their module up by name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise InputError(f"the task file {path} fails with {type(error).__name__}: {error}") from error
    task = getattr(module, "TASK", None)
    if not isinstance(task, Task):
        found = "does not define TASK" if task is None else f"defines TASK as a {type(task).__name__}"
        raise InputError(f"the task file {path} {found}: write TASK = Task(name=..., prompts=..., scorers=...)")
    return task
