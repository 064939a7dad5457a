"""The grader against `math-verify`, on trusted golds: every disagreement is listed, with who is right."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from math_verify import parse, verify

from ropewalk.data.read import prompts_rows
from ropewalk.tasks.scoring.maths.policy import GSM8K, Policy
from ropewalk.tasks.scoring.maths.scorer import grade
from tests.tasks.scoring.maths.rows import rows
from tests.tasks.scoring.maths.spellings import SPELLINGS

LISTED = Path(__file__).with_name("math_verify.tsv")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def theirs(first: str, second: str) -> bool:
    """Its verdict with `first` as the gold. Its timeouts are off: they work by signals."""
    gold, answer = parse(first, parsing_timeout=None), parse(second, parsing_timeout=None)
    return bool(verify(gold, answer, timeout_seconds=None))


def listed() -> dict[tuple[str, str], str]:
    """Pairs (for GSM8K: `gsm8k` and the spelling) on which the two disagree, with what `math-verify` says both ways."""
    lines = [line.split("\t") for line in LISTED.read_text(encoding="utf-8").splitlines() if line[:2] != "# "]
    assert {right for _, _, _, right, _ in lines} <= {"ours", "theirs", "convention"}
    assert all(reason for *_, reason in lines)
    return {(first, second): says for first, second, says, _, _ in lines}


@pytest.mark.slow
def test_every_disagreement_on_the_table_is_listed() -> None:
    found = {}
    for row in rows():
        if row.verdict != "unparsed" and row.policy == Policy():
            boxed = [f"\\boxed{{{text}}}" for text in (row.first, row.second)]
            says = [theirs(*boxed), theirs(*reversed(boxed))]
            if set(says) != {row.verdict == "equal"}:
                found[row.first, row.second] = "/".join("equal" if one else "different" for one in says)
    assert found == {pair: says for pair, says in listed().items() if pair[0] != "gsm8k"}


def _golds(folder: Path, *, every: bool) -> list[str]:
    prompts, _ = prompts_rows(folder / "gsm8k_train.jsonl.gz")
    golds = sorted({str(prompt.gold) for prompt in prompts})
    shapes = {re.sub("[0-9]", "9", gold): gold for gold in golds}
    return golds if every else [*shapes.values(), *golds[::60]]


def _disagreements(golds: list[str]) -> set[tuple[str, str]]:
    """Spellings in which some gold is equal to itself for one of the two only."""
    found = set()
    for gold in golds:
        for name, spell in SPELLINGS.items():
            text = spell(int(gold.replace(",", "")))
            assert grade(text, gold, GSM8K) == "equal"
            if not theirs(gold, text):
                found.add(("gsm8k", name))
    return found


@pytest.mark.data
def test_every_disagreement_on_some_golds_is_listed(public_data: Path) -> None:
    assert _disagreements(_golds(public_data, every=False)) <= {pair for pair in listed() if pair[0] == "gsm8k"}


@pytest.mark.data
@pytest.mark.slow
def test_every_disagreement_on_all_golds_is_listed(public_data: Path) -> None:
    assert _disagreements(_golds(public_data, every=True)) == {pair for pair in listed() if pair[0] == "gsm8k"}
