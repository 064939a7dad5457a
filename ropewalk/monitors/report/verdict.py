"""What became of a run, in words.

A change counts as measured if it is larger than twice its standard error, which is taken from the differences of
neighbouring iterations (so a steady trend does not pass for noise).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from ropewalk.monitors.report.catalogue import Entry, entry
from ropewalk.monitors.report.read import Run
from ropewalk.monitors.report.words import clean, duration, show

Tone: TypeAlias = Literal["good", "warn", "bad", "plain"]
_FIRST, _LAST = 3, 10
_TORN_KL = 1.0


@dataclass(frozen=True, slots=True)
class Change:
    """A metric at both ends of a run: mean of the first 3 and of the last 10 iterations (fewer in a short run)."""

    entry: Entry
    first: float
    last: float
    low: float
    high: float
    measured: bool
    """Larger than chance."""

    @property
    def direction(self) -> Literal["rose", "fell", "did not change measurably"]:
        if not self.measured:
            return "did not change measurably"
        return "rose" if self.last > self.first else "fell"

    @property
    def texts(self) -> tuple[str, str, str, str]:
        """First, last, lowest and highest, as they are shown."""
        unit = self.entry.unit if self.low >= 0 and self.high <= 1 else ""
        return show(self.first, unit), show(self.last, unit), show(self.low, unit), show(self.high, unit)


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence of the verdict."""

    tone: Tone
    text: str


def change(run: Run, name: str) -> Change | None:
    """Both ends of a metric; None if it has no value."""
    values = run.curve(name)[1]
    if not values:
        return None
    part = max(1, len(values) // 3)
    first, last = values[: min(_FIRST, part)], values[-min(_LAST, part) :]
    before, after = sum(first) / len(first), sum(last) / len(last)
    error = _noise(values) * math.sqrt(1 / len(first) + 1 / len(last))
    return Change(
        entry(name), before, after, min(values), max(values), len(values) > 1 and abs(after - before) > 2 * error
    )


def state(run: Run) -> Finding:
    """How the run ended."""
    word, reason = run.status.get("state"), clean(run.status.get("reason") or "", 500)
    length = f"{run.iterations} iteration{'' if run.iterations == 1 else 's'}"
    if run.seconds is not None:
        length += f" in {duration(run.seconds)}"
    if word == "finished":
        return Finding("good", f"Finished: {length}" + (f" ({reason})." if reason else "."))
    if word == "stopped":
        return Finding("warn", f"Stopped after {length}" + (f": {reason}" if reason else "."))
    if word == "running":
        return Finding("plain", f"Running, or ended without a word: {length} so far.")
    return Finding("warn", f"No word on how it ended, as after a crash: {length} were finished.")


def verdict(run: Run) -> list[Finding]:
    """How it ended, what rose and fell, and what looks wrong."""
    if not run.metrics:
        return [state(run)]
    trust = _exploited(run)
    deceived = any(finding.tone == "bad" for finding in trust)
    return [state(run), *_reward(run, deceived), *trust, *_form(run), *_rope(run), *_losses(run), *_ills(run)]


def key_changes(run: Run) -> list[Change]:
    """The handful of numbers to read first."""
    changes = [found for name in KEY_METRICS if (found := change(run, name)) is not None]
    if len(changes) < 4:
        more = [n for n in run.names if n.startswith(("loss/", "eval/", "score/", "solved/")) and n not in KEY_METRICS]
        changes += [found for name in more if (found := change(run, name)) is not None]
    return changes[:8]


KEY_METRICS = (
    "reward/mean",
    "score/truth/mean",
    "score/reward_model/mean",
    "score/grammatical/mean",
    "grammatical",
    "kl/sequence",
    "kl/token",
    "entropy",
    "length/mean",
    "distinct",
    "truncated",
)


def _reward(run: Run, deceived: bool) -> list[Finding]:
    """What was trained on; its rise is no merit if the judge behind it is exploited."""
    found = []
    for name in ("reward/mean", *(n for n in run.names if n.startswith("solved/"))):
        moved = change(run, name)
        if moved is not None and len(run.metrics) > 1:
            first, last, _, _ = moved.texts
            tone: Tone = "bad" if moved.direction == "fell" else "good" if moved.measured and not deceived else "plain"
            found.append(Finding(tone, f"{moved.entry.title} {moved.direction}: {first} → {last}."))
    return found


def _exploited(run: Run) -> list[Finding]:
    judge, truth = change(run, "score/reward_model/mean"), change(run, "score/truth/mean")
    if judge is None or truth is None or len(run.metrics) < 2:
        return []
    says = f"reward model {judge.texts[0]} → {judge.texts[1]}, truth {truth.texts[0]} → {truth.texts[1]}"
    if judge.direction == "rose" and truth.direction == "fell":
        return [Finding("bad", f"The reward model is exploited: its score rose while the true score fell ({says}).")]
    if judge.direction == "rose" and truth.direction == "rose":
        return [Finding("good", f"The reward model and the truth rose together ({says}).")]
    return [Finding("plain", f"Reward model and truth: {says}.")]


def _form(run: Run) -> list[Finding]:
    found = []
    for name in ("score/grammatical/mean", "grammatical"):
        form = change(run, name)
        if form is not None:
            tone: Tone = "good" if form.last >= 0.9 else "bad" if form.last <= 0.75 else "warn"
            found.append(
                Finding(tone, f"{form.texts[1]} of the last completions are grammatical ({form.texts[0]} at first).")
            )
    return found


def _rope(run: Run) -> list[Finding]:
    sequence, token = change(run, "kl/sequence"), change(run, "kl/token")
    parts = [f"{show(sequence.last)} nats per completion"] if sequence else []
    parts += [f"{show(token.last)} per token"] if token else []
    if not parts:
        return []
    torn = token is not None and token.last > _TORN_KL
    return [Finding("warn" if torn else "plain", f"The policy ended {', '.join(parts)} from its reference (KL).")]


def _losses(run: Run) -> list[Finding]:
    if "reward/mean" in run.names:
        return []
    moved = [
        c for n in run.names if n.startswith("loss/") and (c := change(run, n)) is not None and len(run.metrics) > 1
    ]
    return [Finding("plain", f"{c.entry.title} {c.direction}: {c.texts[0]} → {c.texts[1]}.") for c in moved]


def _ills(run: Run) -> list[Finding]:
    found = []
    cut = change(run, "truncated")
    if cut is not None and cut.last > 0.5:
        found.append(
            Finding("warn", f"{cut.texts[1]} of the last samples were cut off: raise sampling.max_new_tokens.")
        )
    for name in run.names:
        broken = change(run, name) if name.startswith("score/") and name.endswith("/failed") else None
        if broken is not None and broken.last > 0.05:
            scorer = clean(name.removeprefix("score/").removesuffix("/failed"), 60)
            found.append(Finding("warn", f"Scorer {scorer} failed on {broken.texts[1]} of the last samples."))
    return found


def _noise(values: Sequence[float]) -> float:
    """Standard deviation of one iteration's value, from differences of neighbours."""
    if len(values) < 3:
        return 0.0
    steps = [b - a for a, b in pairwise(values)]
    return math.sqrt(sum(step * step for step in steps) / len(steps) / 2)
