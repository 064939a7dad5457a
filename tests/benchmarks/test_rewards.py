"""The mixed bar in small: every honest row has its planted score, no hostile one earns anything, nothing is left."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.tasks.scoring.sandbox.pools import need_bubblewrap

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_honest_rows_among_hostile_ones_are_scored_as_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults G4, G6, G9: from several threads at once."""
    need_bubblewrap()
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    found = import_module("rewards").mixed_figures(300)
    assert (found.honest_scored, found.wrong) == (285, {})
    assert (found.honest_total, found.leaked, found.hostile_rewarded) == (285, 0, 0)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_machines_read() -> None:
    need_bubblewrap()
    words = [sys.executable, "benchmarks/rewards.py", "--rows", "40", "--json"]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    figures = json.loads(told)
    assert list(figures) == ["math_per_second", "mixed"] and figures["math_per_second"] > 0
    assert figures["mixed"] == {"honest_scored": 38, "honest_total": 38, "leaked": 0}
