"""`train` at wrong input, at its end, and resumed: nothing half-written, and what to do next."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import TINY, Command, failed, grpo, plain, settings

PAIR = {"prompt": "[ artists", "chosen": "love the parks .", "rejected": "love the rain ."}


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def write(path: Path, *lines: object) -> None:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))


def reward_model(start: Path, rows: Path, **more: object) -> list[str]:
    values = {"start_from": start, "data.path": rows, "data.held_out": 0, "pairwise.pairs_per_step": 2, **more}
    return ["train", "city-reward-model", *settings({**values, "pairwise.epochs": 1, "hardware.threads": 1})]


WRONG_ROWS = {
    "an empty file": ([], "rows.jsonl is empty"),
    "a line that is not JSON": ([PAIR, '{"prompt": "[ art'], "rows.jsonl line 2 is not JSON"),
    "no chosen answer": ([{**PAIR, "chosen": ""}], "it has no chosen answer (first: "),
    "chosen equal to rejected": ([{**PAIR, "rejected": PAIR["chosen"]}], "chosen answer equals the rejected one"),
    "an unknown word": ([{**PAIR, "chosen": "love the xylophones ."}], "cannot spell"),
    "an over-long row": ([{**PAIR, "chosen": "love " * 40}], "more than the 32 allowed"),
}


@pytest.mark.parametrize("what", sorted(WRONG_ROWS))
def test_wrong_rows_are_named_and_leave_no_run(
    ropewalk: Command, tiny_policy: Path, rows: Path, tmp_path: Path, what: str
) -> None:
    lines, said = WRONG_ROWS[what]
    write(rows, *lines)
    before = sorted(tmp_path.rglob("*"))
    failed(ropewalk(*reward_model(tiny_policy, rows)), 2, said)
    assert [path for path in sorted(tmp_path.rglob("*")) if path.name != "runs"] == before


def test_a_refused_row_is_counted_and_the_others_train(ropewalk: Command, tiny_policy: Path, rows: Path) -> None:
    other = {**PAIR, "rejected": "visit boston ."}
    write(rows, PAIR, {**PAIR, "chosen": ""}, {**PAIR, "chosen": "love " * 40}, other)
    told = ropewalk(*reward_model(tiny_policy, rows, **{"data.limit": 4}))
    assert told.code == 0, told
    assert "3 of 4 rows are usable" in told.err
    assert "line 2" in told.err
    assert "1 of 3 rows are refused" in told.err
    assert plain(told.err)


def test_over_long_prompts_are_refused(ropewalk: Command, tiny_policy: Path) -> None:
    told = ropewalk(*grpo(tiny_policy, Path("x"), sampling__max_new_tokens=31))
    failed(told, 2, "it has 2 tokens", "31 to come")
    assert not Path("x").exists()


TRUTH = {"task.scorers.truth.kind": "length", "task.scorers.truth.high": "9"}
"""What the recipe's reward looks at, of another task."""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"start_from": "runs/gone-1"}, "there is no run or model folder runs/gone-1"),
        ({"start_from": "runs/city-pretrain-1"}, "make it with: ropewalk train city-pretrain"),
        (
            {"start_from": "none", "model.kind": "folder", "model.path": "models/gone"},
            "models/gone is neither a local folder",
        ),
        ({"task.kind": "sums", **TRUTH}, "chat template"),
        ({"task.kind": "gsm8k", "data.path": "gone.jsonl"}, "there is no file gone.jsonl"),
        ({"task.kind": "file", "task.path": "gone.py"}, "there is no file gone.py"),
        ({"task.kind": "sums", "task.style": "plain", **TRUTH}, "cannot spell"),
        ({"sampling.banned": '["xylophone"]'}, "'xylophone'"),
        ({"hardware.device": "abacus"}, "'abacus'"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(value),
)
def test_a_run_that_cannot_begin_leaves_no_folder(
    ropewalk: Command, tiny_policy: Path, changes: dict[str, str], said: str
) -> None:
    words = ["train", "city-grpo", "--out", "x", *settings({"start_from": tiny_policy, **changes})]
    failed(ropewalk(*words), 2, said)
    assert not Path("x").exists()


def test_a_run_ends_with_what_matters_and_what_is_next(ropewalk: Command, tiny_policy: Path) -> None:
    told = ropewalk(*grpo(tiny_policy, Path("x")))
    assert told.code == 0, told
    assert told.err == ""
    first, *more = told.out.splitlines()
    assert first.split() == ["run", "x"]
    assert any(line.startswith("reward/mean") and "→" in line for line in more)
    assert {"model", "report", "next:"} <= {line.split()[0] for line in more}
    assert Path("x/model/model.safetensors").is_file() and Path("x/report.html").is_file()


def test_a_finished_run_has_nothing_to_go_on_with(ropewalk: Command, tiny_policy: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in tiny_policy.rglob("*")}
    told = ropewalk("train", "--resume", tiny_policy)
    assert told.code == 0
    assert told.out.startswith(f"{tiny_policy} is finished")
    assert {path: path.stat().st_mtime_ns for path in tiny_policy.rglob("*")} == before


def test_a_run_folder_is_never_overwritten_unless_told(ropewalk: Command, tmp_path: Path) -> None:
    words = ["train", "city-pretrain", *settings({**TINY, "data.sentences": 60, "sft.epochs": 1})]
    assert ropewalk(*words, "--out", "x").code == 0
    failed(ropewalk(*words, "--out", "x"), 2, "x is not empty", "--overwrite")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to-a-friend.txt").write_text("Dear")
    failed(ropewalk(*words, "--out", "letters", "--overwrite"), 2, "not a run folder")
    assert (tmp_path / "letters" / "to-a-friend.txt").read_text() == "Dear"
    assert ropewalk(*words, "--out", "x", "--overwrite").code == 0
    assert ropewalk(*words).out.splitlines()[0].split()[1] == "runs/city-pretrain-1"
    assert ropewalk(*words).out.splitlines()[0].split()[1] == "runs/city-pretrain-2"


def test_only_a_run_is_resumed(ropewalk: Command, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    failed(ropewalk("train", "--resume", "docs"), 2, "docs is not a run folder")
    failed(ropewalk("train", "--resume", "gone"), 2, "no run folder gone")
