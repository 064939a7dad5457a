"""The readers on the public data sets."""

from pathlib import Path

import pytest

from ropewalk.data.forms import gold_number
from ropewalk.data.read import demonstrations, pairs, prompts_rows
from ropewalk.data.split import split

pytestmark = [pytest.mark.slow, pytest.mark.data]


@pytest.mark.parametrize(("name", "rows"), [("gsm8k_train", 7473), ("gsm8k_test", 1319)])
def test_every_row_of_gsm8k_has_a_gold_number(public_data: Path, name: str, rows: int) -> None:
    prompts, report = prompts_rows(public_data / f"{name}.jsonl.gz")
    assert (report.kept, report.refused) == (rows, ())
    assert all(isinstance(p.gold, str) and float(p.gold) == float(gold_number(f"#### {p.gold}")) for p in prompts)


def test_preference_dialogues_are_read_or_refused_by_row(public_data: Path) -> None:
    found, report = pairs(public_data / "hh_harmless_pairs.jsonl.gz")
    assert (len(found), len(report.refused)) == (2003, 9)
    assert {pair.dialogue[-1].role for pair in found if not isinstance(pair.dialogue, str)} == {"user"}
    train, held = split(found, 0.1)
    assert not {pair.dialogue for pair in train} & {pair.dialogue for pair in held}


def test_conversations_with_answers(public_data: Path) -> None:
    """The file repeats five of its rows."""
    found, report = pairs(public_data / "dpo_en_demo.json.gz")
    assert (len(found), len(report.refused)) == (295, 5)
    assert [d.completion for d in demonstrations(public_data / "dpo_en_demo.json.gz")[0]] == [
        pair.chosen for pair in found
    ]
