"""Preference pairs whose labels come from the truth through Bradley–Terry noise, and what a judge can make of them.

A pair's label is a function of (seed, its id, its two true scores): it does not depend on the other pairs.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import PreferencePair, Prompt
from ropewalk.records.sample import Sample
from ropewalk.tasks.city.grammar import END
from ropewalk.tasks.city.task import truth

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LabelledPairs:
    """Pairs with what the laboratory knows of them."""

    pairs: list[PreferencePair]
    margins_P: Floats
    """True score of the chosen minus that of the rejected; negative where the noise won."""
    identical: int
    """Pairs left out because both completions say the same."""


@dataclass(frozen=True, slots=True)
class PairStatistics:
    """What labels and truth have to do with each other on one set of pairs. Shares are fractions in 0..1."""

    pairs: int
    ties: float
    """Share of pairs with equal true scores; their labels are coin flips."""
    label_accuracy: float
    """Share of the other pairs whose label agrees with the truth; NaN if there is none."""
    ceiling: float
    """Agreement with these very labels to expect of a judge who knows the truth: right on non-ties as often as
    the label is, and on half of the ties."""


@dataclass(frozen=True, slots=True)
class JudgeStatistics:
    """How a judge's scores agree with the labels, and with the truth. A judge's tie counts as half."""

    labels: float
    """Share of pairs on which the chosen completion scores higher."""
    truth: float
    """Share of the non-ties on which the truly better completion scores higher; NaN if there is none."""
    non_ties: int


def label_pairs(prompts_by_id: Mapping[str, Prompt], samples: Sequence[Sample], seed: int) -> LabelledPairs:
    """Label the two samples of each group: P(first is chosen) = σ(true score of first − of second).

    Raises InputError if a group does not have exactly two samples.
    """
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group_id, []).append(sample)
    pairs: list[PreferencePair] = []
    margins: list[float] = []
    for name, group in groups.items():
        if len(group) != 2:
            raise InputError(f"group {name!r} has {len(group)} samples: pairs are made of two samples a prompt")
        first, second = sorted(group, key=lambda sample: sample.index)
        if _words(first) == _words(second):
            continue
        prompt = prompts_by_id[first.prompt_id]
        margin = truth(prompt, first).value - truth(prompt, second).value
        if not first_chosen(margin, name, seed):
            first, second, margin = second, first, -margin
        pairs.append(PreferencePair(name, prompt.dialogue, " ".join(_words(first)), " ".join(_words(second))))
        margins.append(margin)
    return LabelledPairs(pairs, np.array(margins), len(groups) - len(pairs))


def first_chosen(margin: float, key: str, seed: int) -> bool:
    """The noisy label of a pair whose true scores differ by `margin` (Bradley–Terry: probability σ(margin))."""
    digest = hashlib.blake2b(f"{seed}\x1f{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2.0**64 < 1.0 / (1.0 + math.exp(-margin))


def pair_statistics(margins_P: Floats) -> PairStatistics:
    """Ties, label accuracy and a perfect judge's ceiling on these very pairs."""
    if not len(margins_P):
        raise InputError("there are no pairs to describe: give at least one")
    ties, right = float((margins_P == 0).mean()), float((margins_P > 0).mean())
    accuracy = right / (1 - ties) if ties < 1 else math.nan
    return PairStatistics(len(margins_P), ties, accuracy, right + ties / 2)


def judge_statistics(margins_P: Floats, score_margins_P: Floats) -> JudgeStatistics:
    """Agreement of a judge (its score of the chosen minus that of the rejected) with labels and truth."""
    if len(margins_P) != len(score_margins_P):
        raise InputError(f"{len(score_margins_P)} judgements were given for {len(margins_P)} pairs")
    sides = np.sign(score_margins_P)
    non_ties = margins_P != 0
    agreement = (sides * np.sign(margins_P))[non_ties]
    return JudgeStatistics(
        labels=float(0.5 + sides.mean() / 2) if len(sides) else math.nan,
        truth=float(0.5 + agreement.mean() / 2) if len(agreement) else math.nan,
        non_ties=int(non_ties.sum()),
    )


def _words(sample: Sample) -> list[str]:
    """The completion with its end word, if it finished."""
    return [*sample.text.split(), END] if sample.finish == "stop" else sample.text.split()
