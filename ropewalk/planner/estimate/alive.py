"""How many sequences of a dp replica still run as decoding goes on.

Lengths are drawn from the workload's histogram. At step t a sequence runs with probability s(t) = share longer than t,
so a replica of b sequences has a binomial number of them, and the fullest of dp replicas the largest of dp such:

    E[most](t)  = Σ_k 1 - F(k; b, s)^dp          P[any](t) = 1 - (1 - s)^(b dp)

A stretch of steps between two lengths of the histogram then counts as steps x P[any] steps of E[most] / P[any]
sequences. It is exact for one replica, and for lengths that are all equal; for several it is a little too long, since
the fullest replica at one step need not be the fullest at another. Within a stretch time is linear in the context, so
its midpoint is exact.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ropewalk.plan.workload import Lengths

MOST_STRETCHES = 48
"""Histograms with more lengths are merged to about that many stretches, keeping steps and tokens."""
EXACT_SEQUENCES = 200_000
"""Above, a replica's number of running sequences is taken as its mean: it varies by less than 0.3 %."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps with the same number of running sequences."""

    steps: float
    sequences: float
    """Running in the fullest replica."""
    generated: float
    """Mean tokens that each has generated so far."""
    until: float
    """Most tokens that one has generated when the stretch ends."""


@lru_cache(maxsize=4096)
def stretches(lengths: Lengths, replicas: int, sequences: int, waves: float = 1.0) -> tuple[Stretch, ...]:
    """Of one replica of `sequences` slots that serves `waves` times as many sequences.

    A slot that falls free takes the next sequence, so all slots run until the queue is empty; what is left to do then
    is taken to be one more wave from its start.
    """
    found = []
    if waves > 1:
        full = (waves - 1) * lengths.mean
        context = _square_mean(lengths) / (2 * lengths.mean) if lengths.mean else 0.0
        found.append(Stretch(full, sequences, context, context))
    total, start = sum(lengths.weights), 0
    left = total
    for stop, weight in sorted(zip(lengths.tokens, lengths.weights, strict=True)):
        if weight and stop > start:
            present, most = fullest(replicas, sequences, min(1.0, left / total))
            found.append(Stretch((stop - start) * present, most / present, (start + stop) / 2, stop))
            start = stop
        left -= weight
    return _merged(found)


@lru_cache(maxsize=65_536)
def fullest(replicas: int, sequences: int, share: float) -> tuple[float, float]:
    """(P[any sequence runs in any replica], expected number in the fullest one)."""
    if share >= 1 or sequences > EXACT_SEQUENCES:
        return 1.0, sequences * share
    present = -np.expm1(sequences * replicas * np.log1p(-share))
    if replicas == 1:
        return float(present), sequences * share
    counts = np.arange(sequences + 1)
    ways = _log_factorials(sequences)
    chances = ways[-1] - ways - ways[::-1] + counts * np.log(share) + (sequences - counts) * np.log1p(-share)
    at_most = np.minimum(np.cumsum(np.exp(chances)), 1.0)
    return float(present), float(np.sum(1 - at_most[:-1] ** replicas))


@lru_cache(maxsize=256)
def _log_factorials(most: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])


def _square_mean(lengths: Lengths) -> float:
    return float(np.average(np.square(np.asarray(lengths.tokens, float)), weights=lengths.weights))


def _merged(found: list[Stretch]) -> tuple[Stretch, ...]:
    each = -(-len(found) // MOST_STRETCHES)
    if each <= 1:
        return tuple(found)
    merged = []
    for first in range(0, len(found), each):
        part = found[first : first + each]
        steps = sum(one.steps for one in part)
        tokens = sum(one.steps * one.sequences for one in part)
        context = sum(one.steps * one.sequences * one.generated for one in part)
        merged.append(Stretch(steps, tokens / steps, context / tokens, part[-1].until))
    return tuple(merged)
