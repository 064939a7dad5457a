"""Charts of a plan as plotly specs, coloured by the page."""

from collections.abc import Mapping, Sequence

from ropewalk.monitors.report.charts import SLOTS, Chart, Spec
from ropewalk.monitors.report.words import plot_text
from ropewalk.plan.cluster import Cluster
from ropewalk.planner.placed import Judged
from ropewalk.planner.planning import Planned
from ropewalk.planner.show.chart import Piece, pieces
from ropewalk.planner.show.gather import Gathered
from ropewalk.planner.show.memory import Device, ranks_text
from ropewalk.planner.show.sensitivity import Cost
from ropewalk.records.prompt import Json
from ropewalk.records.span import Span


def timeline_chart(judged: Judged, cluster: Cluster) -> Chart:
    """A lane for each part of a node that runs one call at a time. The first iteration is left out: what ran beside it
    of the one before is not in the spans."""
    lanes = pieces(judged, cluster)
    names = [*judged.calls, *(f"move to {move.target}" for move in judged.moves if move.seconds > 0)]
    data: list[Json] = []
    for slot, name in enumerate(names):
        bars = [(lane, span) for span in judged.spans if span.name == name for lane in lanes if _on(span, lane)]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": plot_text(name),
                "y": [_lane(lane) for lane, _ in bars],
                "base": [span.start_seconds - judged.period_seconds for _, span in bars],
                "x": [span.end_seconds - span.start_seconds for _, span in bars],
                "customdata": [_detail(span, judged) for _, span in bars],
                "hovertemplate": "%{customdata}<extra></extra>",
                "meta": {"slot": slot % SLOTS},
            }
        )
    layout: Spec = {
        "barmode": "overlay",
        "bargap": 0.2,
        "xaxis": {"title": {"text": "seconds"}, "range": [0.0, 2.0 * judged.period_seconds]},
        "yaxis": {**_category(), "categoryarray": [_lane(lane) for lane in reversed(lanes)], "categoryorder": "array"},
        "hovermode": "closest",
        "showlegend": True,
    }
    said = f"{len(judged.calls)} calls on {len(lanes)} lanes, again every {judged.period_seconds:.4g} seconds."
    return Chart("timeline", "Predicted timeline", {"data": data, "layout": layout}, said, unit="seconds", size="wide")


def parts_chart(judged: Judged) -> Chart:
    """What the seconds of each call are made of."""
    calls = list(judged.calls)[::-1]
    rows = [judged.calls[call].estimate.parts for call in calls]
    names: list[Json] = [plot_text(call) for call in calls]
    data: list[Json] = [
        _bars(part, names, [row.get(part, 0.0) for row in rows], slot) for slot, part in enumerate(_largest(rows))
    ]
    said = "; ".join(f"{call} {judged.calls[call].estimate.seconds:.3g} s" for call in judged.calls) + "."
    return Chart("parts", "Seconds by part", _stacked(data, "seconds"), said, unit="seconds", size="wide")


def memory_chart(found: Sequence[Device]) -> Chart:
    """What fills the GPUs, and where their usable memory ends."""
    listed = found[::-1]
    rows: list[Json] = [plot_text(device.ranks) for device in listed]
    sizes = [_by_item(device) for device in listed]
    data: list[Json] = []
    for slot, what in enumerate(_largest(sizes)):
        bars = _bars(what, rows, [size.get(what, 0.0) / 1e9 for size in sizes], slot)
        data.append(bars | {"customdata": [_roles(device, what) for device in listed], "hovertemplate": _HOVER})
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "usable",
            "y": rows,
            "x": [device.usable_bytes / 1e9 for device in listed],
            "marker": {"symbol": "line-ns", "size": 22, "line": {"width": 3}},
            "hovertemplate": "usable %{x:.1f} GB<extra></extra>",
            "meta": {"slot": 7},
        }
    )
    said = "; ".join(f"{d.ranks} {d.need_bytes / 1e9:.3g} of {d.usable_bytes / 1e9:.3g} GB" for d in found) + "."
    return Chart("memory", "Memory of each GPU", _stacked(data, "GB"), said, unit="GB", size="wide")


_HOVER = "%{customdata}<extra></extra>"


def _largest(rows: Sequence[Mapping[str, float]]) -> list[str]:
    """Names with a value, largest first over all rows: the last ones share a colour."""
    sums: dict[str, float] = {}
    for row in rows:
        for name, value in row.items():
            sums[name] = sums.get(name, 0.0) + value
    return [name for name in sorted(sums, key=lambda name: -sums[name]) if sums[name] > 0]


def _by_item(device: Device) -> dict[str, float]:
    found: dict[str, float] = {}
    for item in device.items:
        found[item.what] = found.get(item.what, 0.0) + item.bytes
    return found


def _roles(device: Device, what: str) -> str:
    parts = [f"{item.role} {item.bytes / 1e9:.3g} GB ({item.call})" for item in device.items if item.what == what]
    return "<br>".join([f"{plot_text(what)} on each of {plot_text(device.ranks)}", *map(plot_text, parts)])


def baselines_chart(planned: Planned) -> Chart:
    """Periods of plans made otherwise, with the bound that none can beat."""
    known = [(one.name, one.period_seconds) for one in planned.compared if one.period_seconds is not None]
    rows = [("certified bound", planned.bound_seconds), ("this plan", planned.judged.period_seconds), *known][::-1]
    data: list[Json] = [_bars("iteration", [plot_text(name) for name, _ in rows], [seconds for _, seconds in rows], 0)]
    spec = _stacked(data, "seconds of an iteration", legend=False)
    said = "; ".join(f"{name} {seconds:.4g} s" for name, seconds in reversed(rows)) + "."
    return Chart("baselines", "Iteration of each plan", spec, said, unit="seconds", size="wide")


def sensitivity_chart(found: Gathered) -> Chart:
    """Periods under each change, with the same plan and with a new one."""
    rows = [("as it is", found.cost, found.cost), *((c.words, c.same, c.new) for c in found.what_if)][::-1]
    names: list[Json] = [plot_text(words) for words, _, _ in rows]
    data: list[Json] = [
        _bars("new plan", names, [_seconds(new) for _, _, new in rows], 0),
        _bars("same plan", names, [_seconds(same) for _, same, _ in rows], 1),
    ]
    spec = _stacked(data, "seconds of an iteration", mode="group")
    said = "; ".join(f"{words}: {_seconds(new):.4g} s" for words, _, new in reversed(rows)) + "."
    return Chart("sensitivity", "Iteration under each change", spec, said, unit="seconds", size="wide")


def _seconds(cost: Cost | None) -> float:
    return 0.0 if cost is None else cost.period_seconds


def _bars(name: str, rows: Sequence[Json], values: Sequence[float], slot: int) -> Spec:
    again = slot // SLOTS
    return {
        "type": "bar",
        "orientation": "h",
        "name": plot_text(name),
        "y": list(rows),
        "x": list(values),
        "hovertemplate": f"%{{y}}: {plot_text(name)} %{{x:.3g}}<extra></extra>",
        "meta": {"slot": slot % SLOTS, "before": again > 0},
    }


def _stacked(data: list[Json], title: str, *, mode: str = "stack", legend: bool = True) -> Spec:
    layout: Spec = {
        "barmode": mode,
        "xaxis": {"title": {"text": title}, "rangemode": "tozero"},
        "yaxis": _category(),
        "hovermode": "closest",
        "legend": {"traceorder": "normal"},
        "showlegend": legend,
    }
    return {"data": data, "layout": layout}


def _category() -> Spec:
    return {"automargin": True, "type": "category", "dtick": 1}


def _on(span: Span, lane: Piece) -> bool:
    first, gpus = span.info.get("first_rank"), span.info.get("gpus")
    return isinstance(first, int) and isinstance(gpus, int) and first <= lane.first_rank < first + gpus


def _lane(lane: Piece) -> str:
    return plot_text(f"{lane.name} · {ranks_text(lane.first_rank, lane.gpus)}")


def _detail(span: Span, judged: Judged) -> str:
    facts = [f"{plot_text(span.name)}: {span.end_seconds - span.start_seconds:.3g} s"]
    facts.append(f"{span.lane}, iteration {span.info.get('iteration')}")
    placed = judged.calls.get(span.name)
    if placed is not None:
        s = placed.placement.strategy
        facts.append(f"dp {s.dp} · tp {s.tp} · pp {s.pp}, {s.micro_batches} micro-batches")
    return "<br>".join(facts)
