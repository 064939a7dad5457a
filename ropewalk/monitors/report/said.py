"""What the policy said: kept samples as the page shows them, before/after pairs, distributions of their scores."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ropewalk.monitors.lines import Row
from ropewalk.monitors.report.charts import Chart, Spec
from ropewalk.monitors.report.read import Run
from ropewalk.monitors.report.words import cell, clean, number, plot_text, show
from ropewalk.records.prompt import Json

_BROWSER_ROWS = 300
_BINS = 24
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
    """The samples to leaf through, newest last: all of them, or the first and last of very many."""
    shown = [said(row) for row in run.samples]
    if len(shown) <= _BROWSER_ROWS:
        return shown
    return shown[: _BROWSER_ROWS // 3] + shown[-(_BROWSER_ROWS - _BROWSER_ROWS // 3) :]


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


def distributions(runs: Mapping[str, Run]) -> list[Chart]:
    """Histograms before and after: of the reward, and of every score, a chart per run and quantity."""
    names = sorted({n for run in runs.values() for row in run.samples for n in _scores(row)})
    single = len(runs) == 1
    charts = []
    for name in ["", *names]:
        for slot, (label, run) in enumerate(runs.items()):
            chart = _distribution(name, label, run, slot=0 if single else slot, single=single)
            if chart is not None:
                charts.append(chart)
    return charts


def _distribution(name: str, label: str, run: Run, *, slot: int, single: bool) -> Chart | None:
    take: Callable[[Row], float | None] = (
        (lambda row: number(_scores(row).get(name))) if name else (lambda row: number(row.get("reward")))
    )
    first, last = before_after(run)
    before = [value for row in first if (value := take(row)) is not None]
    after = [value for row in last if (value := take(row)) is not None]
    if not before or not after:
        return None
    what = name.replace("_", " ") if name else "reward"
    when = _iteration(first[0]), _iteration(last[0])
    return Chart(
        id=f"d-{slot}-{name or 'reward'}",
        title=what.capitalize() if single else f"{label}: {what}",
        spec=_histogram(before, after, what, slot, when),
        summary=f"mean {show(_mean(before))} over {len(before)} samples of iteration {when[0]}, "
        f"{show(_mean(after))} over {len(after)} of iteration {when[1]}.",
        note=f"Mean {show(_mean(before))} → {show(_mean(after))}.",
        size="small",
    )


def _histogram(before: list[float], after: list[float], what: str, slot: int, when: tuple[int, int]) -> Spec:
    low, width, bins = _grid(before + after)
    centres: list[Json] = [low + (k + 0.5) * width for k in range(bins)]
    data: list[Json] = []
    for values, label, meta in (
        (before, f"iteration {when[0]}", {"slot": slot, "before": True}),
        (after, f"iteration {when[1]}", {"slot": slot}),
    ):
        counts = [0] * bins
        for value in values:
            counts[min(int((value - low) / width), bins - 1)] += 1
        shares: list[Json] = [count / len(values) for count in counts]
        data.append(
            {"type": "bar", "name": label, "x": centres, "y": shares, "width": width * 0.92, "meta": dict(meta)}
        )
    layout: Spec = {
        "barmode": "overlay",
        "xaxis": {"title": {"text": plot_text(what)}},
        "yaxis": {"title": {"text": ""}, "tickformat": ".0%", "rangemode": "tozero"},
        "hovermode": "x unified",
        "showlegend": True,
    }
    return {"data": data, "layout": layout}


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
