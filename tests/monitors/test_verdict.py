"""What the page says in words follows from the numbers."""

import math
import random
from collections.abc import Mapping, Sequence

import pytest

from ropewalk.monitors.report.catalogue import GROUPS, NOTES, OTHER, entry, ordered
from ropewalk.monitors.report.read import Run
from ropewalk.monitors.report.tables import evaluation_tables, recipe_differences, table_of_rows
from ropewalk.monitors.report.verdict import change, state, verdict
from ropewalk.monitors.report.words import cell, clean, duration, show


def run_of(curves: Mapping[str, Sequence[float]], status: Mapping[str, str] | None = None) -> Run:
    length = max((len(values) for values in curves.values()), default=0)
    metrics = tuple(
        {"iteration": float(k + 1), **{name: values[k] for name, values in curves.items()}} for k in range(length)
    )
    return Run("r", metrics=metrics, status=dict(status or {}))


def line(start: float, end: float, count: int = 30, noise: float = 0.02) -> list[float]:
    draw = random.Random(0)
    return [start + (end - start) * k / (count - 1) + draw.gauss(0, noise) for k in range(count)]


def told(run: Run) -> list[tuple[str, str]]:
    return [(finding.tone, finding.text) for finding in verdict(run)]


def test_a_rise_is_told_from_noise() -> None:
    rise, flat, fall = (change(run_of({"x": line(0, end, noise=0.1)}), "x") for end in (2.0, 0.0, -2.0))
    assert rise and flat and fall
    assert [c.direction for c in (rise, flat, fall)] == ["rose", "did not change measurably", "fell"]


def test_the_ends_are_the_first_three_and_the_last_ten() -> None:
    found = change(run_of({"x": list(range(40))}), "x")
    assert found and (found.first, found.last, found.low, found.high) == (1, 34.5, 0, 39)
    short = change(run_of({"x": [1.0, 2.0]}), "x")
    assert short and (short.first, short.last) == (1, 2)
    assert change(run_of({"x": [1.0]}), "y") is None


def test_an_exploited_reward_model_is_called_so_and_its_reward_is_no_merit() -> None:
    hacked = run_of({"reward/mean": line(0, 1), "score/reward_model/mean": line(0, 1), "score/truth/mean": line(0, -3)})
    tones = {text.split(":")[0]: tone for tone, text in told(hacked)}
    assert tones["The reward model is exploited"] == "bad" and tones["Reward rose"] == "plain"
    honest = run_of({"reward/mean": line(0, 1), "score/reward_model/mean": line(0, 1), "score/truth/mean": line(0, 1)})
    assert ("good", "Reward rose") in [(tone, text.split(":")[0]) for tone, text in told(honest)]
    assert any(text.startswith("The reward model and the truth rose together") for _, text in told(honest))


@pytest.mark.parametrize(
    ("curves", "tone", "text"),
    [
        ({"score/grammatical/mean": line(1, 0.4, noise=0)}, "bad", "grammatical"),
        ({"score/grammatical/mean": line(0.98, 0.97, noise=0)}, "good", "grammatical"),
        ({"kl/token": line(0, 2)}, "warn", "KL"),
        ({"truncated": line(0.9, 0.95, noise=0)}, "warn", "sampling.max_new_tokens"),
        ({"score/judge/failed": line(0.2, 0.2, noise=0)}, "warn", "Scorer judge failed"),
        ({"loss/nll": line(3, 1)}, "plain", "Loss: nll fell"),
        ({"solved/rule": line(0, 0.9)}, "good", "Solved: rule rose"),
    ],
)
def test_sentences(curves: dict[str, list[float]], tone: str, text: str) -> None:
    assert any(found == tone and text in words for found, words in told(run_of(curves)))


@pytest.mark.parametrize(
    ("status", "start"),
    [
        ({"state": "finished"}, "Finished: 3 iterations."),
        ({"state": "stopped", "reason": "no gradient"}, "Stopped after 3 iterations: no gradient"),
        ({"state": "running"}, "Running, or ended without a word"),
        ({}, "No word on how it ended"),
    ],
)
def test_state(status: dict[str, str], start: str) -> None:
    assert state(run_of({"x": [1, 2, 3]}, status)).text.startswith(start)


def test_every_group_has_a_note_and_unknown_metrics_come_last() -> None:
    assert set(NOTES) == set(GROUPS)
    names = ["zebra", "reward/mean", "time/generate_seconds", "score/x/failed", "kl/token", "lr/actor", "length/mean"]
    found = ordered(names)
    assert found[-1].name == "zebra" and found[-1].group == OTHER and found[0].name == "reward/mean"
    assert len(found) == len(names) - 1
    assert entry("score/x/failed").unit == "share" and entry("lr/actor").label == "actor"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.98123, "share", "98.1 %"),
        (-2.5, "", "−2.5"),
        (0.0, "", "0"),
        (1234.5, "", "1,234"),
        (2e-6, "", "2.00e−06"),
        (1e9, "", "1.00e+09"),
        (None, "", "–"),
        (math.nan, "", "–"),
    ],
)
def test_numbers(value: float | None, unit: str, text: str) -> None:
    assert show(value, unit) == text


def test_durations_cells_and_foreign_text() -> None:
    assert [duration(s) for s in (None, 0.5, 48, 723, 7500)] == ["–", "0.5 s", "48 s", "12 min 3 s", "2 h 5 min"]
    assert cell([0.3, 0.5]) == "[0.3, 0.5]" and cell(-3) == "−3" and cell({"a": True}) == "a: yes"
    assert clean("a\x00b\nc\x7f\ud800") == "a␀b\nc␡?" and clean("x" * 30, 10) == "x" * 10 + "… (20 more characters)"


def test_evaluations_of_any_form_become_tables() -> None:
    tables = evaluation_tables(
        {
            "reward": {"before": 0.1, "after": 0.4, "interval": [0.3, 0.5], "better": True},
            "pass@1": {"before": 0.2, "after": None},
            "prompts": 200,
            "sets": {"sums": {"n": 1}, "city": {"n": 2}},
            "rows": [{"a": 1, "b": 2}, {"a": 3}],
        }
    )
    texts = [[[c.text for c in row] for row in table.rows] for table in tables]
    assert texts == [
        [["prompts", "200"]],
        [["reward", "0.1", "0.4", "[0.3, 0.5]", "✓ yes"], ["pass@1", "0.2", "–", "–", "–"]],
        [["sums", "1"], ["city", "2"]],
        [["1", "2"], ["3", "–"]],
    ]
    assert evaluation_tables(None) == [] and evaluation_tables([1, 2])[0].rows[0][1].text == "[1, 2]"


def test_rows_keep_their_columns_and_recipes_show_only_differences() -> None:
    table = table_of_rows([{"claim": "x", "holds": True}, {"claim": "y", "seed": 3}])
    assert table.columns == ("claim", "holds", "seed")
    runs = {
        "a": Run("a", recipe={"kl": {"beta": 0.1}, "seed": 1}),
        "b": Run("b", recipe={"kl": {"beta": 0}, "seed": 1}),
    }
    assert [[c.text for c in row] for row in recipe_differences(runs).rows] == [["kl.beta", "0.1", "0"]]
