"""The readers on the public files that lie beside the project, where they do."""

from pathlib import Path

import pytest

from ropewalk.data.forms import gold_number
from ropewalk.data.read import demonstrations, pairs, prompts_rows
from ropewalk.data.split import split

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.is_dir(), reason="the public data sets are not beside the checkout"),
]


@pytest.mark.parametrize(("name", "rows"), [("gsm8k_train", 7473), ("gsm8k_test", 1319)])
def test_every_row_of_gsm8k_has_a_gold_number(name: str, rows: int) -> None:
    prompts, report = prompts_rows(DATA / f"{name}.jsonl.gz")
    assert (report.kept, report.refused) == (rows, ())
    assert all(isinstance(p.gold, str) and float(p.gold) == float(gold_number(f"#### {p.gold}")) for p in prompts)


def test_preference_dialogues_are_read_or_refused_by_row() -> None:
    found, report = pairs(DATA / "hh_harmless_pairs.jsonl.gz")
    assert (len(found), len(report.refused)) == (2003, 9)
    assert {pair.dialogue[-1].role for pair in found if not isinstance(pair.dialogue, str)} == {"user"}
    train, held = split(found, 0.1)
    assert not {pair.dialogue for pair in train} & {pair.dialogue for pair in held}


def test_conversations_with_answers() -> None:
    """The file repeats five of its rows."""
    found, report = pairs(DATA / "dpo_en_demo.json.gz")
    assert (len(found), len(report.refused)) == (295, 5)
    assert [d.completion for d in demonstrations(DATA / "dpo_en_demo.json.gz")[0]] == [pair.chosen for pair in found]
