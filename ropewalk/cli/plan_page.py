"""The page of a plan: one self-contained HTML file in the look of the run report."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ropewalk.cli.plan_charts import baselines_chart, memory_chart, parts_chart, sensitivity_chart, timeline_chart
from ropewalk.cli.planned import cut, gigabytes, longer, period, price, where
from ropewalk.monitors.report.charts import Chart
from ropewalk.monitors.report.html import write_page
from ropewalk.monitors.report.tables import Cell, Table
from ropewalk.monitors.report.verdict import Finding
from ropewalk.planner.show.explain import certificate, robustness, why
from ropewalk.planner.show.gather import Gathered
from ropewalk.planner.show.memory import Device, devices
from ropewalk.planner.show.sensitivity import ITERATIONS
from ropewalk.planner.written import written


@dataclass(frozen=True, slots=True)
class Tile:
    """One large figure."""

    what: str
    value: str
    note: str


def write_plan_page(path: Path, found: Gathered) -> Path:
    """Write the page; the path. Errors: RunStopped if the disk refuses it."""
    planned, judged = found.planned, found.planned.judged
    charts: dict[str, Chart] = {
        "timeline": timeline_chart(judged, planned.case.cluster),
        "parts": parts_chart(judged),
        "memory": memory_chart(devices(judged)),
    }
    if planned.compared:
        charts["baselines"] = baselines_chart(planned)
    if found.what_if:
        charts["sensitivity"] = sensitivity_chart(found)
    plan = written(planned)
    context = {
        "title": planned.case.name,
        "findings": _findings(found),
        "tiles": _tiles(found),
        "charts": charts,
        "calls": _calls(found),
        "moves": _moves(found),
        "why": why(judged, planned.case.cluster.gpus),
        "second": _second(found),
        "bills": [_bill(device) for device in devices(judged)],
        "baselines": _baselines(found),
        "sensitivity": _sensitivity(found),
        "iterations": f"{ITERATIONS:,}",
        "provenance": _plain(("what", "value"), [*plan.provenance.items(), *(("assumed", n) for n in found.notes)]),
        "spent": _plain(("part", "seconds"), [(what, f"{seconds:.2f}") for what, seconds in found.seconds.items()]),
        "plan_text": plan.to_json(),
    }
    return write_page(path, "plan.html.jinja", charts.values(), context, package="ropewalk.cli")


def _findings(found: Gathered) -> list[Finding]:
    planned = found.planned
    proven = certificate(planned.gap, planned.bound_seconds, optimal=planned.optimal)
    said = [Finding("good" if planned.gap <= 0.02 else "plain", f"Certificate: {proven}.")]
    known = [one for one in planned.compared if one.ratio is not None]
    if known:
        parts = ", ".join(f"{one.ratio:.2f} times as long with the {one.name} plan" for one in known)
        said.append(Finding("plain", f"An iteration takes {parts}."))
    if planned.robust is not None:
        said.append(Finding("plain", f"Chosen to be robust: {robustness(planned.robust)}."))
    return said


def _tiles(found: Gathered) -> list[Tile]:
    planned, (hours, dollars) = found.planned, price(found.cost)
    fullest = max(devices(planned.judged), key=lambda device: device.need_bytes / device.usable_bytes)
    return [
        Tile("iteration", f"{planned.judged.period_seconds:.4g} s", f"bound {planned.bound_seconds:.4g} s"),
        Tile("certified gap", f"{planned.gap:.2%}", "period / bound − 1"),
        Tile("GPUs", str(planned.case.cluster.gpus), planned.case.cluster.name),
        Tile("GPU-hours", hours, f"of {ITERATIONS:,} iterations"),
        Tile("cost", dollars.partition(" (")[0], dollars.partition(" (")[2].rstrip(")")),
        Tile(
            "fullest GPU", f"{fullest.need_bytes / fullest.usable_bytes:.0%}", f"of {gigabytes(fullest.usable_bytes)}"
        ),
    ]


def _calls(found: Gathered) -> Table:
    judged, cluster = found.planned.judged, found.planned.case.cluster
    rows = [
        (
            name + (" (late)" if name in judged.late else ""),
            f"{placed.work.role}, {placed.work.kind}",
            where(placed.placement, cluster),
            cut(placed.placement.strategy),
            str(placed.placement.strategy.micro_batches),
            "yes" if placed.placement.strategy.offload else "no",
            f"{placed.estimate.seconds:.3g}",
            f"{placed.estimate.seconds / judged.period_seconds:.0%}",
            placed.estimate.source,
        )
        for name, placed in judged.calls.items()
    ]
    head = ("call", "role", "where", "dp·tp·pp", "micro-batches", "offload", "seconds", "of period", "source")
    return _plain(head, rows, numbers=(4, 6, 7))


def _moves(found: Gathered) -> Table:
    moves = [move for move in found.planned.judged.moves if move.seconds > 0]
    rows = [(move.role, move.source, move.target, f"{move.seconds:.3g}") for move in moves]
    return _plain(("role", "from", "to", "seconds"), rows, numbers=(3,))


def _second(found: Gathered) -> Table:
    cluster, rows = found.planned.case.cluster, []
    for second in found.second:
        chosen = f"{cut(second.chosen.strategy)} on {where(second.chosen, cluster)}"
        if second.other is None or second.ratio is None:
            rows.append((second.call, chosen, "nothing else fits", ""))
        else:
            other = f"{cut(second.other.strategy)} on {where(second.other, cluster)}"
            rows.append((second.call, chosen, other, longer(second.ratio)))
    return _plain(("call", "chosen", "next best", "iterations"), rows)


def _bill(device: Device) -> Table:
    rows = [
        (f"{item.role} {item.what}", item.call, "always" if item.always else "while it runs", gigabytes(item.bytes))
        for item in device.items
        if item.bytes
    ]
    title = f"{device.ranks}: {gigabytes(device.need_bytes)} of {gigabytes(device.usable_bytes)} usable"
    return _plain(("what", "call", "when", "on each GPU"), rows, numbers=(3,), title=title)


def _baselines(found: Gathered) -> Table:
    rows = [
        (
            one.name,
            "does not fit" if one.period_seconds is None else f"{one.period_seconds:.4g} s",
            "–" if one.ratio is None else f"{one.ratio:.3f}",
            one.about,
        )
        for one in found.planned.compared
    ]
    return _plain(("plan", "iteration", "times this plan's", "what it is"), rows, numbers=(1, 2))


def _sensitivity(found: Gathered) -> Table:
    gpus = found.planned.case.cluster.gpus
    rows = (
        [("as it is", str(gpus), period(found.cost), period(found.cost), *price(found.cost))] if found.what_if else []
    )
    rows += [(c.words, str(c.gpus), period(c.same), period(c.new), *price(c.new)) for c in found.what_if]
    return _plain(("change", "GPUs", "same plan", "new plan", "GPU-hours", "dollars"), rows, numbers=(1, 2, 3, 4, 5))


def _plain(
    columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, numbers: tuple[int, ...] = (), title: str = ""
) -> Table:
    body = tuple(tuple(Cell(text, "number" if i in numbers else "text") for i, text in enumerate(row)) for row in rows)
    return Table(title, columns, body)
