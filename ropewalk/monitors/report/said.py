"""What the policy said: kept samples as the page shows them, before/after pairs, distributions of their scores."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ropewalk.monitors.lines import Row
from ropewalk.monitors.report.charts import SLOTS, Chart, Section, Spec
from ropewalk.monitors.report.read import Run
from ropewalk.monitors.report.words import cell, clean, number, show
from ropewalk.records.prompt import Json

_FIRST, _MIDDLE, _LAST = 100, 150, 150
"""Samples to leaf through, from the three parts of a long file."""
_BINS = 24
_FIRST_SCORES = {"truth": 0, "reward_model": 1}
_WHOLE_NUMBERS = 40
"""Up to this range, whole numbers get a bar each."""


@dataclass(frozen=True, slots=True)
class Said:
    """One sample, ready to be shown; all text still unescaped."""

    iteration: int
    kept: str
    prompt: str
    completion: str
    reward: float | None
    reward_text: str
    scores: tuple[tuple[str, str], ...]
    facts: str
    """KL, finish and length, in words."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A sample from the first kept iteration beside one from the last."""

    before: Said
    after: Said
    same_prompt: bool


def browser(run: Run) -> list[Said]:
    """The samples to leaf through, newest last: all of them, or of very many both ends and an even choice between."""
    rows = list(run.samples)
    if len(rows) > _FIRST + _MIDDLE + _LAST:
        between = rows[_FIRST:-_LAST]
        rows = rows[:_FIRST] + [between[k * len(between) // _MIDDLE] for k in range(_MIDDLE)] + rows[-_LAST:]
    return [said(row) for row in rows]


def said(row: Row) -> Said:
    """A line of `samples.jsonl`, whatever is missing from it."""
    reward, kl, tokens = number(row.get("reward")), number(row.get("kl")), number(row.get("tokens"))
    scores = row.get("scores")
    facts = [
        f"KL {show(kl)} nats" if kl is not None else "",
        f"{tokens:.0f} tokens" if tokens is not None else "",
        _FINISH.get(str(row.get("finish")), clean(row.get("finish") or "", 40)),
    ]
    return Said(
        iteration=_iteration(row),
        kept=clean(row.get("kept") or "", 20),
        prompt=clean(row.get("prompt") or ""),
        completion=clean(row.get("completion") or ""),
        reward=reward,
        reward_text=show(reward),
        scores=tuple((clean(n, 60), cell(v)) for n, v in scores.items()) if isinstance(scores, dict) else (),
        facts=" · ".join(fact for fact in facts if fact),
    )


def pairs(run: Run, limit: int) -> list[Pair]:
    """Samples of the same prompts from the first and the last iteration kept whole; different prompts first.

    If the two iterations share no prompt, they are paired as they come and say so.
    """
    first, last = before_after(run)
    by_prompt: dict[str, list[Row]] = {}
    for row in last:
        by_prompt.setdefault(_key(row), []).append(row)
    matched: list[tuple[int, Row, Row]] = []
    used: dict[str, int] = {}
    for row in first:
        key = _key(row)
        turn = used.get(key, 0)
        if turn < len(by_prompt.get(key, [])):
            matched.append((turn, row, by_prompt[key][turn]))
            used[key] = turn + 1
    matched.sort(key=lambda match: match[0])
    if matched:
        return [Pair(said(before), said(after), True) for _, before, after in matched[:limit]]
    return [Pair(said(a), said(b), False) for a, b in zip(first[:limit], last[:limit], strict=False)]


def before_after(run: Run) -> tuple[list[Row], list[Row]]:
    """The samples of the first and of the last iteration that was kept whole; nothing if there is only one."""
    whole = [row for row in run.samples if row.get("kept") == "spread"]
    iterations = sorted({_iteration(row) for row in whole})
    if len(iterations) < 2:
        return [], []
    return (
        [row for row in whole if _iteration(row) == iterations[0]],
        [row for row in whole if _iteration(row) == iterations[-1]],
    )


def distributions(runs: Mapping[str, Run]) -> list[Section]:
    """Histograms before and after: a section per quantity (the reward, then every score), a chart per run.

    All charts of a section have the same bins and axes.
    """
    names = {name for run in runs.values() for row in run.samples for name in _scores(row)}
    ordered = sorted(names, key=lambda name: (_FIRST_SCORES.get(name, len(_FIRST_SCORES)), name))
    sections = [_distribution(name, runs) for name in ["", *ordered]]
    return [section for section in sections if section.charts]


def _distribution(name: str, runs: Mapping[str, Run]) -> Section:
    what = name.replace("_", " ") if name else "reward"
    ends = {label: _ends(run, name) for label, run in runs.items()}
    everything = [value for found in ends.values() if found is not None for value in found.before + found.after]
    section = Section(what.capitalize(), "")
    for slot, (label, found) in enumerate(ends.items()):
        if found is not None:
            slot = slot if len(runs) > 1 else 0
            title = clean(label) if len(runs) > 1 else section.title
            section.charts.append(_histogram(f"d-{slot}-{name or 'reward'}", title, found, slot, _grid(everything)))
    return section


@dataclass(frozen=True, slots=True)
class _Ends:
    """Values of one quantity in the first and in the last iteration that was kept whole."""

    before: list[float]
    after: list[float]
    iterations: tuple[int, int]


def _ends(run: Run, name: str) -> _Ends | None:
    def values(rows: Sequence[Row]) -> list[float]:
        found = [number(_scores(row).get(name) if name else row.get("reward")) for row in rows]
        return [value for value in found if value is not None]

    first, last = before_after(run)
    before, after = values(first), values(last)
    return _Ends(before, after, (_iteration(first[0]), _iteration(last[0]))) if before and after else None


def _histogram(id: str, title: str, ends: _Ends, slot: int, grid: tuple[float, float, int]) -> Chart:
    low, width, bins = grid
    centres: list[Json] = [low + (k + 0.5) * width for k in range(bins)]
    data: list[Json] = []
    for values, iteration, before in ((ends.before, ends.iterations[0], True), (ends.after, ends.iterations[1], False)):
        counts = [0] * bins
        for value in values:
            counts[min(int((value - low) / width), bins - 1)] += 1
        shares: list[Json] = [count / len(values) for count in counts]
        meta: Spec = {"slot": slot % SLOTS, "before": before}
        trace: Spec = {"type": "bar", "name": f"iteration {iteration}", "x": centres, "y": shares, "meta": meta}
        data.append({**trace, "width": width * 0.92})
    layout: Spec = {
        "barmode": "overlay",
        "xaxis": {"range": [low, low + bins * width]},
        "yaxis": {"tickformat": ".0%", "rangemode": "tozero"},
        "hovermode": "x unified",
        "showlegend": True,
    }
    first, last = show(_mean(ends.before)), show(_mean(ends.after))
    return Chart(
        id=id,
        title=title,
        spec={"data": data, "layout": layout},
        summary=f"mean {first} over {len(ends.before)} samples of iteration {ends.iterations[0]}, "
        f"{last} over {len(ends.after)} of iteration {ends.iterations[1]}.",
        note=f"Mean {first} → {last}.",
        size="small",
    )


def _grid(values: Sequence[float]) -> tuple[float, float, int]:
    """Lowest edge, width and number of bins: a bin per whole number where all are whole and near, else even ones."""
    low, high = min(values), max(values)
    if high - low <= _WHOLE_NUMBERS and all(value == round(value) for value in values):
        return low - 0.5, 1.0, round(high - low) + 1
    width = (high - low) / _BINS
    if width <= 0 or not math.isfinite(width):
        return low - 0.5, 1.0, 1
    return low, width, _BINS


_FINISH = {"stop": "finished", "length": "cut off", "aborted": "aborted", "failed": "failed"}


def _iteration(row: Row) -> int:
    when = number(row.get("iteration"))
    return int(when) if when is not None else 0


def _key(row: Row) -> str:
    """What makes two prompts the same: their text, since ids may count over iterations."""
    return str(row.get("prompt") or row.get("prompt_id") or "")


def _scores(row: Row) -> Mapping[str, Json]:
    scores = row.get("scores")
    return scores if isinstance(scores, dict) else {}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
