"""A task's prompts narrowed to those of a file, by id: so a selection trains, wherever its prompts come from."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ropewalk.records.errors import InputError
from ropewalk.records.files import read_jsonl
from ropewalk.records.prompt import Json, Prompt
from ropewalk.tasks.task import TRAIN, Task

LEARNT = ("difficulty", "pass_rate")
"""What a row's info tells of its prompt beyond what the task knows."""


def narrowed(task: Task, path: str | Path) -> Task:
    """The task with those training prompts that the file names, in the task's order; other splits stay as they are.

    Raises InputError for a row without an id, one named twice, and one that is no training prompt of the task.
    """
    chosen = chosen_rows(Path(path))

    def prompts(split: str) -> list[Prompt]:
        there = task.split(split)
        if split != TRAIN:
            return list(there)
        strange = sorted(set(chosen) - {prompt.id for prompt in there})
        if strange:
            raise InputError(
                f"{path} names {len(strange)} prompts that task {task.name!r} does not train on, such as "
                f"{strange[0]!r}: select from this task, with these settings of it"
            )
        return [replace(p, info={**p.info, **chosen[p.id]}) for p in there if p.id in chosen]

    return replace(task, prompts=prompts)


def chosen_rows(path: Path) -> dict[str, dict[str, Json]]:
    """By id, what the file has learnt of a prompt."""
    found: dict[str, dict[str, Json]] = {}
    for number, row in enumerate(read_jsonl(path), 1):
        if not isinstance(row, Mapping) or not isinstance(row.get("id"), str):
            raise InputError(f"{path} row {number} has no id: give a file that `ropewalk select` wrote")
        if row["id"] in found:
            raise InputError(f"{path} row {number} names prompt {row['id']!r} again: each counts once")
        info = row.get("info", {})
        if not isinstance(info, Mapping):
            raise InputError(f"{path} row {number} has an info that is no object")
        found[row["id"]] = {name: info[name] for name in LEARNT if name in info}
    if not found:
        raise InputError(f"{path} names no prompt: there is nothing to train on")
    return found
