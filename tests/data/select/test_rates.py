import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.data.intervals import wilson
from ropewalk.data.select.rates import (
    PassRate,
    mean_rate,
    rates_of,
    write_rates,
)
from ropewalk.monitors.samples import sample_record
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.records.score import Abstain, Failed, Score
from ropewalk.runtime.jobs.sample import write_sample_file
from tests.tasks.samples import sample


def row(prompt: str, index: int, score: Any, **more: Any) -> dict[str, Any]:
    return {"prompt_id": prompt, "index": index, "prompt": f"{prompt}?", "scores": {"a": score}, "tokens": 3, **more}


outcomes = st.lists(
    st.sampled_from([0, 0.0, 1, 1.0, 0.5, "failed (wrong_format)", "abstained"]), min_size=1, max_size=9
)


@given(st.dictionaries(st.sampled_from("pqr"), outcomes, min_size=1), st.randoms())
def test_counts_are_those_of_the_rows_in_any_order(scores: dict[str, list[Any]], random: Any) -> None:
    """Fault E3: what could not be judged is no 0 and no 1; it is counted apart."""
    rows = [row(name, i, score) for name, listed in scores.items() for i, score in enumerate(listed)]
    shuffled = rows[:]
    random.shuffle(shuffled)
    for given_rows in (rows, shuffled):
        found = {rate.prompt_id: rate for rate in rates_of(given_rows)}
        assert set(found) == set(scores)
        for name, listed in scores.items():
            numbers = [s for s in listed if not isinstance(s, str)]
            rate = found[name]
            assert (rate.passed, rate.judged) == (sum(s >= 1 for s in numbers), len(numbers))
            assert rate.samples == len(listed) and rate.tokens == 3 * len(listed)
            assert rate.rate == (wilson(rate.passed, rate.judged) if numbers else None)


def test_the_file_that_sampling_writes_is_read(tmp_path: Path) -> None:
    prompts = {"p": Prompt("p", "q"), "r": Prompt("r", "s")}
    drawn = [
        sample("a", index=0).with_scores(ok=Score(1), style=Score(0)),
        sample("b", index=1, finish="length").with_scores(ok=Score(0), style=Abstain("no opinion")),
        sample("c", index=2).with_scores(ok=Failed("timeout", "slow"), style=Score(1)),
        sample("d", index=0, prompt_id="r").with_scores(ok=Abstain(), style=Score(1)),
    ]
    path = tmp_path / "samples.jsonl"
    write_sample_file(path, prompts, drawn)
    assert rates_of(map(json.loads, path.read_text().splitlines())) == [
        PassRate("p", "q", passed=1, judged=2, unjudged=1, truncated=1, tokens=3),
        PassRate("r", "s", passed=0, judged=0, unjudged=1, truncated=0, tokens=1),
    ]
    line = sample_record(drawn[0], iteration=0, kept="spread", prompt="q", reward=None, kl=None)
    assert set(line) >= {"prompt_id", "index", "scores", "finish", "tokens", "prompt"}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row("p", 0, 1), row("p", 0, 0)], "row 2 repeats sample p/0"),
        ([{"prompt_id": "p", "scores": {}}], "row 1 is not a scored sample"),
        ([{"prompt_id": "p", "index": True, "scores": {}}], "row 1 is not a scored sample"),
        ([7], "row 1 is not a scored sample"),
    ],
)
def test_what_is_no_file_of_samples(rows: list[Any], said: str) -> None:
    with pytest.raises(InputError, match=f"samples.jsonl {re.escape(said)}"):
        rates_of(rows, where="samples.jsonl")


def test_means_run_over_prompts() -> None:
    """A mean over samples would weigh a prompt by how often it was drawn."""
    rates = [PassRate("p", "", 4, 4), PassRate("q", "", 0, 16), PassRate("r", "", 0, 0, 3)]
    assert mean_rate(rates).value == 0.5


def test_a_line_has_the_counts_the_rate_with_its_interval_and_what_else_is_known(tmp_path: Path) -> None:
    rates = [PassRate("p", "ü\n", 3, 4, 1, 2, 9), PassRate("q", "", 0, 0)]
    write_rates(tmp_path / "rates.jsonl", [(rate, {"bucket": name}) for rate, name in zip(rates, "ab", strict=True)])
    first, second = map(json.loads, (tmp_path / "rates.jsonl").read_text("utf-8").splitlines())
    estimate = wilson(3, 4)
    assert first == {**asdict(rates[0]), "rate": 0.75, "low": estimate.low, "high": estimate.high, "bucket": "a"}
    assert second == {**asdict(rates[1]), "rate": None, "low": None, "high": None, "bucket": "b"}


@pytest.mark.parametrize("counts", [(2, 1), (-1, 1), (0, 1, -1)])
def test_counts_that_cannot_be(counts: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="prompt p cannot have"):
        PassRate("p", "", *counts)
