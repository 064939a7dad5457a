"""Where the time went: seconds per call and iteration, and the timeline of the last iterations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ropewalk.monitors.report.catalogue import call_of, is_call_time
from ropewalk.monitors.report.charts import SLOTS, Chart, Spec
from ropewalk.monitors.report.read import Run
from ropewalk.monitors.report.words import duration, number, plot_text
from ropewalk.records.prompt import Json
from ropewalk.records.span import Span

_WHOLE = ("iteration", "total", "score")
"""Names under which the whole iteration may be timed, or what is done beside the calls: they are not of the sum."""
_BARS = 150
_SPANS = 400


@dataclass(frozen=True, slots=True)
class CallTime:
    """One call's part of a run."""

    call: str
    seconds: float
    share: float
    mean: str
    total: str


def call_times(run: Run) -> list[CallTime]:
    """Total seconds of each call over the iterations that were read, longest first."""
    totals = {name: sum(run.curve(name)[1]) for name in _calls(run)}
    everything = sum(totals.values())
    if everything <= 0:
        return []
    return [
        CallTime(
            call_of(name),
            seconds,
            seconds / everything,
            duration(seconds / len(run.curve(name)[1])),
            duration(seconds),
        )
        for name, seconds in sorted(totals.items(), key=lambda item: -item[1])
    ]


def stacked(run: Run) -> Chart | None:
    """Seconds of every call, stacked over iterations."""
    names = _calls(run)
    if not names:
        return None
    data: list[Json] = []
    slots = _slots(run)
    for name in names:
        x, y = run.curve(name)
        trace: Spec = {
            "name": plot_text(call_of(name)),
            "x": list(x),
            "y": list(y),
            "meta": {"slot": slots[call_of(name)]},
        }
        if len(run.metrics) > _BARS:
            data.append({**trace, "type": "scatter", "mode": "lines", "line": {"width": 0}, "stackgroup": "calls"})
        else:
            data.append({**trace, "type": "bar"})
    layout: Spec = {
        "barmode": "stack",
        "xaxis": {"title": {"text": "iteration"}},
        "yaxis": {"title": {"text": "seconds"}, "rangemode": "tozero"},
        "hovermode": "x unified",
        "showlegend": True,
    }
    return Chart(
        id="time-calls",
        title="Time of each call",
        spec={"data": data, "layout": layout},
        summary="; ".join(f"{t.call} {t.total}, {t.share:.0%}" for t in call_times(run)) + ".",
        unit="seconds per iteration",
        size="wide",
    )


def totals(runs: Mapping[str, Run]) -> Chart | None:
    """Seconds of every call over the whole run, one bar per run."""
    times = {label: {t.call: t.seconds for t in call_times(run)} for label, run in runs.items()}
    calls = sorted(
        {c for found in times.values() for c in found}, key=lambda c: -sum(t.get(c, 0.0) for t in times.values())
    )
    if not calls:
        return None
    labels: list[Json] = [plot_text(label) for label in reversed(times)]
    data: list[Json] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": plot_text(call),
            "y": labels,
            "x": [times[label].get(call, 0.0) for label in reversed(times)],
            "meta": {"slot": slot % SLOTS},
        }
        for slot, call in enumerate(calls)
    ]
    layout: Spec = {
        "barmode": "stack",
        "xaxis": {"title": {"text": "seconds"}},
        "yaxis": {"automargin": True, "type": "category", "dtick": 1},
        "legend": {"traceorder": "normal"},
        "hovermode": "closest",
        "showlegend": True,
    }
    parts = [f"{label} {duration(sum(found.values()))}" for label, found in times.items()]
    return Chart(
        id="time-totals",
        title="Time of each call, whole run",
        spec={"data": data, "layout": layout},
        summary="; ".join(parts) + ".",
        unit="seconds",
        size="wide",
    )


def timeline(run: Run) -> Chart | None:
    """What ran where, in the last two iterations that have spans (or the last spans, if they name no iteration)."""
    spans = _last(run.spans)
    if not spans:
        return None
    lanes = sorted({span.lane for span in spans}, reverse=True)
    names = sorted({span.name for span in spans})
    start = min(span.start_seconds for span in spans)
    end = max(span.end_seconds for span in spans)
    data: list[Json] = []
    slots = _slots(run)
    for name in names:
        own = [span for span in spans if span.name == name]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": plot_text(name),
                "y": [plot_text(span.lane) for span in own],
                "base": [span.start_seconds for span in own],
                "x": [span.end_seconds - span.start_seconds for span in own],
                "customdata": [_detail(span) for span in own],
                "hovertemplate": "%{customdata}<extra></extra>",
                "meta": {"slot": slots[name]},
            }
        )
    layout: Spec = {
        "barmode": "overlay",
        "xaxis": {"title": {"text": "seconds since the start"}, "range": [start, end]},
        "yaxis": {
            "automargin": True,
            "type": "category",
            "dtick": 1,
            "categoryarray": [plot_text(lane) for lane in lanes],
        },
        "hovermode": "closest",
        "showlegend": True,
    }
    return Chart(
        id="timeline",
        title="Timeline",
        spec={"data": data, "layout": layout},
        summary=f"{len(spans)} spans of {len(names)} calls on {len(lanes)} lanes "
        f"between {duration(start)} and {duration(end)}.",
        note="The last iterations. The whole of it is in timeline.json, for Perfetto or chrome://tracing.",
        size="wide",
    )


def _calls(run: Run) -> list[str]:
    return [name for name in run.names if is_call_time(name) and call_of(name) not in _WHOLE]


def _slots(run: Run) -> dict[str, int]:
    """One colour per call, in the bars and in the timeline alike."""
    calls = sorted({call_of(name) for name in _calls(run)} | {span.name for span in run.spans})
    return {call: slot % SLOTS for slot, call in enumerate(calls)}


def _last(spans: Sequence[Span]) -> list[Span]:
    when = sorted({int(n) for span in spans if (n := number(span.info.get("iteration"))) is not None})
    if when:
        spans = [span for span in spans if (number(span.info.get("iteration")) or 0) >= when[-2:][0]]
    return list(spans[-_SPANS:])


def _detail(span: Span) -> str:
    facts = [f"{plot_text(name)}: {plot_text(str(value))}" for name, value in list(span.info.items())[:8]]
    length = duration(span.end_seconds - span.start_seconds)
    return "<br>".join([f"{plot_text(span.name)} on {plot_text(span.lane)}: {length}", *facts])
