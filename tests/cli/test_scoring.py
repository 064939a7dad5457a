"""`score`: the table, the scored rows, a row in words, and what is refused without a file being touched."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import Command, failed

ROWS = [{"prompt": f"{n} + {n} =", "completion": str(2 * n), "gold": str(2 * n)} for n in (1, 2, 3)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    rows = [*ROWS, {**ROWS[0], "completion": "perhaps"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_table_says_what_each_scorer_found(ropewalk: Command, file: Path) -> None:
    told = ropewalk("score", "sums", "rows.jsonl")
    assert told.code == 0 and not told.err
    head, first, *_ = told.out.splitlines()
    assert head.split("  ")[0] == "scorer" and first.split()[:3] == ["correct", "0.75", "4"]
    assert told.out.splitlines()[-1] == "reward: 0.75 on average, over 4 of 4 rows of sums"


def test_a_row_is_explained(ropewalk: Command, file: Path) -> None:
    told = ropewalk("score", "sums", "rows.jsonl", "--explain", 4)
    assert told.code == 0
    assert "row 4" in told.out.splitlines() and told.out.splitlines()[-1] == "  reward: +0 = 0"


def test_rows_are_written_once_and_never_over_their_source(ropewalk: Command, file: Path) -> None:
    before = file.read_bytes()
    assert ropewalk("score", "sums", "rows.jsonl", "--out", "s.jsonl").out.endswith("scored rows in s.jsonl\n")
    written = Path("s.jsonl").read_text()
    assert [json.loads(line)["reward"] for line in written.splitlines()] == [1.0, 1.0, 1.0, 0.0]
    failed(ropewalk("score", "sums", "rows.jsonl", "--out", "s.jsonl"), 2, "s.jsonl exists", "--overwrite")
    failed(ropewalk("score", "sums", "rows.jsonl", "--out", "rows.jsonl", "--overwrite"), 2, "is the file to be scored")
    failed(ropewalk("score", "sums", "rows.jsonl", "--out", "gone/s.jsonl"), 2, "gone does not exist")
    assert ropewalk("score", "sums", "s.jsonl", "--out", "t.jsonl").code == 0
    assert Path("t.jsonl").read_text() == written
    assert file.read_bytes() == before


def test_a_bad_row_leaves_no_file(ropewalk: Command, file: Path) -> None:
    file.write_text(file.read_text() + "{\n")
    failed(ropewalk("score", "sums", "rows.jsonl", "--out", "s.jsonl"), 2, "rows.jsonl line 5 is not JSON")
    assert not Path("s.jsonl").exists()
    failed(ropewalk("score", "sums", "gone.jsonl"), 2, "gone.jsonl")


def test_machines_are_told_the_same(ropewalk: Command, file: Path) -> None:
    told = ropewalk(
        "score", "sums", "rows.jsonl", "--json", "--explain", 1, "--set", "reward.components.correct.weight=2"
    )
    found = json.loads(told.out)
    assert (found["rows"], found["rewarded"], found["reward"]) == (4, 4, 1.5)
    assert found["scorers"]["correct"]["scored"] == 4
    assert found["explained"] == {"row": 1, "words": [*found["explained"]["words"][:-1], "reward: +2 = 2"]}
    failed(ropewalk("score", "sums", "rows.jsonl", "--json", "--explain", 5), 2, "rows 1 to 4")
