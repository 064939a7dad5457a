"""`select`: words and a histogram for people, numbers for machines, sentences for mistakes."""

import json
from pathlib import Path

import pytest

from ropewalk.cli.selecting import histogram
from tests.cli.commands import Command, failed, settings

SMALL = {"task.prompts": 12, "select.samples": 4, "hardware.threads": 1}


def asked(start: Path, *more: object, **changed: object) -> list[object]:
    values = {"start_from": start, **SMALL, **{key.replace("__", "."): value for key, value in changed.items()}}
    return ["select", "city-grpo", "--out", "s", *settings(values), *more]


def test_people_read_words_and_a_histogram(ropewalk: Command, tiny_policy: Path) -> None:
    told = ropewalk(*asked(tiny_policy))
    assert told.code == 0
    lines = told.out.splitlines()
    assert lines[0] == "pass rate  prompts kept" and lines[1].lstrip().startswith("0.0-0.1")
    assert sum(int(line.split()[-1]) for line in lines[1:11]) == 12
    assert any("of 12 prompts are kept" in line for line in lines)
    assert lines[-1] == "train on them: ropewalk train RECIPE --set rollout.only=s/kept.jsonl"


def test_machines_are_told_the_same_and_nothing_is_drawn_twice(ropewalk: Command, tiny_policy: Path) -> None:
    ropewalk(*asked(tiny_policy))
    drawn = Path("s/samples.jsonl").stat()
    found = json.loads(ropewalk(*asked(tiny_policy, "--json")).out)
    assert found == json.loads(Path("s/summary.json").read_text()) and found["prompts"] == 12
    assert Path("s/samples.jsonl").stat().st_mtime_ns == drawn.st_mtime_ns
    kept = [json.loads(line)["id"] for line in Path("s/kept.jsonl").read_text().splitlines()]
    assert len(kept) == found["kept"]


def test_mistakes_are_told_in_a_sentence(ropewalk: Command, tiny_policy: Path) -> None:
    failed(ropewalk("select", "city-grqo", "--out", "s"), 2, "city-grpo")
    failed(ropewalk("select", "city-pretrain", "--out", "s"), 2, "has no task to sample")
    failed(ropewalk(*asked(tiny_policy, "--set", "select.keep.low=0.95")), 2, "low = 0.95 is above high = 0.9")
    failed(ropewalk(*asked(tiny_policy, "--set", "select.sample=3")), 2, "samples")
    failed(ropewalk(*asked(Path("absent"))), 2, "absent")
    failed(ropewalk(*asked(Path(f"{tiny_policy}@bset"))), 2, "after @ comes best or last, not 'bset'")
    failed(ropewalk("select", tiny_policy, "--out", "s"), 2, "has no task to sample")
    assert not Path("s").exists()
    ropewalk(*asked(tiny_policy))
    failed(ropewalk(*asked(tiny_policy, task__seed=1)), 2, "another selection", "--overwrite")
    assert ropewalk(*asked(tiny_policy, "--overwrite", task__seed=1)).code == 0


@pytest.mark.parametrize("bins", [[], [(0, 0)], [(3, 1), (0, 0), (9, 9)], [(10**6, 1), (1, 0)]], ids=str)
def test_a_histogram_is_true_to_its_bins(bins: list[tuple[int, int]]) -> None:
    lines = histogram(bins)
    assert len(lines) == 1 + len(bins)
    for line, (prompts, kept) in zip(lines[1:], bins, strict=True):
        assert line.endswith(f"{kept} of {prompts}") and len(line) < 80
        assert ("░" in line or "█" in line) <= (prompts > 0)
