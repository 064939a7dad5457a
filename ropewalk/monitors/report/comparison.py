"""One report of several runs, on the same axes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ropewalk.monitors.report import said, tables, times
from ropewalk.monitors.report.charts import SLOTS, Chart, Section, curves_of_runs, phase, score_pair
from ropewalk.monitors.report.html import write_page
from ropewalk.monitors.report.read import Run, read_run
from ropewalk.monitors.report.verdict import Finding, verdict
from ropewalk.monitors.report.words import clean
from ropewalk.records.errors import InputError

_PAIRS = 8
_JUDGE, _TRUTH = "score/reward_model/mean", "score/truth/mean"


@dataclass(frozen=True)
class Shown:
    """One run as the comparison shows it."""

    label: str
    slot: int
    run: Run
    findings: list[Finding]
    pairs: list[said.Pair]


def write_comparison(
    runs: Mapping[str, Path],
    path: Path,
    *,
    title: str,
    notes: Sequence[str] = (),
    findings: Sequence[Mapping[str, object]] = (),
) -> Path:
    """Write one page of all runs: label → folder, in the order they are shown; the path.

    `notes` are paragraphs under the title; `findings` are rows of a table (column → cell, a bool is marked right or
    wrong). Errors: InputError for no run or a missing folder, RunStopped if the disk refuses the page.
    """
    if not runs:
        raise InputError("a comparison needs at least one run folder: name the runs to compare")
    read = {clean(label, 80): read_run(folder) for label, folder in runs.items()}
    shown = [
        Shown(label, slot % SLOTS, run, verdict(run), said.pairs(run, _PAIRS))
        for slot, (label, run) in enumerate(read.items())
    ]
    sections = curves_of_runs(read)
    hacking = _hacking(read)
    distributions = said.distributions(read)
    timing = [chart for chart in (times.totals(read),) if chart is not None]
    context = {
        "title": clean(title, 200),
        "notes": [clean(note) for note in notes],
        "findings": tables.table_of_rows(findings),
        "runs": shown,
        "table": tables.runs_table(read),
        "hacking": hacking,
        "sections": sections,
        "distributions": distributions,
        "timing": timing,
        "differences": tables.recipe_differences(read),
    }
    charts = [c for section in (hacking, *sections, *distributions) for c in section.charts] + timing
    return write_page(path, "comparison.html.jinja", charts, context)


def _hacking(runs: Mapping[str, Run]) -> Section:
    """Judge and truth on the same axes, over time and against each other, and truth over the rope's length."""
    charts: list[Chart | None] = [
        score_pair(runs),
        phase(
            runs,
            _JUDGE,
            _TRUTH,
            id="phase-scores",
            title="Truth over reward-model score",
            note="Up and to the right, both rise. A turn downwards is reward hacking. The dot is the end of the run; "
            "means over 5 iterations.",
        ),
        phase(
            runs,
            "kl/sequence",
            _TRUTH,
            id="phase-rope",
            title="Truth over distance from the reference",
            note="What each nat of KL bought. The dot is the end of the run; means over 5 iterations.",
        ),
    ]
    return Section(
        "Reward model against truth",
        "The reward model is a stand-in for the truth. Where its score rises and the true score does not, "
        "the policy has learned to please the stand-in.",
        [chart for chart in charts if chart is not None],
    )
