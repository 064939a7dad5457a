import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.data.config import Buckets, Coverage, Keep
from ropewalk.data.select.rates import PassRate, write_rates
from ropewalk.data.select.selection import Selection, choose
from ropewalk.records.errors import InputError

TEXTS = ("Add the red apples to the box.", "A train leaves the town at noon.", "Name three rivers of Spain, please.")


def chosen(rates: list[PassRate], share: float = 1.0, **keep: float) -> Selection:
    return choose(rates, Keep(**keep), Buckets(), Coverage(largest_share=share))  # type: ignore[arg-type]


counts = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2), st.integers(0, 8)), min_size=1, max_size=20)


def rates_of(made: list[tuple[int, int, int]]) -> list[PassRate]:
    return [PassRate(f"p{i}", TEXTS[kind], min(k, n), n, 8 - n) for i, (k, kind, n) in enumerate(made)]


@given(counts, st.integers(0, 99))
def test_every_prompt_has_one_fate_whatever_the_order(made: list[tuple[int, int, int]], seed: int) -> None:
    rates = rates_of(made)
    found = chosen(rates, 0.5) if _possible(rates, 0.5) else chosen(rates)
    fates = {one.rate.prompt_id: one.fate for one in found.prompts}
    assert [one.rate for one in found.prompts] == rates
    shuffled = rates[:]
    random.Random(seed).shuffle(shuffled)
    again = chosen(shuffled, 0.5) if _possible(rates, 0.5) else chosen(shuffled)
    assert fates == {one.rate.prompt_id: one.fate for one in again.prompts}
    for one in found.prompts:
        share = one.rate.passed / one.rate.judged if one.rate.judged else None
        assert (one.fate == "unjudged") == (share is None) == (one.bucket is None)
        if share is not None:
            assert one.fate == ("too_hard" if share < 0.1 else "too_easy" if share > 0.9 else one.fate)
            assert (one.fate in ("kept", "crowded")) == (0.1 <= share <= 0.9)


def _possible(rates: list[PassRate], share: float) -> bool:
    kinds = {r.prompt for r in rates if r.judged and 0.1 <= r.passed / r.judged <= 0.9}
    return len(kinds) * share >= 1 or not kinds


@given(counts)
def test_of_a_crowded_cluster_those_nearest_to_a_half_stay(made: list[tuple[int, int, int]]) -> None:
    rates = rates_of(made)
    if not _possible(rates, 0.4):
        with pytest.raises(InputError, match="none can be kept"):
            chosen(rates, 0.4)
        return
    found = chosen(rates, 0.4)
    assert not found.kept or found.balanced.largest_share <= 0.4 + 1e-9
    for cluster in {one.cluster for one in found.prompts}:
        far = {
            fate: [
                abs(o.rate.passed / o.rate.judged - 0.5)
                for o in found.prompts
                if (o.cluster, o.fate) == (cluster, fate)
            ]
            for fate in ("kept", "crowded")
        }
        assert max(far["kept"], default=0) <= min(far["crowded"], default=1)


def test_the_choice_in_words(tmp_path: Path) -> None:
    rates = [
        PassRate("a", TEXTS[0], 8, 16),
        PassRate("b", TEXTS[0], 3, 16),
        PassRate("c", TEXTS[1], 0, 16),
        PassRate("d", TEXTS[2], 16, 16),
        PassRate("e", TEXTS[2], 0, 0, 16),
    ]
    found = chosen(rates)
    assert found.sentences() == [
        "2 of 5 prompts are kept: 1 are too hard, 1 too easy, 0 crowded, 1 unjudged",
        "of the kept, 0 are easy, 1 are medium, 1 are hard",
        "mean pass rate over prompts: 0.422 [0.094, 0.797] (n = 4)",
        "a band of [0.1, 0.9] keeps 2 to 14 passes of 16; a prompt of true rate 0.05 is kept with probability 0.19, "
        "one of 0.1 with 0.49",
        "of 3 prompts more samples might change the verdict",
        "2 of 3 clusters of similar prompts are emptied; the largest is 100% of the kept, before 40% of all",
    ]
    assert found.emptied() == [(2, TEXTS[2]), (1, TEXTS[1])]
    write_rates(tmp_path / "rates.jsonl", [(one.rate, one.row()) for one in found.prompts])
    lines = [json.loads(line) for line in (tmp_path / "rates.jsonl").read_text("utf-8").splitlines()]
    assert [(line["prompt_id"], line["fate"]) for line in lines] == [
        (one.rate.prompt_id, one.fate) for one in found.prompts
    ]
