"""Tasks from files: JSON lines of prompts with gold numbers, and Python files that define TASK.

A row whose gold answer cannot be read is refused when it is loaded and named in `Task.refused`; no scorer ever
meets it. A Python file is run only because the user named it.
"""

from pathlib import Path

from ropewalk.data.config import RowFile
from ropewalk.data.read import ReadReport, Rows, prompts_rows
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.tasks.config import PromptsTask
from ropewalk.tasks.extra import built_all
from ropewalk.tasks.module import user_module
from ropewalk.tasks.scoring.numbers import NumberScorer, gold_fault
from ropewalk.tasks.task import AtOnce, Task


def gold_prompts(rows: Rows) -> tuple[list[Prompt], ReadReport]:
    """The prompts of a file that have a gold number; rows without one are refused and reported."""
    return prompts_rows(rows, gold_fault=gold_fault)


def prompts_task(rows: Rows, config: PromptsTask) -> Task:
    """Prompts of one file, a tenth held out, scored as the section says. Rows that a scorer could not judge are refused
    and reported."""
    made = built_all(config.scorers)
    prompts, report = prompts_rows(rows, fault=made.fault) if config.scorers else gold_prompts(rows)
    return Task(
        name=Path(rows.path if isinstance(rows, RowFile) else rows).name.split(".")[0],
        prompts=prompts,
        scorers=made.scorers or {"correct": AtOnce(NumberScorer(config.answer))},
        solved=made.solved,
        refused=report.refused,
    )


def task_from_file(path: str | Path) -> Task:
    """The TASK that a Python file defines. Raises InputError naming the file and what is wrong with it."""
    task = getattr(user_module(path, what="task file", defines="TASK"), "TASK", None)
    if not isinstance(task, Task):
        found = "does not define TASK" if task is None else f"defines TASK as a {type(task).__name__}"
        raise InputError(f"the task file {path} {found}: write TASK = Task(name=..., prompts=..., scorers=...)")
    return task
