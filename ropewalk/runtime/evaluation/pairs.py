"""A reward model on preference pairs: how often it is right, and how much of that is length.

A tie (two equal scores) is neither right nor wrong: it is counted, and left out of the accuracy.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ropewalk.data.intervals import Estimate, correlation, wilson
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json
from ropewalk.runtime.config import Hardware, PairFile
from ropewalk.runtime.evaluation.findings import Measure, SetFinding
from ropewalk.runtime.evaluation.policies import compared
from ropewalk.runtime.evaluation.suite import PairSet
from ropewalk.runtime.prepare import HeldOut, Pair, language_of, pair_rows
from ropewalk.runtime.progress import Progress
from ropewalk.runtime.roles import FromScorer
from ropewalk.runtime.scorer import open_scorer

Floats = npt.NDArray[np.float64]

MATCHED = 0.1
"""Sides whose lengths differ by at most this share of the longer one are matched."""
ACCURACY = "pair accuracy"


def held_pairs(config: PairFile, folder: str, seed: int, progress: Progress) -> Sequence[Pair]:
    """The pairs that a reward-model run held out."""
    return _pairs(config, folder, seed, progress).held


def set_pairs(one: PairSet, folder: str, progress: Progress) -> Sequence[Pair]:
    """Every pair of a suite's set."""
    config = PairFile(path=one.path, max_tokens=one.max_tokens, held_out=0.0, limit=one.limit)
    return _pairs(config, folder, 0, progress).train


def _pairs(config: PairFile, folder: str, seed: int, progress: Progress) -> HeldOut[Pair]:
    return pair_rows(config, language_of(FromScorer(folder)), seed, progress)


def judged_sets(
    folder: str, sets: Sequence[tuple[str, Sequence[Pair]]], hardware: Hardware, progress: Progress
) -> list[Floats]:
    """A reward model's scores (P, 2) of each set's pairs, the chosen side first."""
    progress.begin(f"loading {folder}", 1)
    with open_scorer(folder, hardware) as scorer:
        found = []
        for name, pairs in sets:
            progress.begin(f"{name}: {folder}", len(pairs))
            found.append(scorer.rows([side for pair in pairs for side in pair]).reshape(-1, 2))
            if not np.isfinite(found[-1]).all():
                raise InputError(f"{folder} gave a score that is not finite: look at its run before using it")
        return found


def pair_finding(
    name: str, lengths_P2: Floats, before_P2: Floats | None, after_P2: Floats, seen: str = "pairs"
) -> SetFinding:
    """Accuracy before and after, then what the later scores have to do with length.

    `lengths_P2`: tokens of the chosen and of the rejected completion.
    """
    margins_P, longer_P = after_P2[:, 0] - after_P2[:, 1], lengths_P2[:, 0] - lengths_P2[:, 1]
    measures = [accuracy(ACCURACY, before_P2, after_P2)]
    near_P = np.abs(longer_P) <= MATCHED * lengths_P2.max(axis=1)
    if near_P.any():
        earlier = None if before_P2 is None else before_P2[near_P]
        measures.append(accuracy("accuracy at like length", earlier, after_P2[near_P]))
    measures += [
        Measure("score ~ length (Pearson)", correlation(after_P2.ravel(), lengths_P2.ravel())),
        Measure("score ~ length (Spearman)", correlation(after_P2.ravel(), lengths_P2.ravel(), kind="spearman")),
        Measure("margin ~ difference of lengths (Pearson)", correlation(margins_P, longer_P)),
    ]
    decided = longer_P[longer_P != 0]
    if len(decided):
        measures.append(Measure("accuracy of preferring the longer", wilson(int((decided > 0).sum()), len(decided))))
    about: dict[str, Json] = {seen: len(after_P2), "ties": int((margins_P == 0).sum())}
    return SetFinding(name, measures, about)


def accuracy(name: str, before_P2: Floats | None, after_P2: Floats) -> Measure:
    """Share of decided pairs whose chosen side scores higher, with Wilson's interval.

    The difference is over the pairs that both models decide.
    """
    after = right(after_P2)
    if before_P2 is None:
        return Measure(name, _share(after))
    before = right(before_P2)
    both = compared(name, before, after)
    return Measure(name, _share(after), _share(before), both.difference if both is not None else None)


def _share(right_P: Floats) -> Estimate:
    decided = right_P[np.isfinite(right_P)]
    return wilson(float(decided.sum()), len(decided)) if len(decided) else Estimate(np.nan, 0.0, 1.0, 0)


def right(scores_P2: Floats) -> Floats:
    """1 where the chosen side scores higher, 0 where lower, NaN at a tie."""
    margins_P = scores_P2[:, 0] - scores_P2[:, 1]
    return np.where(margins_P == 0, np.nan, (margins_P > 0).astype(np.float64))


def completion_lengths(pairs: Sequence[Pair]) -> Floats:
    """Tokens (P, 2) of each side's completion."""
    return np.array([[np.asarray(mask).sum() for _, mask in pair] for pair in pairs], np.float64)
