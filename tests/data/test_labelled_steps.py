"""Rows of labelled steps: what is read, and each way to be refused, counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from ropewalk.data.config import Columns, RowFile
from ropewalk.data.read import labelled_steps
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Message

GOOD: dict[str, Any] = {"prompt": "1 + 1 =", "steps": ["one", "two"], "labels": [0.5, True]}


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows_are_read_with_labels_as_numbers(tmp_path: Path) -> None:
    chat = {"prompt": [{"role": "user", "content": "hi"}], "steps": ["a"], "labels": [0], "finished": False, "low": [0]}
    (first, second), report = labelled_steps(written(tmp_path, GOOD, chat), "\n\n")
    assert (first.steps, first.labels, first.finished) == (("one", "two"), (0.5, 1.0), True)
    assert (second.dialogue, second.labels, second.finished) == ((Message("user", "hi"),), (0.0,), False)
    assert report.refused == ()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"steps": None}, "no list of steps"),
        ({"steps": "one\n\ntwo"}, "no list of steps"),
        ({"labels": []}, "no list of labels"),
        ({"labels": [1.0]}, "2 steps and 1 labels"),
        ({"labels": [0.5, 1.01]}, "from 0 to 1"),
        ({"labels": [0.5, -0.01]}, "from 0 to 1"),
        ({"labels": [0.5, "1"]}, "from 0 to 1"),
        ({"labels": [0.5, None]}, "from 0 to 1"),
        ({"steps": ["one", " \n"]}, "empty step"),
        ({"steps": ["one", 2]}, "not text"),
        ({"steps": ["one\n\nmore", "two"]}, "2 steps are 3 by the separator"),
        ({"finished": "yes"}, "neither true nor false"),
        ({"prompt": " "}, "prompt is empty"),
        ({"prompt": "half \ud800"}, "surrogate"),
    ],
)
def test_a_row_that_cannot_be_meant_is_refused_and_counted(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    """Fault A8."""
    good = {**GOOD, "prompt": "2 + 2 ="}
    (only,), report = labelled_steps(written(tmp_path, good, {**GOOD, **change}), "\n\n")
    assert only.dialogue == "2 + 2 ="
    assert len(report.refused) == 1 and why in report.refused[0][1]
    with pytest.raises(InputError, match="no usable row"):
        labelled_steps(written(tmp_path, {**GOOD, **change}), "\n\n")


def test_an_estimate_is_kept_once_and_another_of_the_same_steps_beside_it(tmp_path: Path) -> None:
    again = [{**GOOD, "labels": [0, 0]}, {**GOOD, "id": "a"}, {**GOOD, "id": "b"}]
    rows, report = labelled_steps(written(tmp_path, GOOD, GOOD, *again, {**again[-1], "steps": ["x", "y"]}), "\n\n")
    assert len(rows) == 4 and len(report.refused) == 2 and "repeats" in report.refused[0][1]


def test_columns_may_have_other_names(tmp_path: Path) -> None:
    path = written(tmp_path, {"q": "1 + 1 =", "s": ["a", "b"], "v": [1, 0], "x": 1})
    columns = Columns(prompt="q", steps="s", labels="v")
    (row,), _ = labelled_steps(RowFile(path=str(path), columns=columns), "\n\n")
    assert (row.dialogue, row.steps, row.labels) == ("1 + 1 =", ("a", "b"), (1.0, 0.0))
