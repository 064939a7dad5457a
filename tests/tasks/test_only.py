"""Training on the prompts of a file, by id."""

from pathlib import Path

import pytest

from ropewalk.records.errors import InputError
from ropewalk.tasks.config import SumsTask
from ropewalk.tasks.only import narrowed
from ropewalk.tasks.sums import sums_task
from ropewalk.tasks.task import Task


@pytest.fixture
def task() -> Task:
    return sums_task(SumsTask(prompts=6, heldout_prompts=3))


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_task_is_narrowed_to_the_prompts_of_a_file(task: Task, tmp_path: Path) -> None:
    """In the task's order, with what was learnt of each; held-out prompts stay."""
    ids = [prompt.id for prompt in task.split("train")]
    rows = (
        f'{{"id": "{ids[4]}", "info": {{"difficulty": "hard", "pass_rate": 0.2, "gold": 1}}}}\n{{"id": "{ids[1]}"}}\n'
    )
    less = narrowed(task, written(tmp_path / "kept.jsonl", rows))
    assert [prompt.id for prompt in less.split("train")] == [ids[1], ids[4]]
    assert less.split("train")[1].info == {**task.split("train")[4].info, "difficulty": "hard", "pass_rate": 0.2}
    assert less.split("heldout") == task.split("heldout") and less.scorers == task.scorers


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no prompt"),
        ('{"prompt": "x"}\n', "row 1 has no id"),
        ("[1]\n", "row 1 has no id"),
        ('{"id": 7}\n', "row 1 has no id"),
        ('{"id": "nobody"}\n', "such as 'nobody'"),
        ('{"id": "a"}\n{"id": "a"}\n', "row 2 names prompt 'a' again"),
        ('{"id": "a", "info": 3}\n', "row 1 has an info that is no object"),
    ],
    ids=["empty", "no-id", "a-list", "a-number", "strange", "twice", "info"],
)
def test_a_file_that_names_no_prompts_of_the_task_is_refused(task: Task, tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        narrowed(task, written(tmp_path / "kept.jsonl", text)).split("train")


def test_a_missing_file_is_named(task: Task, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.jsonl"):
        narrowed(task, tmp_path / "absent.jsonl")
