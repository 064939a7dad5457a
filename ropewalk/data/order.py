"""Which prompts come next: parts of a mixture and difficulties are sources, drawn by weights that change over a run.

Every prompt of a source comes exactly once in each epoch of that source (`mixture`). A source's weight is its part's,
shared out among the part's difficulties by the curriculum: size times factor (`select.buckets`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ropewalk.data.config import Curriculum
from ropewalk.data.ledger import DataLedger
from ropewalk.data.mixture import Mixture
from ropewalk.data.select.buckets import NAMES, Bucket, bucket_weights
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt

PART, DIFFICULTY = "task", "difficulty"
"""Keys of a prompt's info."""


class Source(NamedTuple):
    """Prompts that are drawn as one: those of a part, of one difficulty."""

    part: str
    """Empty where the task is no mixture."""
    bucket: Bucket | None
    """None without a curriculum."""

    @property
    def name(self) -> str:
        return "/".join(filter(None, (self.part, self.bucket))) or "all"


@dataclass(frozen=True, slots=True)
class Weights:
    """Each source's share of the draws, over a run."""

    sizes: Mapping[Source, int]
    parts: Mapping[str, float]
    """Weights of the parts; one named "" where the task is no mixture."""
    curriculum: Curriculum | None

    def __post_init__(self) -> None:
        """Refuse a curriculum that would leave a part without any prompt at some time."""
        if self.curriculum is not None:
            for phase in self.curriculum.phases:
                self.at(phase.at)

    def at(self, progress: float) -> dict[str, float]:
        """Shares by the names of the sources, summing to 1, when this share of the run is over."""
        total = sum(self.parts.values())
        shares = {}
        for part, weight in self.parts.items():
            sizes = {source.bucket: size for source, size in self.sizes.items() if source.part == part}
            for bucket, share in self._within(part, sizes, progress).items():
                shares[Source(part, bucket).name] = weight / total * share
        return shares

    def _within(self, part: str, sizes: Mapping[Bucket | None, int], progress: float) -> dict[Bucket | None, float]:
        if self.curriculum is None:
            return {None: 1.0}
        known = {bucket: size for bucket, size in sizes.items() if bucket is not None}
        try:
            found = bucket_weights(self.curriculum, known, progress)
        except InputError as error:
            raise InputError(f"part {part!r}: {error}" if part else str(error)) from error
        return {bucket: found[bucket] for bucket in known}


@dataclass(frozen=True, slots=True)
class PromptOrder:
    """The order of a run's prompts; the place in it is the saved state of a `Mixture`."""

    members: Mapping[str, Sequence[int]]
    """By source: the numbers of its prompts."""
    start: Mixture
    weights: Weights

    def at(self, state: Mapping[str, Any]) -> Mixture:
        """The saved place, refused if the data are others than at the start; the start if none is saved."""
        if not state:
            return self.start
        return Mixture.resume(state, {name: ledger.fingerprint for name, ledger in self.start.ledgers.items()})

    def next(self, place: Mixture, count: int, progress: float) -> tuple[list[int], Mixture]:
        """The numbers of the next prompts, and the place after them."""
        turns, after = place.next(count, self.weights.at(progress))
        return [self.members[source][row] for source, row in turns], after

    def first(self, count: int) -> list[int]:
        """Prompts to measure something on before the run: `count` of each part, of its difficulties in turn, in the
        order of the data."""
        found = []
        for part in self.weights.parts:
            mine = [self.members[source.name] for source in self.weights.sizes if source.part == part]
            found += [mine[n % len(mine)][n // len(mine) % len(mine[n % len(mine)])] for n in range(count)]
        return found


def sources_of(prompts: Sequence[Prompt], parts: Sequence[str], *, by_difficulty: bool) -> dict[Source, list[int]]:
    """The sources of these prompts: parts in their order, each difficulty from easy to hard.

    Raises InputError for a part without prompts, and for prompts whose difficulty is asked for and not known.
    """
    known = {str(bucket): bucket for bucket in NAMES}
    found: dict[Source, list[int]] = {
        Source(part, b): [] for part in parts for b in (NAMES if by_difficulty else [None])
    }
    without: list[Prompt] = []
    for number, prompt in enumerate(prompts):
        bucket = known.get(str(prompt.info.get(DIFFICULTY))) if by_difficulty else None
        if by_difficulty and bucket is None:
            without.append(prompt)
            continue
        found[Source(str(prompt.info[PART]) if parts != [""] else "", bucket)].append(number)
    if without:
        raise InputError(
            f"a curriculum needs info.difficulty of every prompt (easy, medium or hard): {len(without)} of "
            f"{len(prompts)} have none, the first is {without[0].id}; `ropewalk select` finds it, rollout.only reads it"
        )
    for part in parts:
        if not any(numbers for source, numbers in found.items() if source.part == part):
            raise InputError(f"part {part!r} has no prompt left: take it out of the mixture, or choose prompts of it")
    return {source: numbers for source, numbers in found.items() if numbers}


def prompt_order(
    prompts: Sequence[Prompt],
    parts: Mapping[str, float],
    curriculum: Curriculum | None,
    ledger: Callable[[Sequence[Prompt]], DataLedger],
) -> PromptOrder:
    """The order of prompts under the weights of parts (none: no mixture) and a curriculum."""
    weighted = dict(parts) or {"": 1.0}
    sources = sources_of(prompts, list(weighted), by_difficulty=curriculum is not None)
    ledgers = {source.name: ledger([prompts[i] for i in numbers]) for source, numbers in sources.items()}
    weights = Weights({source: len(numbers) for source, numbers in sources.items()}, weighted, curriculum)
    return PromptOrder({source.name: numbers for source, numbers in sources.items()}, Mixture.start(ledgers), weights)
