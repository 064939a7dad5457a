"""The torch view of a packed batch keeps every name of the batch, and refuses what has no tokens."""

import numpy as np
import pytest
import torch

from ropewalk.models.packed import token_batch
from ropewalk.records.errors import InputError
from ropewalk.records.packed import PackedBatch
from tests.models.stock import pack, pack_group


def test_columns_are_those_of_the_batch() -> None:
    packed = pack_group([5, 6, 2], [[7, 8], [9], [7, 8]])
    batch = token_batch(packed)
    assert batch.tokens_T.tolist() == packed.tokens_T.tolist()
    assert batch.positions_T.tolist() == packed.positions_T.tolist() == [0, 1, 2, 3, 4, 3, 3, 4, 0, 1, 2, 3, 4]
    assert batch.predecessor_T.tolist() == packed.predecessor_T.tolist()
    assert batch.last_token_R.tolist() == packed.last_token_R.tolist()
    assert batch.row_T.tolist() == packed.row_T.tolist()
    assert batch.mask_T.tolist() == (packed.predecessor_T >= 0).tolist()
    assert batch.longest_tokens == 5
    assert (batch.tokens, batch.rows) == (13, 4)


def test_order_and_inverse_undo_each_other() -> None:
    batch = token_batch(pack([[1, 2, 3], [4], [5, 6, 7], [8]]))
    assert batch.order_T is not None
    assert batch.tokens_T[batch.order_T].tolist() == [4, 8, 1, 2, 3, 5, 6, 7]
    assert torch.equal(batch.tokens_T[batch.order_T][batch.inverse_T], batch.tokens_T)
    assert [(bucket.segments, bucket.own) for bucket in batch.layout.buckets] == [(2, 1), (2, 3)]


def test_sorted_rows_need_no_reordering() -> None:
    batch = token_batch(pack([[1], [2, 3], [4, 5]]))
    assert batch.order_T is None and batch.inverse_T is None


def test_empty_answer_ends_where_its_prompt_ends() -> None:
    packed = PackedBatch(np.array([1, 2, 3], np.int64), np.array([(0, 2, -1), (2, 2, 0), (2, 3, 0)], np.int64))
    assert token_batch(packed).last_token_R.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("tokens", "segments", "says"),
    [
        ([], [], "without tokens"),
        ([1], [(0, 1, -1), (1, 1, -1)], "row 1 of a packed batch has no tokens"),
        ([1, 2], [(0, 1, -1)], "cover its tokens"),
    ],
)
def test_refusals(tokens: list[int], segments: list[tuple[int, int, int]], says: str) -> None:
    packed = PackedBatch(np.array(tokens, np.int64), np.array(segments, np.int64).reshape(-1, 3))
    with pytest.raises(InputError, match=says):
        token_batch(packed)
