"""The report of one run."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ropewalk.monitors.report import said, tables, times
from ropewalk.monitors.report.charts import curves_of_run
from ropewalk.monitors.report.html import write_page
from ropewalk.monitors.report.read import read_run
from ropewalk.monitors.report.verdict import key_changes, state, verdict
from ropewalk.records.prompt import Json

_PAIRS = 12


def write_report(run_folder: Path, *, status: Mapping[str, Json] | None = None) -> Path:
    """Read what the folder holds and write `report.html` into it; the path.

    `status` is shown in place of the folder's own: a run that ends writes its page first, its status last.
    Works on a finished, a running and a crashed run; what was missing or torn is said on the page.
    Errors: InputError if the folder is missing, RunStopped if the disk refuses the page.
    """
    run = read_run(run_folder)
    if status is not None:
        run = replace(run, status=status)
    sections = curves_of_run(run)
    distributions = said.distributions({run.name: run})
    timing = [chart for chart in (times.stacked(run), times.timeline(run)) if chart is not None]
    context = {
        "title": run.name,
        "run": run,
        "state": state(run),
        "findings": verdict(run),
        "changes": key_changes(run),
        "sections": sections,
        "distributions": distributions,
        "timing": timing,
        "call_times": times.call_times(run),
        "pairs": said.pairs(run, _PAIRS),
        "samples": said.browser(run),
        "evaluation": tables.evaluation_tables(run.evaluation),
        "numbers": tables.numbers(run),
        "lineage": tables.lineage(run),
    }
    charts = [chart for section in sections for chart in section.charts]
    charts += [chart for section in distributions for chart in section.charts] + timing
    return write_page(run_folder / "report.html", "run.html.jinja", charts, context)
