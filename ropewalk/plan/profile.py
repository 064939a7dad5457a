"""Measured times of calls, and what they say about the sizes in between.

A measurement is of one whole model on one tensor-parallel group, without pipeline and optimizer:

    generate   seconds of one decoding step   tokens = sequences that decode   context = tokens that each attends to
    forward    seconds of one micro-batch     tokens of the micro-batch        context = tokens of each sequence
    train      the same, forward and backward pass with recomputation, all parameters trained

It counts only for the very model, device and dtype it was taken on, which a fingerprint says.
"""

import hashlib
import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeAlias, cast, get_args

from ropewalk.plan.shape import ModelShape
from ropewalk.records.errors import InputError

FORMAT = 1
REACH = 4.0
"""So many times beyond the ends of what was measured a reading still counts as interpolated."""

Measured: TypeAlias = Literal["generate", "forward", "train"]
Basis: TypeAlias = Literal["measured", "interpolated", "extrapolated"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a profile says about one size."""

    seconds: float
    basis: Basis


@dataclass(frozen=True, slots=True)
class Grid:
    """Seconds at every pair of a number of tokens and a context."""

    tokens: tuple[int, ...]
    context: tuple[int, ...]
    seconds: tuple[tuple[float, ...], ...]
    """By tokens, then by context."""

    def at(self, tokens: float, context: float) -> Reading:
        """Linear in the context, then in the tokens; exact at what was measured.

        Below the smallest size its own time is taken. Above the largest, the last slope goes on; of a single number of
        tokens time is taken in proportion, of a single context as it is.
        """
        low, high, part = _bracket(self.tokens, tokens)
        left, right, share = _bracket(self.context, context)
        first, last = self.seconds[low], self.seconds[high]
        start = _along(first[left], first[right], share)
        stop = _along(last[left], last[right], share)
        seconds = _along(start, stop, part)
        if len(self.tokens) == 1 and tokens > self.tokens[0]:
            seconds *= tokens / self.tokens[0]
        return Reading(seconds, self._basis(tokens, context))

    def _basis(self, tokens: float, context: float) -> Basis:
        for size, sizes in ((tokens, self.tokens), (context, self.context)):
            if size > REACH * sizes[-1] or size * REACH < sizes[0]:
                return "extrapolated"
        return "measured" if tokens in self.tokens and context in self.context else "interpolated"


@dataclass(frozen=True, slots=True)
class Entry:
    """One kind of call of one model on one number of tensor-parallel ranks."""

    fingerprint: str
    kind: Measured
    tp: int
    rows: tuple[tuple[int, int, float], ...]
    """(tokens, context, seconds): every number of tokens at every context."""
    model: str = ""
    """For the reader."""

    def __post_init__(self) -> None:
        where = f"the profile of {self.kind!r} of {self.model or self.fingerprint} at tp {self.tp}"
        if self.kind not in get_args(Measured):
            raise InputError(f"{where} is of no call that is measured: choose one of {', '.join(get_args(Measured))}")
        if self.tp < 1 or not self.rows:
            raise InputError(f"{where} needs a tp of at least 1 and at least one measurement")
        for tokens, context, seconds in self.rows:
            if tokens < 1 or context < 0 or not (seconds > 0 and math.isfinite(seconds)):
                raise InputError(
                    f"{where} has {seconds} seconds for {tokens} tokens at context {context}: "
                    "give tokens >= 1, a context >= 0 and seconds > 0"
                )
        sizes = [(tokens, context) for tokens, context, _ in self.rows]
        grid = {(t, c) for t, _ in sizes for _, c in sizes}
        if len(set(sizes)) != len(sizes) or set(sizes) != grid:
            missing = sorted(grid - set(sizes))
            fault = f"lacks (tokens, context) = {missing[0]}" if missing else "has a size twice"
            raise InputError(f"{where} {fault}: measure every number of tokens at every context, once")

    def grid(self) -> Grid:
        tokens = tuple(sorted({row[0] for row in self.rows}))
        context = tuple(sorted({row[1] for row in self.rows}))
        known = {(t, c): seconds for t, c, seconds in self.rows}
        return Grid(tokens, context, tuple(tuple(known[t, c] for c in context) for t in tokens))


@dataclass(frozen=True, slots=True, eq=False)
class ProfileTable:
    """Measurements of any number of models. Two tables are the same only if they are the same object."""

    entries: tuple[Entry, ...]
    source: str = "given"
    """When and how it was measured."""
    _grids: Mapping[tuple[str, str, int], Grid] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        keys = [(entry.fingerprint, entry.kind, entry.tp) for entry in self.entries]
        if len(set(keys)) != len(keys):
            raise InputError("a profile has two entries for one model, kind and tp: merge their measurements")
        object.__setattr__(self, "_grids", dict(zip(keys, (e.grid() for e in self.entries), strict=True)))

    def grid(self, fingerprint_: str, kind: Measured, tp: int) -> Grid | None:
        return self._grids.get((fingerprint_, kind, tp))

    def to_json(self) -> str:
        entries = [asdict(entry) for entry in self.entries]
        return json.dumps({"format": FORMAT, "source": self.source, "entries": entries}, indent=1)

    @staticmethod
    def from_json(text: str) -> "ProfileTable":
        """Raises InputError for what is no profile of this format."""
        try:
            raw = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"this profile is not JSON ({error}): measure again") from error
        if not isinstance(raw, dict) or raw.get("format") != FORMAT:
            raise InputError(f"this profile is not of format {FORMAT}: measure again with this version")
        entries = raw.get("entries")
        if not isinstance(entries, list):
            raise InputError("this profile has no list of entries: measure again")
        return ProfileTable(tuple(_entry(one) for one in entries), str(raw.get("source", "given")))


@lru_cache(maxsize=1024)
def fingerprint(shape: ModelShape, device: str, dtype: str) -> str:
    """Of a model's sizes, a device and a dtype: 16 hex digits."""
    text = json.dumps([asdict(shape), device, dtype], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def entry(
    shape: ModelShape, device: str, dtype: str, kind: Measured, *, tp: int = 1, rows: Iterable[Sequence[float]]
) -> Entry:
    """Measurements (tokens, context, seconds) of a model as an entry."""
    listed = tuple((int(tokens), int(context), float(seconds)) for tokens, context, seconds in rows)
    return Entry(fingerprint(shape, device, dtype), kind, tp, listed)


def _entry(raw: Any) -> Entry:
    try:
        rows = tuple((int(t), int(c), float(s)) for t, c, s in raw["rows"])
        return Entry(str(raw["fingerprint"]), cast(Measured, raw["kind"]), int(raw["tp"]), rows, str(raw["model"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"an entry of this profile cannot be read ({error!r}): it needs fingerprint, model, kind, tp and rows of "
            "tokens, context, seconds"
        ) from error


def _bracket(sizes: tuple[int, ...], size: float) -> tuple[int, int, float]:
    """Two neighbours and the share of the way from one to the other: 0 below the first, above 1 beyond the last."""
    if len(sizes) == 1 or size <= sizes[0]:
        return 0, 0, 0.0
    high = min(bisect_right(sizes, size), len(sizes) - 1)
    low = high - 1
    return low, high, (size - sizes[low]) / (sizes[high] - sizes[low])


def _along(start: float, stop: float, part: float) -> float:
    """Between two values; beyond the second never below it."""
    value = (1 - part) * start + part * stop
    return max(stop, value) if part > 1 else value
