"""Rows of labelled steps as ids: plain and chat, finished and not; what is refused is counted and named."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ropewalk.records.errors import InputError
from ropewalk.runtime.config import StepFile
from ropewalk.runtime.prepare import HeldOut, language_of, step_rows
from ropewalk.runtime.progress import Silent
from ropewalk.runtime.roles import FromPolicy
from ropewalk.training.packing import StepRow, pack_steps
from tests.fakes import EOS_ID, TURN_END_ID
from tests.models.folders import policy_folder

CHAT = [{"role": "user", "content": "how?"}]


class Said(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return policy_folder(tmp_path_factory.mktemp("steps"))


def read(
    policy: Path, folder: Path, rows: list[dict[str, Any]], said: Said | None = None, **more: Any
) -> HeldOut[StepRow]:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    language = language_of(FromPolicy(str(policy)))
    return step_rows(
        StepFile(path=str(folder / "rows.jsonl"), **{"held_out": 0.0, **more}), language, 0, said or Said()
    )


@pytest.mark.parametrize(
    ("prompt", "finished", "steps", "ends_with"),
    [
        ("why? ", True, ["one é", "two", "so 3"], [EOS_ID]),
        ("why? ", True, ["one", "two\n\n"], [EOS_ID]),
        ("why? ", False, ["one", "two"], list(b"\n\n")),
        (CHAT, True, ["one é", "two", "so 3"], [TURN_END_ID]),
        (CHAT, False, ["one", "two"], list(b"\n\n")),
    ],
)
def test_steps_end_where_decoding_says(
    policy: Path, tmp_path: Path, prompt: Any, finished: bool, steps: list[str], ends_with: list[int]
) -> None:
    """Fault F2, F6: the prompt's ids are those a policy reads, and each end is that of its step's text."""
    labels = [n / len(steps) for n in range(len(steps))]
    row = {"prompt": prompt, "steps": steps, "labels": labels, "finished": finished}
    (found,) = read(policy, tmp_path, [row]).train
    assert found.ids[-len(ends_with) :].tolist() == ends_with and list(found.labels) == labels
    language = language_of(FromPolicy(str(policy)))
    first = int(np.argmax(found.mask))
    assert found.mask[first:].all()
    texts = [language.tokenizer.decode(found.ids[first : end + 1].tolist()) for end in found.ends]
    joined = ["\n\n".join(steps[: n + 1]) for n in range(len(steps))]
    for number, text in enumerate(texts[:-1]):
        assert text == joined[number] + "\n\n"
    last = joined[-1] + ("" if finished else "\n\n")
    assert texts[-1].removesuffix("<eos>").removesuffix("<turn>") == last


def test_rows_that_do_not_fit_are_refused_and_counted(policy: Path, tmp_path: Path) -> None:
    """Fault A8, L2: none is cut, and the sentence names the first."""
    good = {"prompt": "why?", "steps": ["a", "b"], "labels": [1, 0]}
    rows = [good, {**good, "id": "long", "steps": ["a" * 40, "b"]}, {**good, "id": "ends", "steps": ["a<eos>", "b"]}]
    said = Said()
    found = read(policy, tmp_path, rows, said, max_tokens=20)
    assert len(found.train) == 1
    assert any("2 of 3 rows are refused" in line and "long" in line for line in said.lines)
    with pytest.raises(InputError, match="no row is left"):
        read(policy, tmp_path, rows[1:], max_tokens=20)


def test_rows_that_ask_the_same_are_held_out_together(policy: Path, tmp_path: Path) -> None:
    rows = [{"prompt": f"q{n // 2}", "steps": [f"a{n}", "b"], "labels": [n / 40, 1], "id": str(n)} for n in range(40)]
    found = read(policy, tmp_path, rows, held_out=0.3)
    asked = [
        {bytes(row.ids[: int(np.argmax(row.mask))].astype(np.uint8)) for row in side}
        for side in (found.train, found.held)
    ]
    assert asked[0] and asked[1] and not asked[0] & asked[1]
    assert len(found.train) + len(found.held) == 40


def test_a_row_without_a_step_in_its_answer_is_no_row() -> None:
    ids, mask = np.arange(1, 6), np.array([False, False, True, True, True])
    packed = pack_steps([StepRow(ids, mask, [3, 4], [0.5, 1.0])])
    assert packed.token_columns["step_end"].tolist() == [False, False, False, True, True]
    assert packed.token_columns["step_label"].tolist() == [0, 0, 0, 0.5, 1]
    for ends in ([], [1]):
        with pytest.raises(InputError, match="row 0 has no step, or one that ends outside"):
            pack_steps([StepRow(ids, mask, ends, [0.5] * len(ends))])
