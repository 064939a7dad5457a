"""Packing: conservation of tokens, columns at their tokens, and partitions that cover each row once."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.records.packed import PackedBatch
from ropewalk.records.sample import Sample, SamplingRecord
from ropewalk.training.packing import (
    micro_batches,
    minibatches,
    pack_pairs,
    pack_rows,
    pack_samples,
    sampling_of,
    split_dp,
)

SAMPLING = SamplingRecord(temperature=1.0, max_new_tokens=8, eos_ids=(2,))


def sample(prompt: list[int], answer: list[int], *, group: str = "g", index: int = 0, finish: str = "stop") -> Sample:
    n, m = len(prompt), len(answer)
    return Sample(
        prompt_id=group,
        group_id=group,
        index=index,
        seed=index,
        tokens_T=np.array(prompt + answer, np.int64),
        policy_mask_T=np.arange(n + m) >= n,
        logprobs_T=np.concatenate([np.full(n, np.nan), -np.arange(1, m + 1) / 8]).astype(np.float32),
        versions_T=np.where(np.arange(n + m) >= n, 0, -1),
        finish=finish,  # type: ignore[arg-type]
        sampling=SAMPLING,
        text="",
    )


def rows_of(lengths: list[int]) -> PackedBatch:
    return pack_rows([(list(range(10, 10 + n)), [False] + [True] * (n - 1)) for n in lengths])


def with_units(lengths: list[int], units: list[int]) -> PackedBatch:
    return rows_of(lengths).with_columns(rows={"unit": np.array(units, np.int64)})


def sequence(batch: PackedBatch, row: int) -> list[int]:
    start, end, parent = batch.segments_S3[batch.row_segments_R[row]]
    stem = batch.tokens_T[slice(*batch.segments_S3[parent][:2])].tolist() if parent >= 0 else []
    return stem + batch.tokens_T[start:end].tolist()


GROUPS = [
    sample([5, 6, 7], [8, 2], group="a", index=0),
    sample([5, 6, 7], [9], group="a", index=1),
    sample([5, 6], [9, 9, 9], group="b", index=0),
    sample([5, 6, 7], [8, 8, 2], group="a", index=2),
    sample([5, 1], [4], group="b", index=1),
]


@pytest.mark.parametrize("shared", [False, True])
def test_a_packed_sample_is_the_sample(shared: bool) -> None:
    """Fault N5: tokens in = tokens out, boundaries recorded; masks and log-probs sit at their tokens."""
    batch = pack_samples(GROUPS, share_prompts=shared)
    assert batch.rows == len(GROUPS)
    for row, given_sample in enumerate(GROUPS):
        assert sequence(batch, row) == given_sample.tokens_T.tolist()
        mine = batch.row_T == row
        policy = mine & batch.token_columns["policy_mask"]
        assert batch.tokens_T[policy].tolist() == given_sample.tokens_T[given_sample.policy_mask_T].tolist()
        expected = given_sample.logprobs_T[given_sample.policy_mask_T]
        assert batch.token_columns["rollout_logprobs"][policy].tolist() == expected.tolist()
    assert np.isnan(batch.token_columns["rollout_logprobs"][~batch.token_columns["policy_mask"]]).all()
    assert batch.row_columns["group"].tolist() == [0, 0, 1, 0, 1]
    assert batch.row_columns["unit"].tolist() == [0, 1, 2, 3, 4]
    assert batch.row_columns["valid"].all()


def test_a_shared_prompt_is_stored_once_and_only_inside_its_group() -> None:
    batch = pack_samples(GROUPS, share_prompts=True)
    assert batch.tokens == pack_samples(GROUPS).tokens - 2 * 3
    assert (batch.segments_S3[:, 2] >= 0).sum() == 3
    twins = [sample([5, 6], [9], group="a"), sample([5, 6], [9], group="b")]
    assert pack_samples(twins, share_prompts=True).tokens == 6


def test_a_multi_turn_sample_shares_only_what_precedes_its_first_sampled_token() -> None:
    turns = sample([5, 6], [9, 7, 9], group="a")
    mask = np.array([False, False, True, False, True])
    logprobs = np.where(mask, np.float32(-1), np.float32(np.nan)).astype(np.float32)
    mixed = Sample(**{**{f: getattr(turns, f) for f in turns.__slots__}, "policy_mask_T": mask, "logprobs_T": logprobs})
    batch = pack_samples([mixed, sample([5, 6], [9], group="a", index=1)], share_prompts=True)
    assert batch.segments_S3.tolist() == [[0, 2, -1], [2, 5, 0], [5, 6, 0]]
    assert batch.token_columns["policy_mask"].tolist() == [False, False, True, False, True, True]


def test_rows_that_cannot_train_are_refused_by_name() -> None:
    """Fault A8: nothing with every label masked goes on, and the message names the row."""
    with pytest.raises(InputError, match="g/3 has an empty completion"):
        pack_samples([sample([5], [6]), sample([5, 6], [], index=3)])
    with pytest.raises(InputError, match="no prompt token"):
        pack_samples([sample([], [6])])
    with pytest.raises(InputError, match="row 1 has no token to train on"):
        pack_rows([([1, 2], [False, True]), ([1, 2], [False, False])])
    with pytest.raises(InputError, match="row 0 trains its first"):
        pack_rows([([1, 2], [True, True])])
    with pytest.raises(InputError, match="3 ids and 2 mask"):
        pack_rows([([1, 2, 3], [False, True])])
    row = ([1, 2], [False, True])
    with pytest.raises(InputError, match="pair 0 has equal chosen and rejected"):
        pack_pairs([(row, row)])


def test_pairs_lie_side_by_side_in_one_unit() -> None:
    batch = pack_pairs([(([1, 2], [False, True]), ([1, 3, 4], [False, True, True]))] * 2)
    assert batch.row_columns["unit"].tolist() == [0, 0, 1, 1]
    assert batch.row_columns["chosen"].tolist() == [True, False, True, False]


def test_one_batch_has_one_sampling_record() -> None:
    """Fault B1: samples of different distributions are never scored under one of them."""
    assert sampling_of(GROUPS) == SAMPLING
    other = SamplingRecord(temperature=0.5, max_new_tokens=8, eos_ids=(2,))
    odd = Sample(**{**{f: getattr(GROUPS[0], f) for f in GROUPS[0].__slots__}, "sampling": other})
    with pytest.raises(InputError, match="one sampling record, got 2"):
        sampling_of([*GROUPS, odd])


LENGTHS = st.lists(st.integers(2, 20), min_size=1, max_size=30)


def covered_once(parts: list[np.ndarray], batch: PackedBatch) -> None:
    assert sorted(np.concatenate(parts).tolist()) == list(range(batch.rows))
    unit_R = batch.row_columns["unit"]
    for part in parts:
        assert part.tolist() == sorted(part.tolist())
        assert not set(unit_R[part].tolist()) & {u for p in parts if p is not part for u in unit_R[p].tolist()}


@given(LENGTHS, st.integers(1, 40), st.data())
def test_micro_batches_cover_each_row_once_within_the_budget(
    lengths: list[int], budget: int, data: st.DataObject
) -> None:
    """Fault J5: no empty micro-batch, an oversize unit alone, units whole, every row once. Fault N5: nothing is cut."""
    units = data.draw(st.lists(st.integers(0, 8), min_size=len(lengths), max_size=len(lengths)))
    batch = with_units(lengths, units)
    parts = micro_batches(batch, budget)
    covered_once(parts, batch)
    for part in parts:
        assert len(part)
        assert batch.select(part).tokens <= budget or len(set(batch.row_columns["unit"][part].tolist())) == 1
    tokens = Counter(batch.tokens_T.tolist())
    assert sum((Counter(batch.select(part).tokens_T.tolist()) for part in parts), Counter()) == tokens
    assert [p.tolist() for p in parts] == [p.tolist() for p in micro_batches(batch, budget)]


def test_an_oversize_row_stands_alone() -> None:
    """Fault J5: budget 10 with a row of 12, first, in the middle and last."""
    assert [p.tolist() for p in micro_batches(rows_of([12, 4, 4]), 10)] == [[0], [1, 2]]
    assert [p.tolist() for p in micro_batches(rows_of([4, 12, 4]), 10)] == [[0, 2], [1]]
    assert [p.tolist() for p in micro_batches(rows_of([4, 4, 12]), 10)] == [[0, 1], [2]]
    assert micro_batches(rows_of([4]).select([]), 10) == []


@given(st.integers(1, 60))
def test_a_shared_prompt_counts_once_in_each_micro_batch(budget: int) -> None:
    batch = pack_samples(GROUPS * 3, share_prompts=True)
    parts = micro_batches(batch, budget)
    covered_once(parts, batch)
    assert all(batch.select(part).tokens <= budget or len(part) == 1 for part in parts)


@given(LENGTHS, st.integers(1, 9), st.integers(0, 5), st.data())
def test_minibatches_cover_each_row_once_in_even_parts(
    lengths: list[int], count: int, seed: int, data: st.DataObject
) -> None:
    """Fault J5: 7 rows in 2 minibatches are all trained once."""
    units = data.draw(st.lists(st.integers(0, 8), min_size=len(lengths), max_size=len(lengths)))
    batch = with_units(lengths, units)
    parts = minibatches(batch, count, np.random.default_rng(seed))
    assert len(parts) == count
    covered_once(parts, batch)
    sizes = [len(set(batch.row_columns["unit"][part].tolist())) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    again = minibatches(batch, count, np.random.default_rng(seed))
    assert [p.tolist() for p in parts] == [p.tolist() for p in again]


@given(LENGTHS, st.integers(1, 6), st.data())
def test_dp_shards_cover_each_row_once_in_even_parts(lengths: list[int], ranks: int, data: st.DataObject) -> None:
    """Fault J5: 5 rows over 4 ranks are 2, 1, 1, 1, never 2, 2, 1, 0."""
    units = data.draw(st.lists(st.integers(0, 8), min_size=len(lengths), max_size=len(lengths)))
    batch = with_units(lengths, units)
    shards = split_dp(batch, ranks)
    assert len(shards) == ranks
    covered_once(shards, batch)
    sizes = [len(set(batch.row_columns["unit"][shard].tolist())) for shard in shards]
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) > 0 or len(set(units)) < ranks


def test_dp_shards_are_balanced_by_tokens() -> None:
    assert sorted(len(s) for s in split_dp(rows_of([2] * 5), 4)) == [1, 1, 1, 2]
    batch = rows_of([20, 19, 3, 2])
    assert sorted(batch.select(shard).tokens for shard in split_dp(batch, 2)) == [22, 22]


@settings(max_examples=20)
@given(LENGTHS)
def test_selecting_all_rows_is_the_batch(lengths: list[int]) -> None:
    batch = rows_of(lengths)
    again = batch.select(range(batch.rows))
    assert again.tokens_T.tolist() == batch.tokens_T.tolist()
    assert again.segments_S3.tolist() == batch.segments_S3.tolist()
