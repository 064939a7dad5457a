"""Rows into packed batches, and packed batches into micro-batches, minibatches and shards.

Every partition here covers each row exactly once, never separates rows of one unit and keeps rows in batch order
within a part. Nothing is padded, cut or dropped: a row that cannot train is refused by name.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from ropewalk.records.errors import InputError
from ropewalk.records.packed import Array, Ints, PackedBatch
from ropewalk.records.sample import Bools, Sample, SamplingRecord

Row: TypeAlias = tuple[Sequence[int] | Ints, Sequence[bool] | Bools]
"""Token ids and the mask of those that train."""


class StepRow(NamedTuple):
    """A completion with labelled steps."""

    ids: Ints
    mask: Bools
    ends: Sequence[int]
    """Place of each step's last token."""
    labels: Sequence[float]
    """In [0, 1], one a step."""


def sampling_of(samples: Sequence[Sample]) -> SamplingRecord:
    """The one sampling record of these samples; the trainer scores under it.

    Raises `InputError` when they were drawn from different distributions: one batch is scored under one record.
    """
    records = {sample.sampling for sample in samples}
    if len(records) != 1:
        raise InputError(f"a batch needs samples of one sampling record, got {len(records)}: train them apart")
    return next(iter(records))


def pack_samples(samples: Sequence[Sample], *, share_prompts: bool = False) -> PackedBatch:
    """Samples as rows, in order. Columns: policy_mask, rollout_logprobs · group, unit, valid, finished.

    With `share_prompts`, rows of one group whose tokens before their first sampled one are identical hang on one
    parent segment that holds them.
    """
    prompts = [_prompt_length(sample) for sample in samples]
    keys = [(s.group_id, s.tokens_T[:p].tobytes()) for s, p in zip(samples, prompts, strict=True)]
    sharing: dict[tuple[str, bytes], int] = {}
    for key in keys:
        sharing[key] = sharing.get(key, 0) + 1
    pieces: list[tuple[Ints, Bools, Array]] = []
    parents: list[int] = []
    parent_of: dict[tuple[str, bytes], int] = {}
    for sample, prompt, key in zip(samples, prompts, keys, strict=True):
        start = 0
        if share_prompts and sharing[key] > 1:
            start = prompt
            if key not in parent_of:
                parent_of[key] = len(pieces)
                pieces.append((sample.tokens_T[:prompt], sample.policy_mask_T[:prompt], sample.logprobs_T[:prompt]))
                parents.append(-1)
        pieces.append((sample.tokens_T[start:], sample.policy_mask_T[start:], sample.logprobs_T[start:]))
        parents.append(parent_of[key] if start else -1)
    groups: dict[str, int] = {}
    group_R = [groups.setdefault(sample.group_id, len(groups)) for sample in samples]
    return _packed(pieces, parents).with_columns(
        tokens={"rollout_logprobs": _joined([piece[2] for piece in pieces], np.float32)},
        rows={
            "group": np.array(group_R, np.int64),
            "valid": np.ones(len(samples), np.bool_),
            "finished": np.array([sample.finish == "stop" for sample in samples], np.bool_),
        },
    )


def pack_rows(rows: Sequence[Row]) -> PackedBatch:
    """Rows of (ids, mask of the tokens that train), in order. Columns: policy_mask · unit."""
    pieces = [_piece(number, row) for number, row in enumerate(rows)]
    for number, (ids, mask, _) in enumerate(pieces):
        if not mask.any():
            raise InputError(f"row {number} has no token to train on: drop it, or shorten its prompt")
        if mask[0]:
            raise InputError(f"row {number} trains its first of {len(ids)} tokens, which nothing predicts: mask it")
    return _packed(pieces, [-1] * len(pieces))


def pack_pairs(pairs: Sequence[tuple[Row, Row]]) -> PackedBatch:
    """(chosen, rejected) rows side by side. Columns: policy_mask · unit (one number a pair), chosen."""
    pieces: list[tuple[Ints, Bools, Array]] = []
    for number, (chosen, rejected) in enumerate(pairs):
        first, second = _piece(2 * number, chosen), _piece(2 * number + 1, rejected)
        if np.array_equal(first[0], second[0]):
            raise InputError(f"pair {number} has equal chosen and rejected tokens: drop it, it says nothing")
        pieces += [first, second]
    unit_R = np.repeat(np.arange(len(pairs), dtype=np.int64), 2)
    return _packed(pieces, [-1] * len(pieces)).with_columns(
        rows={"unit": unit_R, "chosen": np.arange(len(pieces)) % 2 == 0}
    )


def pack_steps(rows: Sequence[StepRow]) -> PackedBatch:
    """Completions with labelled steps, in order. Columns: policy_mask, step_end, step_label (0 elsewhere) · unit."""
    batch = pack_rows([(row.ids, row.mask) for row in rows])
    end_T, label_T = np.zeros(batch.tokens, np.bool_), np.zeros(batch.tokens, np.float32)
    starts = batch.segments_S3[batch.row_segments_R, 0]
    for number, (start, row) in enumerate(zip(starts.tolist(), rows, strict=True)):
        places = start + np.asarray(row.ends, np.int64)
        if not len(places) or not batch.token_columns["policy_mask"][places].all():
            raise InputError(f"row {number} has no step, or one that ends outside its completion: leave it out")
        end_T[places], label_T[places] = True, row.labels
    return batch.with_columns(tokens={"step_end": end_T, "step_label": label_T})


def micro_batches(batch: PackedBatch, token_budget: int) -> list[Ints]:
    """Rows in parts of at most `token_budget` tokens, first fit in order of units.

    A shared prompt counts once in every part that needs it. A unit above the budget stands alone. None is empty.
    """
    if token_budget < 1:
        raise InputError(f"a micro-batch needs a budget of at least one token, got {token_budget}")
    if batch.tokens <= token_budget:
        return [np.arange(batch.rows, dtype=np.int64)] if batch.rows else []
    lengths_S = batch.segments_S3[:, 1] - batch.segments_S3[:, 0]
    parts: list[tuple[list[int], set[int]]] = []
    used: list[int] = []
    for rows in unit_rows(batch):
        segments = batch.row_segments_R[rows]
        own = int(lengths_S[segments].sum())
        stems = {int(parent) for parent in batch.segments_S3[segments, 2] if parent >= 0}
        for place, (members, held) in enumerate(parts):
            cost = own + sum(int(lengths_S[stem]) for stem in stems - held)
            if used[place] + cost <= token_budget:
                members.extend(rows.tolist())
                held |= stems
                used[place] += cost
                break
        else:
            parts.append((rows.tolist(), set(stems)))
            used.append(own + sum(int(lengths_S[stem]) for stem in stems))
    return [np.array(sorted(members), np.int64) for members, _ in parts]


def minibatches(batch: PackedBatch, count: int, generator: np.random.Generator) -> list[Ints]:
    """Rows in `count` parts whose numbers of units differ by at most one, dealt by a permutation of the units."""
    units = unit_rows(batch)
    order = generator.permutation(len(units))
    return [_sorted_rows([units[unit] for unit in part]) for part in np.array_split(order, count)]


def split_dp(batch: PackedBatch, ranks: int) -> list[Ints]:
    """Rows of each rank: numbers of units differ by at most one, tokens are balanced.

    Units are dealt in rounds of one to each rank, longest first, the longest of a round to the rank with the least.
    A rank may be empty only when there are fewer units than ranks.
    """
    lengths_S = batch.segments_S3[:, 1] - batch.segments_S3[:, 0]
    units = unit_rows(batch)
    tokens = [int(lengths_S[batch.row_segments_R[rows]].sum()) for rows in units]
    longest_first = sorted(range(len(units)), key=lambda unit: (-tokens[unit], unit))
    shards: list[list[Ints]] = [[] for _ in range(ranks)]
    load = [0] * ranks
    for start in range(0, len(units), ranks):
        least_first = sorted(range(ranks), key=lambda rank: (load[rank], rank))
        for unit, rank in zip(longest_first[start : start + ranks], least_first, strict=False):
            shards[rank].append(units[unit])
            load[rank] += tokens[unit]
    return [_sorted_rows(shard) for shard in shards]


def unit_rows(batch: PackedBatch) -> list[Ints]:
    """The rows of each unit, units in order of their first row. Without a `unit` column each row is one."""
    unit_R = batch.row_columns.get("unit")
    if unit_R is None:
        return [np.array([row], np.int64) for row in range(batch.rows)]
    rows: dict[int, list[int]] = {}
    for row, unit in enumerate(unit_R.tolist()):
        rows.setdefault(unit, []).append(row)
    return [np.array(members, np.int64) for members in rows.values()]


def _sorted_rows(parts: Sequence[Ints]) -> Ints:
    return np.sort(np.concatenate([*parts, np.empty(0, np.int64)]))


def _prompt_length(sample: Sample) -> int:
    where = f"sample {sample.prompt_id}/{sample.index}"
    if not sample.policy_mask_T.any():
        raise InputError(f"{where} has an empty completion: there is nothing to train on, leave it out")
    length = int(np.argmax(sample.policy_mask_T))
    if length == 0:
        raise InputError(f"{where} has no prompt token to predict its first token from: give the prompt a start token")
    return length


def _piece(number: int, row: Row) -> tuple[Ints, Bools, Array]:
    ids, mask = np.asarray(row[0], np.int64), np.asarray(row[1], np.bool_)
    if len(ids) != len(mask) or not len(ids):
        raise InputError(f"row {number} has {len(ids)} ids and {len(mask)} mask entries: give equally many, at least 1")
    return ids, mask, np.empty(0, np.float32)


def _packed(pieces: Sequence[tuple[Ints, Bools, Array]], parents: Sequence[int]) -> PackedBatch:
    ends = np.cumsum([len(ids) for ids, _, _ in pieces], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])[: len(ends)]
    batch = PackedBatch(
        tokens_T=_joined([ids for ids, _, _ in pieces], np.int64).astype(np.int64),
        segments_S3=np.stack([starts, ends, np.array(parents, np.int64)], axis=1).reshape(-1, 3),
        token_columns={"policy_mask": _joined([mask for _, mask, _ in pieces], np.bool_)},
    )
    return batch.with_columns(rows={"unit": np.arange(batch.rows, dtype=np.int64)})


def _joined(parts: Sequence[Array], dtype: type[np.generic]) -> Array:
    joined: Array = np.concatenate([*parts, np.empty(0, dtype)]).astype(dtype, copy=False)
    return joined
