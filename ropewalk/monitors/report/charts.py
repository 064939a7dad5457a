"""Charts as plotly specs: plain data, no colour. The page colours a trace by `meta.slot`, for light and dark alike.

No text of a model ever enters a chart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ropewalk.monitors.report.catalogue import GROUPS, NOTES, REWARD, Entry, entry, ordered
from ropewalk.monitors.report.read import Run
from ropewalk.monitors.report.words import plot_text, show
from ropewalk.records.prompt import Json

Spec: TypeAlias = dict[str, Json]
DASHES = ("solid", "dash", "dot", "dashdot")
SLOTS = 8
"""Number of colours of the page; later curves repeat them with another dash."""
_FEW_POINTS = 40


@dataclass(frozen=True)
class Chart:
    """One figure of the page."""

    id: str
    title: str
    spec: Spec
    summary: str
    """What a reader who cannot see it is told."""
    unit: str = ""
    note: str = ""
    names: tuple[str, ...] = ()
    size: Literal["small", "normal", "half", "wide"] = "normal"


@dataclass(frozen=True)
class Section:
    """Charts under one heading."""

    title: str
    note: str
    charts: list[Chart] = field(default_factory=list)


@dataclass(frozen=True)
class Curve:
    """One line of a chart."""

    label: str
    slot: int
    x: Sequence[float]
    y: Sequence[float]
    dash: str = "solid"


def curves_of_run(run: Run) -> list[Section]:
    """Every metric of one run: families on shared axes, reward with its spread, the rest one chart each."""
    families: dict[str, list[Entry]] = {}
    names = set(run.names)
    for shown in ordered(names):
        if shown.name == "reward/std" and "reward/mean" in names:
            continue
        families.setdefault(shown.family or shown.name, []).append(shown)
    sections: dict[str, Section] = {}
    for members in families.values():
        first = members[0]
        curves = [Curve(shown.label, k, *run.curve(shown.name)) for k, shown in enumerate(members)]
        band = _band(run) if first.name == "reward/mean" else []
        section = sections.setdefault(first.group, Section(first.group, NOTES[first.group]))
        section.charts.append(_metric_chart(f"m-{first.name}", members, curves, band))
    pair = score_pair({run.name: run})
    if pair is not None and REWARD in sections:
        sections[REWARD].charts.insert(1, pair)
    return _in_order(sections)


def curves_of_runs(runs: Mapping[str, Run]) -> list[Section]:
    """Every metric of several runs, one chart per metric, one colour per run."""
    sections: dict[str, Section] = {}
    for shown in ordered({name for run in runs.values() for name in run.names}):
        curves = run_curves(runs, shown.name)
        section = sections.setdefault(shown.group, Section(shown.group, NOTES[shown.group]))
        titled = shown if not shown.family else _retitled(shown)
        section.charts.append(_metric_chart(f"m-{shown.name}", [titled], curves, [], legend=False))
    return _in_order(sections)


def run_curves(runs: Mapping[str, Run], name: str, dash: str = "solid", suffix: str = "") -> list[Curve]:
    """One curve of this metric per run that reports it."""
    return [
        Curve(label + suffix, slot, *points, dash=dash)
        for slot, (label, run) in enumerate(runs.items())
        if (points := run.curve(name))[0]
    ]


def score_pair(runs: Mapping[str, Run]) -> Chart | None:
    """Reward-model score and true score on the same axes: where they part, the judge is being exploited."""
    judge, truth = "score/reward_model/mean", "score/truth/mean"
    together = {label: run for label, run in runs.items() if judge in run.names and truth in run.names}
    slots = {label: slot for slot, label in enumerate(runs)}
    if not any(truth in run.names for run in runs.values()) or not together:
        return None
    single = len(runs) == 1
    curves = [
        *(Curve(_pair_label("true score", k, single), slots[k], *run.curve(truth)) for k, run in _having(runs, truth)),
        *(
            Curve(_pair_label("reward model", k, single), 1 if single else slots[k], *run.curve(judge), dash="dash")
            for k, run in _having(runs, judge)
        ),
    ]
    return Chart(
        id="score-pair",
        title="Reward model against truth",
        note="Solid: the true score. Dashed: what the reward model says of the same samples.",
        names=(truth, judge),
        spec=curve_spec(curves, legend=single),
        summary=summary_of(curves),
        size="normal" if single else "wide",
    )


def phase(runs: Mapping[str, Run], x_name: str, y_name: str, *, id: str, title: str, note: str) -> Chart | None:
    """One metric over another, a line per run in order of training; its end is marked."""
    data: list[Json] = []
    curves: list[Curve] = []
    for slot, (label, run) in enumerate(runs.items()):
        points = [(v[x_name], v[y_name]) for v in run.metrics if x_name in v and y_name in v]
        if len(points) < 2:
            continue
        x, y = _smoothed([p[0] for p in points]), _smoothed([p[1] for p in points])
        curves.append(Curve(label, slot, x, y))
        data.append(_line(curves[-1], smooth=False))
        end = _line(Curve(label, slot, x[-1:], y[-1:]), smooth=False)
        data.append({**end, "mode": "markers", "showlegend": False, "marker": {"size": 11}, "hoverinfo": "skip"})
    if not data:
        return None
    x_entry, y_entry = entry(x_name), entry(y_name)
    layout: Spec = {
        "xaxis": {"title": {"text": _axis(x_entry)}},
        "yaxis": {"title": {"text": _axis(y_entry)}},
        "hovermode": "closest",
        "showlegend": False,
    }
    ends = "; ".join(f"{c.label} ends at {show(c.x[-1])}, {show(c.y[-1])}" for c in curves)
    return Chart(
        id, title, {"data": data, "layout": layout}, f"{ends}.", note=note, names=(x_name, y_name), size="half"
    )


def curve_spec(curves: Sequence[Curve], *, unit: str = "", legend: bool = True) -> Spec:
    """Lines over iterations. Without a legend the page's own one tells the runs apart."""
    return {
        "data": [_line(curve, smooth=True) for curve in curves],
        "layout": {
            "xaxis": {"title": {"text": "iteration"}},
            "yaxis": _y_axis(curves, unit),
            "showlegend": legend and len(curves) > 1,
            "hovermode": "x unified" if len(curves) > 1 else "closest",
        },
    }


def summary_of(curves: Sequence[Curve]) -> str:
    """`name: from a at iteration i to b at iteration j`, for at most eight curves."""
    parts = [
        f"{c.label}: from {show(c.y[0])} at iteration {c.x[0]:g} to {show(c.y[-1])} at iteration {c.x[-1]:g}"
        for c in curves[:8]
        if c.x
    ]
    return "; ".join(parts) + "."


def _metric_chart(
    id: str, members: Sequence[Entry], curves: list[Curve], band: list[Json], *, legend: bool = True
) -> Chart:
    first = members[0]
    spec = curve_spec(curves, unit=first.unit, legend=legend)
    data = spec["data"]
    if isinstance(data, list):
        spec["data"] = band + data
    return Chart(
        id=id,
        title=first.title,
        spec=spec,
        summary=summary_of(curves),
        unit="" if first.unit == "share" else first.unit,
        note=first.note + (" The band is one standard deviation of the samples." if band else ""),
        names=tuple(shown.name for shown in members),
    )


def _line(curve: Curve, *, smooth: bool) -> Spec:
    again = curve.slot // SLOTS
    dash = curve.dash if again == 0 else DASHES[(DASHES.index(curve.dash) + again) % len(DASHES)]
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(curve.x) <= _FEW_POINTS // 4 else "lines",
        "name": plot_text(curve.label),
        "x": list(curve.x),
        "y": list(curve.y),
        "line": {"dash": dash, "width": 2},
        "meta": {"slot": curve.slot % SLOTS, "run": curve.slot, "smooth": smooth},
    }


def _band(run: Run) -> list[Json]:
    points = [
        (v["iteration"], v["reward/mean"], v["reward/std"])
        for v in run.metrics
        if "reward/mean" in v and "reward/std" in v
    ]
    if not points:
        return []
    x: list[Json] = [p[0] for p in points]
    edge: Spec = {"type": "scatter", "mode": "lines", "x": x, "line": {"width": 0}, "showlegend": False}
    hidden: Spec = {**edge, "hoverinfo": "skip"}
    return [
        {**hidden, "y": [mean - std for _, mean, std in points], "meta": {"slot": 0, "band": True}},
        {**hidden, "y": [mean + std for _, mean, std in points], "meta": {"slot": 0, "band": True}, "fill": "tonexty"},
    ]


def _y_axis(curves: Sequence[Curve], unit: str) -> Spec:
    """Percentages for a share (unless a value says that it is a count), a range for a constant."""
    values = [y for curve in curves for y in curve.y]
    if not values:
        return {}
    low, high = min(values), max(values)
    if unit != "share" or low < 0 or high > 1:
        # A constant has no range of its own, and plotly's default one would swallow a small learning rate.
        return {"range": [min(0.0, 1.3 * low), max(0.0, 1.3 * low)]} if low == high != 0 else {}
    return {"tickformat": ".0%" if high - low > 0.02 else ".1%", "rangemode": "tozero"}


def _smoothed(values: Sequence[float], window: int = 5) -> list[float]:
    """Mean over the neighbours, so that a path in the plane is readable."""
    half = window // 2
    return [
        sum(values[max(0, k - half) : k + half + 1]) / len(values[max(0, k - half) : k + half + 1])
        for k in range(len(values))
    ]


def _in_order(sections: Mapping[str, Section]) -> list[Section]:
    return [sections[group] for group in GROUPS if group in sections]


def _retitled(shown: Entry) -> Entry:
    return Entry(shown.name, shown.group, f"{shown.title}: {shown.label}", shown.unit, shown.note, "", shown.label)


def _axis(shown: Entry) -> str:
    return f"{shown.title} ({shown.unit})" if shown.unit and shown.unit != "share" else shown.title


def _having(runs: Mapping[str, Run], name: str) -> list[tuple[str, Run]]:
    return [(label, run) for label, run in runs.items() if name in run.names]


def _pair_label(what: str, run: str, single: bool) -> str:
    return what if single else f"{run}: {what}"
