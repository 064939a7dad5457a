"""From a file of scored samples to the pass rate of each prompt, with its interval.

A sample passes if its score reaches the threshold. What could not be judged (failed, abstained) is neither passed nor
not passed: it is counted apart and left out of the rate.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ropewalk.data.intervals import Estimate, bootstrap_mean, wilson
from ropewalk.records.errors import InputError
from ropewalk.records.files import dumps, write_atomic
from ropewalk.records.prompt import Json


@dataclass(frozen=True, slots=True)
class PassRate:
    """What a policy's samples of one prompt came to."""

    prompt_id: str
    prompt: str
    """As the sample file shows it."""
    passed: int
    judged: int
    """Samples with a score."""
    unjudged: int = 0
    """Samples that failed to be judged, or of which the scorer has no opinion."""
    truncated: int = 0
    """Samples that reached the longest length, judged or not."""
    tokens: int = 0
    """Sampled tokens of all."""

    def __post_init__(self) -> None:
        if not 0 <= self.passed <= self.judged or min(self.unjudged, self.truncated, self.tokens) < 0:
            raise InputError(f"prompt {self.prompt_id} cannot have {self.passed} passes of {self.judged} samples")

    @property
    def samples(self) -> int:
        return self.judged + self.unjudged

    @property
    def rate(self) -> Estimate | None:
        """Share that passed with Wilson's 95 % interval; None where nothing could be judged."""
        return wilson(self.passed, self.judged) if self.judged else None


def rates_of(rows: Iterable[Any], *, where: str = "samples") -> list[PassRate]:
    """The pass rate of every prompt, in the order they come, by the first score of each row: 1 passes.

    Rows are as `runtime.jobs.sample` writes them. Raises InputError naming the one that is none.
    """
    found: dict[str, list[PassRate]] = {}
    seen: set[tuple[str, str, int]] = set()
    for number, row in enumerate(rows, 1):
        place = f"{where} row {number}"
        one = _one(row, place)
        key = (one.prompt_id, str(row.get("group_id")), row["index"])
        if key in seen:
            raise InputError(f"{place} repeats sample {one.prompt_id}/{row['index']}: each counts once")
        seen.add(key)
        found.setdefault(one.prompt_id, []).append(one)
    return [_sum(parts) for parts in found.values()]


def _one(row: Any, place: str) -> PassRate:
    """A sample as the pass rate of one."""
    scores = row.get("scores") if isinstance(row, Mapping) else None
    if (
        not isinstance(scores, Mapping)
        or not isinstance(row.get("prompt_id"), str)
        or type(row.get("index")) is not int
    ):
        raise InputError(f"{place} is not a scored sample: it needs prompt_id, index and scores")
    value = next(iter(scores.values()), None)
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    tokens = row.get("tokens")
    return PassRate(
        prompt_id=row["prompt_id"],
        prompt=str(row.get("prompt", "")),
        passed=int(number is not None and number >= 1),
        judged=int(number is not None),
        unjudged=int(number is None),
        truncated=int(row.get("finish") == "length"),
        tokens=tokens if isinstance(tokens, int) else 0,
    )


def _sum(parts: Sequence[PassRate]) -> PassRate:
    """Samples of one prompt put together."""
    return PassRate(
        prompt_id=parts[0].prompt_id,
        prompt=parts[0].prompt,
        passed=sum(part.passed for part in parts),
        judged=sum(part.judged for part in parts),
        unjudged=sum(part.unjudged for part in parts),
        truncated=sum(part.truncated for part in parts),
        tokens=sum(part.tokens for part in parts),
    )


def mean_rate(rates: Sequence[PassRate]) -> Estimate:
    """Mean pass rate over the prompts that were judged; prompts, not samples, are what varies."""
    return bootstrap_mean([rate.passed / rate.judged for rate in _judged(rates)])


def _judged(rates: Sequence[PassRate]) -> list[PassRate]:
    return [rate for rate in rates if rate.judged]


def write_rates(path: str | Path, rows: Iterable[tuple[PassRate, Mapping[str, Json]]]) -> None:
    """One JSON line a prompt: its counts, its rate with the interval, and what else is known of it."""
    lines = []
    for one, more in rows:
        rate = one.rate
        counts = {name: getattr(one, name) for name in ("prompt_id", "prompt", "passed", "judged")}
        counts |= {"unjudged": one.unjudged, "truncated": one.truncated, "tokens": one.tokens}
        shown = (
            {"rate": rate.value, "low": rate.low, "high": rate.high} if rate else dict.fromkeys(("rate", "low", "high"))
        )
        lines.append(dumps({**counts, **shown, **more}))
    write_atomic(path, "".join(line + "\n" for line in lines))
