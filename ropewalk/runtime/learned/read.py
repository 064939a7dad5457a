"""From the columns that the members' calls wrote to the scores of a learned reward, and what there is to know of them.

Pure given its readers. Rows are the samples in order; of a process reward model the values of the steps are looked up
among a sample's own tokens, so nothing is encoded again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ropewalk.data.steps import Decode, says_something, step_ends
from ropewalk.records.errors import InputError
from ropewalk.records.metric import Metric, merge
from ropewalk.records.packed import PackedBatch
from ropewalk.records.prompt import Json
from ropewalk.records.sample import Bools, Ints, Sample
from ropewalk.runtime.learned.calls import LearnedCalls
from ropewalk.runtime.learned.combine import Floats, over_members, over_steps, sigmoid, spread
from ropewalk.runtime.learned.config import Heads, LastToken, Process


class Said(NamedTuple):
    """What of a row its readers need; see `said_by`."""

    tokens_T: Ints
    policy_mask_T: Bools
    ended: bool
    """False: cut off by a limit."""


def said_by(sample: Sample) -> Said:
    """A sample as a model of its policy's vocabulary reads it."""
    return Said(sample.tokens_T, sample.policy_mask_T, sample.finish == "stop")


@dataclass(frozen=True, slots=True)
class StepCutter:
    """Finds the ends of steps in ids, by the language that they are written in."""

    decode: Decode
    eos_ids: tuple[int, ...]
    separator: str
    _pieces: dict[int, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Texts of single ids that were met; at most one for each word of the vocabulary."""

    def says(self, step: str) -> bool:
        """Whether there is something in a step but white space and separators."""
        return says_something(step, self.separator)

    def ends(self, said: Said) -> list[int]:
        """Places of the steps' last tokens among the policy's own tokens. Each turn of the policy is cut by itself."""
        mask_T = said.policy_mask_T
        edges = np.flatnonzero(np.diff(np.concatenate([[False], mask_T, [False]]).astype(np.int8)))
        found: list[int] = []
        done = 0
        for start, end in zip(edges[0::2].tolist(), edges[1::2].tolist(), strict=True):
            ids = said.tokens_T[start:end].tolist()
            ended = said.ended or end != edges[-1]
            places = step_ends(ids, self.decode, self.separator, ended=ended, eos_ids=self.eos_ids, piece=self._piece)
            found += [done + place for place in dict.fromkeys(places)]
            done += end - start
        return found

    def _piece(self, token: int) -> str:
        if token not in self._pieces:
            self._pieces[token] = self.decode([token])
        return self._pieces[token]


class Read(NamedTuple):
    """A learned reward of a batch."""

    score_R: Floats
    records: list[dict[str, Json]]
    """Per row: members, spread, heads, steps; empty where the score says all."""
    metrics: dict[str, Metric]


class _OfMember(NamedTuple):
    score_R: Floats
    notes: Sequence[Json] = ()
    """Per row, what the score was made of; nothing where it was read as it is."""
    metrics: Mapping[str, Metric] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads one learned reward."""

    calls: LearnedCalls
    heads: tuple[tuple[str, ...], ...] = ()
    """Names of each member's heads, where heads are read."""
    cutter: StepCutter | None = None
    """Where steps are read."""

    def __call__(self, batch: PackedBatch, said: Sequence[Said]) -> Read:
        """Raises `InputError` for a score that is not finite, naming the model."""
        section = self.calls.section
        ends = [self.cutter.ends(one) for one in said] if self.cutter is not None else []
        members = [self._member(number, batch, ends) for number in range(len(section.folders))]
        scores_RM = np.stack([member.score_R for member in members], axis=1)
        scores_RM -= np.array(section.offsets or (0.0,) * len(members), np.float64)
        records, metrics = self._together(scores_RM)
        if members[0].notes:
            kind = "steps" if self.cutter is not None else "heads"
            for row, record in enumerate(records):
                notes = [member.notes[row] for member in members]
                record[kind] = notes if len(notes) > 1 else notes[0]
        metrics = merge([metrics, *(member.metrics for member in members)])
        return Read(over_members(scores_RM, section.combine), records, metrics)

    def _member(self, number: int, batch: PackedBatch, ends: Sequence[Sequence[int]]) -> _OfMember:
        column, folder = self.calls.columns[number], self.calls.section.folders[number]
        columns = batch.token_columns if self.calls.output == "token_scores" else batch.row_columns
        values = np.asarray(columns[column], np.float64)
        if not np.isfinite(values).all():
            raise InputError(
                f"the reward model gave a score that is not finite ({folder}): look at its run before using it"
            )
        match self.calls.section.read:
            case LastToken():
                return _OfMember(values)
            case Heads(weights=weights):
                names = self.heads[number]
                return self._heads(values, names, head_weights(weights, names, folder))
            case Process(combine=combine):
                steps = _step_values(batch, values, ends)
                return self._steps(steps, np.array([over_steps(one, combine) for one in steps], np.float64))

    def _heads(self, values_RH: Floats, names: Sequence[str], weights_H: Floats) -> _OfMember:
        sums = values_RH.sum(axis=0)
        means = {
            f"score/{self.calls.name}/head/{name}": Metric.mean(float(total), len(values_RH))
            for name, total in zip(names, sums, strict=True)
        }
        notes: list[Json] = [dict(zip(names, row, strict=True)) for row in values_RH.tolist()]
        return _OfMember(values_RH @ weights_H, notes, means)

    def _steps(self, steps: Sequence[Floats], score_R: Floats) -> _OfMember:
        count, total = sum(map(len, steps)), float(sum(values.sum() for values in steps))
        name = self.calls.name
        metrics = {
            f"score/{name}/steps": Metric.mean(count, len(steps)),
            f"score/{name}/step_value": Metric.mean(total, count),
        }
        return _OfMember(score_R, [values.tolist() for values in steps], metrics)

    def _together(self, scores_RM: Floats) -> tuple[list[dict[str, Json]], dict[str, Metric]]:
        """Members and their spread, where there is more than one."""
        rows, members = scores_RM.shape
        if members == 1:
            return [{} for _ in range(rows)], {}
        spread_R = spread(np.sort(scores_RM, axis=1))
        name, sums = self.calls.name, scores_RM.sum(axis=0)
        metrics = {f"score/{name}/member/{i}": Metric.mean(float(sums[i]), rows) for i in range(members)}
        metrics[f"score/{name}/spread"] = Metric.mean(float(spread_R.sum()), rows)
        metrics |= {f"score/{name}/spread_max": Metric.max(float(spread_R.max()))} if rows else {}
        pairs = zip(scores_RM.tolist(), spread_R.tolist(), strict=True)
        return [{"members": scores, "spread": apart} for scores, apart in pairs], metrics


def head_weights(weights: Mapping[str, float], names: Sequence[str], folder: str) -> Floats:
    """The weight of each head in order, 0 where none is given. Raises `InputError` for a head that is not there."""
    for name in weights:
        if name not in names:
            near = get_close_matches(name, names, n=1, cutoff=0.0)[0]
            raise InputError(f"{folder} has no head {name!r}: did you mean {near!r}? (it has {', '.join(names)})")
    return np.array([weights.get(name, 0.0) for name in names], np.float64)


def head_names(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The labels of a classifier's config, in order."""
    given = config.get("id2label") or {}
    count = int(config.get("num_labels", len(given) or 2))
    return tuple(str(given.get(str(i), given.get(i, f"LABEL_{i}"))) for i in range(count))


def _step_values(batch: PackedBatch, values_T: Floats, ends: Sequence[Sequence[int]]) -> list[Floats]:
    """σ of each row's scores at the ends of its steps."""
    mine_T = np.flatnonzero(batch.token_columns["policy_mask"].astype(bool) & (batch.row_T >= 0))
    counts = np.bincount(batch.row_T[mine_T], minlength=batch.rows)
    rows = np.split(sigmoid(values_T[mine_T]), np.cumsum(counts)[:-1])
    return [row[np.asarray(places, np.int64)] for row, places in zip(rows, ends, strict=True)]
