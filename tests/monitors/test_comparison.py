"""Several runs on one page: the same axes, the same bins, the runs told apart."""

from pathlib import Path

import pytest

from ropewalk.monitors.report.comparison import write_comparison
from tests.monitors.folders import write_run
from tests.monitors.test_report import Page


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    root = tmp_path_factory.mktemp("runs")
    runs = {
        "with rope": write_run(root / "a", slope={"kl/sequence": 2.0, "score/grammatical/mean": 0.0}),
        "no rope": write_run(root / "b", slope={"score/truth/mean": -3.0, "kl/sequence": 20.0}),
        "rule": write_run(root / "c", slope={"kl/sequence": 3.0}, iterations=20),
    }
    recipe = runs["no rope"] / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("0.1", "0.0"))
    findings = [{"claim": "truth rises", "found": 1.16, "holds": True}, {"claim": "the rest", "holds": False}]
    path = root / "deep" / "folder" / "all.html"
    return Page(write_comparison(runs, path, title="City", notes=["One seed."], findings=findings))


def traces(page: Page, chart: str) -> list[dict[str, object]]:
    return page.specs[chart]["data"]  # type: ignore[return-value]


def test_both_scores_of_every_run_share_their_axes(page: Page) -> None:
    pair = traces(page, "score-pair")
    assert [t["name"] for t in pair] == [
        f"{run}: {what}" for what in ("true score", "reward model") for run in ("with rope", "no rope", "rule")
    ]
    assert [t["line"]["dash"] for t in pair] == ["solid"] * 3 + ["dash"] * 3  # type: ignore[index]


def test_a_run_has_one_colour_in_every_chart(page: Page) -> None:
    slots: dict[str, set[object]] = {}
    for chart, spec in page.specs.items():
        if chart.startswith(("m-", "phase")):
            for trace in spec["data"]:  # type: ignore[attr-defined]
                slots.setdefault(trace["name"], set()).add(trace["meta"]["slot"])
    assert slots == {"with rope": {0}, "no rope": {1}, "rule": {2}}


def test_truth_is_drawn_over_judge_and_over_distance(page: Page) -> None:
    for chart in ("phase-scores", "phase-rope"):
        assert len(traces(page, chart)) == 6


def test_distributions_have_the_same_bins(page: Page) -> None:
    charts = [chart for chart in page.specs if chart.startswith("d-") and chart.endswith("-reward")]
    assert len(charts) == 3
    bins = [trace["x"] for chart in charts for trace in traces(page, chart)]
    assert all(x == bins[0] for x in bins)
    for chart in charts:
        for trace in traces(page, chart):
            assert sum(trace["y"]) == pytest.approx(1)  # type: ignore[call-overload]


def test_findings_differences_and_times_are_told(page: Page) -> None:
    for text in ("truth rises", "✓ yes", "✗ no", "One seed.", "algorithm.kl.beta", "The reward model is exploited"):
        assert text in page.words, text
    totals = {t["name"]: t["x"] for t in traces(page, "time-totals")}
    assert totals["generate"] == pytest.approx([4.0, 2.4, 2.4])


def test_more_runs_than_colours_differ_by_dash(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", iterations=3)
    page = Page(write_comparison({f"run {k}": folder for k in range(10)}, tmp_path / "all.html", title="many"))
    looks = {(t["meta"]["slot"], t["line"]["dash"]) for t in traces(page, "m-reward/mean")}  # type: ignore[index]
    assert len(looks) == 10
