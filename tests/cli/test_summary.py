"""What is said at the end: the metrics that matter, where things are, what is next."""

import json
from pathlib import Path

import pytest

from ropewalk.cli.summary import MOST, changes, following, summary
from ropewalk.runtime.run import Run
from tests.monitors.folders import write_run


def test_at_most_five_metrics_are_told_first_to_last() -> None:
    names = ("entropy", "kl/sequence", "reward/mean", "score/truth/mean", "length/mean", "loss/nll", "unheard/of")
    rows = [{name: float(i) for name in names} for i in (1, 2, 3)]
    told = changes(rows)
    assert len(told) == MOST
    assert told[0] == ("reward/mean", "1 → 3")
    assert "unheard/of" not in dict(told)


def test_a_metric_that_is_missing_at_times_is_told_from_where_it_is_not() -> None:
    assert changes([{}, {"eval/pass_at_1": 0.25}, {"eval/pass_at_1": None}]) == [("eval/pass_at_1", "0.25 → 0.25")]


def test_a_chain_tells_its_stages(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_run(tmp_path / name, extra={"reward/mean": 0.5})
    (tmp_path / "stages.json").write_text(json.dumps(["first", "second", "later"]))
    told = summary(Run(tmp_path))
    assert [line.split()[0] for line in told[:4]] == ["run", "first", "second", "later"]
    assert "(reward/mean " in told[1]
    assert told[-1] == f"next: ropewalk report {tmp_path}"


def test_what_is_next_depends_on_the_method(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert following(run) == []
    for method, word in (("reward_model", f"reward_model={tmp_path}"), ("grpo", f"chat {tmp_path}")):
        run.write("lineage.json", {"method": method})
        assert word in following(run)[0]


@pytest.mark.parametrize("name", ["pairs", "steps"])
def test_a_job_that_labels_says_where_its_rows_are(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.jsonl").write_text("")
    assert any(line.split() == [name, str(tmp_path / f"{name}.jsonl")] for line in summary(Run(tmp_path)))
