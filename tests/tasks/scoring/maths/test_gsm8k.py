"""The 7,473 gold answers of GSM8K's training split."""

import json
from itertools import combinations
from pathlib import Path

import pytest

from ropewalk.data.read import prompts_rows
from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.score import Score
from ropewalk.tasks.scoring.maths.compare import verdict
from ropewalk.tasks.scoring.maths.policy import GSM8K, Policy
from ropewalk.tasks.scoring.maths.read import read
from ropewalk.tasks.scoring.maths.scorer import MathScorer, grade
from tests.tasks.samples import sample
from tests.tasks.scoring.maths.spellings import SPELLINGS

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def golds(public_data: Path) -> list[str]:
    prompts, report = prompts_rows(public_data / "gsm8k_train.jsonl.gz")
    assert (report.kept, report.refused) == (7473, ())
    # A verdict depends on the text alone, so each text is tried once.
    return sorted({str(prompt.gold) for prompt in prompts})


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_gold_equals_itself_in_every_spelling(golds: list[str], spelling: str) -> None:
    wrong = [
        (gold, policy)
        for gold in golds
        for policy in (GSM8K, Policy())
        if grade(SPELLINGS[spelling](int(gold.replace(",", ""))), gold, policy) != "equal"
    ]
    assert wrong == []


def test_no_two_different_golds_are_equal(golds: list[str]) -> None:
    numbers = {int(gold.replace(",", "")) for gold in golds}
    assert len(numbers) == 866
    answers = [read(f"{number:,}") for number in sorted(numbers)]
    assert {verdict(one, other, Policy()) for one, other in combinations(answers, 2)} == {"different"}


def test_a_changed_gold_scores_nothing_in_any_spelling(golds: list[str]) -> None:
    scorer = MathScorer(GSM8K)
    for gold in golds[::10]:
        number = int(gold.replace(",", ""))
        changed: list[Json] = [number + 1, number * 10 + 3, -number - 1]
        for spell in SPELLINGS.values():
            outcomes = [scorer(Prompt("p", "?", gold=other), sample(spell(number))) for other in changed]
            assert outcomes == [Score(0)] * 3, json.dumps(gold)
