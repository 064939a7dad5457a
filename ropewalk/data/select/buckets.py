"""Prompts by difficulty, and how often each difficulty comes over a run.

A bucket's share of what is drawn is its size times its factor, so that a factor is how often one of its prompts comes
against one that comes once: all factors 1 is the data as they are, hard = 3 shows every hard prompt three times as
often.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Literal, TypeAlias

from ropewalk.data.config import Buckets, Curriculum, Phase
from ropewalk.records.errors import InputError

Bucket: TypeAlias = Literal["easy", "medium", "hard"]
NAMES: tuple[Bucket, ...] = ("easy", "medium", "hard")


def bucket_of(buckets: Buckets, rate: float) -> Bucket:
    """The difficulty of a pass rate."""
    if rate < buckets.hard_below:
        return "hard"
    return "easy" if rate > buckets.easy_above else "medium"


def factors_at(curriculum: Curriculum, progress: float) -> dict[Bucket, float]:
    """The factors at a share of the run that is over, between 0 and 1."""
    if not 0 <= progress <= 1:
        raise InputError(f"progress lies between 0 and 1, not at {progress}")
    phases = curriculum.phases
    if progress <= phases[0].at:
        return _factors(phases[0])
    for early, late in pairwise(phases):
        if progress <= late.at:
            share = (progress - early.at) / (late.at - early.at)
            before, after = _factors(early), _factors(late)
            return {name: (1 - share) * before[name] + share * after[name] for name in NAMES}
    return _factors(phases[-1])


def bucket_weights(curriculum: Curriculum, sizes: Mapping[Bucket, int], progress: float) -> dict[Bucket, float]:
    """Each bucket's share of what is drawn: size × factor, summing to 1. A bucket without prompts has none.

    Raises InputError where nothing would be drawn at all.
    """
    factors = factors_at(curriculum, progress)
    raw = {name: sizes.get(name, 0) * factors[name] for name in NAMES}
    total = sum(raw.values())
    if total <= 0:
        there = ", ".join(f"{size} {name}" for name, size in sizes.items() if size) or "none"
        raise InputError(f"at {progress:.0%} of the run no prompt has a factor above 0: there are {there}")
    return {name: weight / total for name, weight in raw.items()}


def _factors(phase: Phase) -> dict[Bucket, float]:
    return {"easy": phase.easy, "medium": phase.medium, "hard": phase.hard}
