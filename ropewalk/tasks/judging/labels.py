"""Preference pairs from a judge's comparisons of a prompt's samples (AI feedback; Lee et al. 2023, "RLAIF").

    samples ─▶ pairs ─▶ asked in both orders ─▶ rows: prompt, chosen, rejected, probability

A pair whose preferred answer changes with the order is a tie: it says where the answer stood, not which is better.
Ties, failed comparisons and pairs that say the same are left out and counted. Samples that were cut are in no pair: a
reward model would learn that they ended so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from ropewalk.data.intervals import wilson
from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.prompt import Dialogue, Json, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Failed, Score
from ropewalk.tasks.judging.judge import Comparison, Judge, turns_of

MOST_FAILED_SHARE = 0.5


class Pair(NamedTuple):
    """Two samples of one prompt."""

    name: str
    first: Sample
    second: Sample


@dataclass(frozen=True, slots=True)
class Rule:
    """Which comparisons become labels."""

    pairs: int
    """Of a group, at most."""
    agreement: bool
    """Whether both orders must prefer the same answer."""
    at_least: float
    """The preferred answer's probability, averaged over both orders."""


@dataclass(frozen=True, slots=True)
class LabelStatistics:
    """What a judge's labels are worth, as far as it shows. Shares are fractions in 0..1, None where there is nothing
    to take one of."""

    pairs: int
    """Rows written."""
    compared: int
    """Pairs that were asked about and answered in both orders."""
    ties: int
    """Of these, left out: the orders disagree, or the probability is too low."""
    failed: int
    """Pairs without an answer in both orders."""
    identical: int
    """Pairs that were not asked about, since both say the same."""
    unfinished: int
    """Samples that were lost or cut, which are in no pair."""
    order_agreement: float | None
    """Share of the compared pairs whose orders prefer the same answer."""
    order_agreement_interval: tuple[float, float] | None
    """Its 95 % interval (Wilson)."""
    position_bias: float | None
    """Mean P(the one shown first) - 1/2: above 0 the judge likes the first place."""
    longer_chosen: float | None
    """Share of rows whose chosen answer is the longer one in characters, of those of unequal lengths."""
    length_correlation: float | None
    """Between the difference of lengths and the preference, over the compared pairs."""
    remembered: float | None
    """Share of the questions that did not have to be asked."""


class Labelled(NamedTuple):
    """Rows for a preference file, and their statistics."""

    rows: list[dict[str, Json]]
    statistics: LabelStatistics

    def statistics_json(self) -> dict[str, Any]:
        return asdict(self.statistics)


def label(judge: Judge, prompts_by_id: Mapping[str, Prompt], samples: Sequence[Sample], rule: Rule) -> Labelled:
    """Label pairs of every group. Raises `RunStopped` if most comparisons failed, InputError for episodes."""
    if any(len(turns_of(sample)) > 1 for sample in samples):
        raise InputError("a preference pair holds answers of one turn, and these are episodes: label another task")
    ended = [sample for sample in samples if sample.finish == "stop"]
    pairs, identical = pairs_of(ended, rule.pairs)
    compared = judge.compare([(prompts_by_id[p.first.prompt_id], p.first.text, p.second.text) for p in pairs])
    check_failed(judge.name, compared)
    rows: list[dict[str, Json]] = []
    lengths: list[tuple[int, int]] = []
    for pair, comparison in zip(pairs, compared, strict=True):
        if not kept(comparison, rule):
            continue
        first_better = value_of(comparison) > 0.5
        chosen, rejected = (pair.first, pair.second) if first_better else (pair.second, pair.first)
        rows.append(_row(pair, prompts_by_id[pair.first.prompt_id], chosen, rejected, comparison))
        lengths.append((len(chosen.text), len(rejected.text)))
    statistics = _statistics(pairs, compared, rows, lengths, (identical, len(samples) - len(ended)))
    return Labelled(rows, statistics)


def pairs_of(samples: Sequence[Sample], most: int) -> tuple[list[Pair], int]:
    """At most so many pairs of each group, and how many were passed over since both say the same.

    Neighbours in the group's order come first, so that no sample is in two pairs while two others are in none.
    """
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group_id, []).append(sample)
    pairs: list[Pair] = []
    identical = 0
    for name, group in groups.items():
        ordered = sorted(group, key=lambda sample: sample.index)
        found = 0
        for first, second in _places(len(ordered)):
            if found == most:
                break
            if ordered[first].text == ordered[second].text:
                identical += 1
                continue
            found += 1
            indices = f"{ordered[first].index}-{ordered[second].index}"
            pairs.append(Pair(f"{name}/{indices}", ordered[first], ordered[second]))
    return pairs, identical


def _places(count: int) -> list[tuple[int, int]]:
    """All pairs of places: neighbours that do not overlap, then the others."""
    apart = [(place, place + 1) for place in range(0, count - 1, 2)]
    others = [(i, j) for i in range(count) for j in range(i + 1, count) if (i, j) not in set(apart)]
    return apart + others


def kept(comparison: Comparison, rule: Rule) -> bool:
    """Whether a comparison says which answer is better."""
    if not isinstance(comparison.preference, Score) or comparison.preference.value == 0.5:
        return False
    value = comparison.preference.value
    return max(value, 1.0 - value) >= rule.at_least and (comparison.agrees or not rule.agreement)


def value_of(comparison: Comparison) -> float:
    """The preference for the first answer; 1/2 where there is none."""
    return comparison.preference.value if isinstance(comparison.preference, Score) else 0.5


def check_failed(name: str, compared: Sequence[Comparison]) -> None:
    """Raises `RunStopped` if most comparisons failed, with the reason of most."""
    failed = [c.preference for c in compared if isinstance(c.preference, Failed)]
    if len(failed) > MOST_FAILED_SHARE * len(compared):
        told = [failure.reason + (f" ({failure.detail})" if failure.detail else "") for failure in failed]
        often = max(dict.fromkeys(told), key=told.count)
        raise RunStopped(
            f"judge {name!r} failed on {len(failed)} of {len(compared)} pairs, {told.count(often)} times with {often}: "
            "see to the judge, then resume"
        )


def _row(pair: Pair, prompt: Prompt, chosen: Sample, rejected: Sample, comparison: Comparison) -> dict[str, Json]:
    value = value_of(comparison)
    orders: list[Json] = list(comparison.orders or ())
    row: dict[str, Json] = {
        "id": pair.name,
        "prompt": _asked(prompt.dialogue),
        "chosen": chosen.text,
        "rejected": rejected.text,
    }
    return row | {"probability": max(value, 1.0 - value), "orders": orders}


def _asked(dialogue: Dialogue) -> Json:
    """A prompt as readers of preference files take it."""
    return dialogue if isinstance(dialogue, str) else [{"role": m.role, "content": m.content} for m in dialogue]


def _statistics(
    pairs: Sequence[Pair],
    compared: Sequence[Comparison],
    rows: Sequence[object],
    lengths: Sequence[tuple[int, int]],
    left_out: tuple[int, int],
) -> LabelStatistics:
    told = [(pair, c) for pair, c in zip(pairs, compared, strict=True) if c.orders is not None]
    agreed = wilson(sum(c.agrees for _, c in told), len(told)) if told else None
    first = [value for _, c in told for value in c.orders or ()]
    unequal = [chosen > rejected for chosen, rejected in lengths if chosen != rejected]
    questions = 2 * len(pairs)
    return LabelStatistics(
        pairs=len(rows),
        compared=len(told),
        ties=len(told) - len(rows),
        failed=len(pairs) - len(told),
        identical=left_out[0],
        unfinished=left_out[1],
        order_agreement=agreed.value if agreed else None,
        order_agreement_interval=(agreed.low, agreed.high) if agreed else None,
        position_bias=float(np.mean(first)) - 0.5 if first else None,
        longer_chosen=float(np.mean(unequal)) if unequal else None,
        length_correlation=_correlation(told),
        remembered=sum(c.remembered for c in compared) / questions if questions else None,
    )


def _correlation(told: Sequence[tuple[Pair, Comparison]]) -> float | None:
    longer = np.array([len(pair.first.text) - len(pair.second.text) for pair, _ in told], np.float64)
    better = np.array([value_of(comparison) for _, comparison in told], np.float64)
    if len(told) < 3 or not longer.std() or not better.std():
        return None
    return float(np.corrcoef(longer, better)[0, 1])
