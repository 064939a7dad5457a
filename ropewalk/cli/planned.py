"""The words of a plan: its calls, its timeline and memory, why it is this one, and what would change it."""

from collections.abc import Iterable, Mapping, Sequence

from ropewalk.cli.columns import facts, folded, grid
from ropewalk.plan.cluster import Cluster
from ropewalk.planner.case.describe import Case
from ropewalk.planner.estimate.work import Strategy
from ropewalk.planner.placed import Judged, Placement
from ropewalk.planner.planning import Compared
from ropewalk.planner.show.chart import gantt, memory_lines
from ropewalk.planner.show.explain import Second, certificate, robustness, why
from ropewalk.planner.show.gather import Gathered
from ropewalk.planner.show.judgement import Checked
from ropewalk.planner.show.memory import Device, Item, Need, call_items, devices, ranks_text
from ropewalk.planner.show.mend import Mend
from ropewalk.planner.show.sensitivity import ITERATIONS, Cost, WhatIf
from ropewalk.planner.written import workload_text

MOST_MENDS = 8


def plan_lines(found: Gathered) -> list[str]:
    """Everything a terminal shows of a plan."""
    planned, judged, case = found.planned, found.planned.judged, found.planned.case
    blocks = [
        _head(found),
        call_rows(judged, case.cluster),
        _moves(judged),
        ["one iteration of the steady state", *_indented(gantt(judged, case.cluster))],
        ["memory of each GPU", *_indented(memory_lines(devices(judged)))],
        ["why this plan", *_sentences(_why(found))],
        ["second-best choice of each call", *_indented(second_rows(found.second, case.cluster))],
        ["against plans made otherwise", *_indented(baseline_rows(planned.compared))] if planned.compared else [],
        ["what if (estimated; the same plan, and a new one)", *_indented(what_if_rows(found))] if found.what_if else [],
        ["time spent", *_indented(time_rows(found))],
    ]
    return [line for i, block in enumerate(b for b in blocks if b) for line in ([""] if i else []) + block]


def call_rows(judged: Judged, cluster: Cluster) -> list[str]:
    """The table of calls."""
    rows = [("call", "where", "dp·tp·pp", "micro-batches", "offload", "seconds", "of period", "source")]
    for name, placed in judged.calls.items():
        s, seconds = placed.placement.strategy, placed.estimate.seconds
        unit = "" if placed.work.kind != "generate" else " wave" if s.micro_batches == 1 else " waves"
        late = " (late)" if name in judged.late else ""
        rows.append(
            (
                name + late,
                where(placed.placement, cluster),
                cut(s),
                f"{s.micro_batches}{unit}",
                "yes" if s.offload else "",
                f"{seconds:.3g}",
                f"{seconds / judged.period_seconds:.0%}",
                placed.estimate.source,
            )
        )
    return grid(rows)


def where(spot: Placement, cluster: Cluster) -> str:
    """Nodes and ranks of a mesh."""
    low, high = cluster.node_of(spot.first_rank), cluster.node_of(spot.first_rank + spot.gpus - 1)
    nodes = f"node {low}" if low == high else f"nodes {low}-{high}"
    return f"{nodes}, {ranks_text(spot.first_rank, spot.gpus)}"


def cut(strategy: Strategy) -> str:
    """dp·tp·pp and what else is not usual."""
    more = [f"ep {strategy.ep}"] if strategy.ep > 1 else []
    more += ["ZeRO-3"] if strategy.shard == "full" else []
    return ", ".join([f"{strategy.dp}·{strategy.tp}·{strategy.pp}", *more])


def second_rows(found: Iterable[Second], cluster: Cluster) -> list[str]:
    """What it costs to run a call in another way."""
    rows = [("call", "instead of", "the next best", "iterations")]
    for second in found:
        chosen = f"{second.chosen.gpus} GPUs, {cut(second.chosen.strategy)}"
        if second.other is None or second.ratio is None:
            rows.append((second.call, chosen, "nothing else fits", ""))
            continue
        other = f"{cut(second.other.strategy)} on {where(second.other, cluster)}"
        rows.append((second.call, chosen, other, longer(second.ratio)))
    return grid(rows)


def longer(ratio: float) -> str:
    """How much longer, in words."""
    if abs(ratio - 1.0) < 5e-5:
        return "as long"
    return f"{ratio - 1.0:.2%} longer" if ratio > 1.0 else f"{1.0 - ratio:.2%} shorter, found by looking longer"


def baseline_rows(found: Iterable[Compared]) -> list[str]:
    """Baselines under the same estimates."""
    rows = [("plan", "iteration", "ratio", "what it is")]
    for one in found:
        seconds = "does not fit" if one.period_seconds is None else f"{one.period_seconds:.4g} s"
        rows.append((one.name, seconds, "" if one.ratio is None else f"{one.ratio:.3f} x", one.about))
    return grid(rows)


def what_if_rows(found: Gathered) -> list[str]:
    """Time and cost under each change."""
    gpus = found.planned.case.cluster.gpus
    rows = [("change", "GPUs", "same plan", "new plan", "GPU-hours", "dollars")]
    rows.append(("as it is", str(gpus), period(found.cost), period(found.cost), *price(found.cost)))
    rows += [_what_if(change) for change in found.what_if]
    return [*grid(rows), f"GPU-hours and dollars are of {ITERATIONS:,} iterations with the new plan"]


def _what_if(change: WhatIf) -> tuple[str, str, str, str, str, str]:
    return (change.words, str(change.gpus), period(change.same), period(change.new), *price(change.new))


def period(cost: Cost | None) -> str:
    """Seconds of an iteration."""
    return "does not fit" if cost is None else f"{cost.period_seconds:.4g} s"


def price(cost: Cost | None) -> tuple[str, str]:
    """GPU-hours, and dollars with how they are known."""
    if cost is None:
        return "", ""
    dollars = "no price known" if cost.dollars is None else f"${cost.dollars:,.0f} ({cost.dollars_how})"
    return f"{cost.gpu_hours:,.1f}", dollars


def time_rows(found: Gathered) -> list[str]:
    """Where planning took its time."""
    planned = found.planned
    about = {
        "compile": "inner loops, compiled or loaded",
        "build": f"{sum(planned.candidates.values())} candidates, {planned.orders} orders of dispatch",
        "search": f"{planned.proposals:,} proposals",
        "proof": f"{planned.nodes:,} nodes",
    }
    return grid([(what, f"{seconds:.2f} s", about.get(what, "")) for what, seconds in found.seconds.items()])


def bill_lines(judged: Judged, notes: Sequence[str]) -> list[str]:
    """The itemised memory bill, by device and by call."""
    found = devices(judged)
    lines = ["memory of each GPU", *_indented(memory_lines(found))]
    for device in found:
        lines += ["", *_device(device)]
    lines += ["", "by call, on each of its GPUs"]
    rows = [
        (item.call, item.role, item.what, gigabytes(item.bytes), "always" if item.always else "while it runs")
        for placed in judged.calls.values()
        for item in call_items(placed)
    ]
    return [*lines, *_indented(grid(rows)), *([""] if notes else []), *facts(("assumed", note) for note in notes)]


def _device(device: Device) -> list[str]:
    verdict = "fits" if device.fits else f"lacks {gigabytes(device.need_bytes - device.usable_bytes)}"
    head = f"{device.ranks}: {gigabytes(device.need_bytes)} of {gigabytes(device.usable_bytes)} usable: {verdict}"
    return [head, *_indented(grid([_item(item) for item in device.items if item.bytes]))]


def _item(item: Item) -> tuple[str, str, str]:
    return gigabytes(item.bytes), f"{item.role} {item.what}", "always" if item.always else f"during {item.call}"


def needs_lines(case: Case, why_not: str, needs: Sequence[Need], mends: Sequence[Mend]) -> list[str]:
    """Where nothing fits: what each call needs alone, and what was tried."""
    rows = [("call", "least on a GPU", "of usable", "", "cut", "mostly")]
    for need in needs:
        most = sorted(need.items, key=lambda item: -item.bytes)[:2]
        parts = ", ".join(f"{item.what} {item.bytes / 1e9:.3g}" for item in most)
        verdict = "fits alone" if need.fits else "does not fit"
        rows.append(
            (need.call, gigabytes(need.bytes), gigabytes(need.usable_bytes), verdict, cut(need.strategy), parts)
        )
    return [
        *folded(f"{case.name}: {why_not}"),
        "",
        "each call alone, at the least over every way to run it",
        *_indented(grid(rows)),
        "",
        "what would make a plan fit (each tried alone)",
        *_indented(mend_rows(mends)),
    ]


def mend_rows(mends: Sequence[Mend]) -> list[str]:
    """What was tried, those that help first."""
    if not mends:
        return ["nothing was left to try"]
    rows = []
    for mend in mends[:MOST_MENDS]:
        lacking = f"still lacks {gigabytes(mend.over_bytes)}" if mend.over_bytes else "still does not fit"
        rows.append((mend.what, lacking if mend.period_seconds is None else f"fits: {mend.period_seconds:.4g} s"))
    return grid(rows)


def checked_lines(name: str, found: Checked, case: Case, notes: Sequence[str]) -> list[str]:
    """A given plan: whether it fits, its period, and how far it is above the bound."""
    judged = found.judged
    verdict = f"{name}: an iteration takes {judged.period_seconds:.4g} s (estimated)"
    if found.bound_seconds is not None and found.gap is not None and found.best_seconds is not None:
        verdict += f", {found.gap:.2%} above the bound of {found.bound_seconds:.4g} s; "
        verdict += f"the best plan found takes {found.best_seconds:.4g} s"
    if found.gap is not None and found.gap < 0:
        verdict += ": this plan lies outside the space that was searched"
    lines = [*folded(verdict), "fits in memory" if judged.fits else "does not fit in memory"]
    lines += [*facts(("note", note) for note in notes), ""]
    lines += [*call_rows(judged, case.cluster), ""]
    lines += ["one iteration of the steady state", *_indented(gantt(judged, case.cluster)), ""]
    lines += ["memory of each GPU", *_indented(memory_lines(devices(judged)))]
    if not judged.fits:
        lines += ["", "what would make it fit (each tried alone)", *_indented(mend_rows(found.mends))]
    return [*lines, "", "what binds it", *_sentences(why(judged, case.cluster.gpus))]


def compared_lines(
    judged: Mapping[str, Judged], modes: Mapping[str, str], case: Case, notes: Sequence[str]
) -> list[str]:
    """Plans side by side: periods, calls, memory."""
    fastest = min(found.period_seconds for found in judged.values())
    rows = [("", *judged)]
    rows.append(("iteration", *(f"{found.period_seconds:.4g} s" for found in judged.values())))
    rows.append(("to the fastest", *(f"{found.period_seconds / fastest:.3f} x" for found in judged.values())))
    rows.append(("mode", *(modes[name] for name in judged)))
    rows.append(("memory", *("fits" if found.fits else "does not fit" for found in judged.values())))
    rows.append(("fullest GPU", *(gigabytes(max(need for _, _, need, _ in f.cell_bytes)) for f in judged.values())))
    rows += [(call.name, *(_one(found, call.name) for found in judged.values())) for call in case.graph.calls]
    return [*grid(rows), *([""] if notes else []), *facts(("note", note) for note in notes)]


def _one(judged: Judged, name: str) -> str:
    placed = judged.calls[name]
    spot, late = placed.placement, ", late" if name in judged.late else ""
    return f"{ranks_text(spot.first_rank, spot.gpus)}, {cut(spot.strategy)}, {placed.estimate.seconds:.3g} s{late}"


def gigabytes(size: float) -> str:
    return f"{size / 1e9:.3g} GB"


def _head(found: Gathered) -> list[str]:
    planned, case = found.planned, found.planned.case
    gap = f"{planned.gap:.2%} above the certified bound of {planned.bound_seconds:.4g} s"
    hours, dollars = price(found.cost)
    rows = [
        ("iteration", f"{planned.judged.period_seconds:.4g} s (estimated), {gap}"),
        ("cost", f"{hours} GPU-hours, {dollars} for {ITERATIONS:,} iterations"),
        ("workload", workload_text(case.workload)),
        ("mode", f"{planned.asked.mode}, calibration {case.calibration}"),
    ]
    if planned.robust is not None:
        rows.append(("robust", robustness(planned.robust)))
    rows += [("assumed", note) for note in found.notes]
    return [case.name, *facts(rows)]


def _moves(judged: Judged) -> list[str]:
    rows = [
        (f"move to {move.target}", f"{move.role} from {move.source}", f"{move.seconds:.3g} s")
        for move in judged.moves
        if move.seconds > 0
    ]
    return grid(rows) if rows else []


def _why(found: Gathered) -> list[str]:
    planned = found.planned
    sentences = why(planned.judged, planned.case.cluster.gpus)
    return [*sentences, certificate(planned.gap, planned.bound_seconds, optimal=planned.optimal)]


def _sentences(sentences: Iterable[str]) -> list[str]:
    return [line for sentence in sentences for line in folded(sentence, indent=2)]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}".rstrip() for line in lines]
