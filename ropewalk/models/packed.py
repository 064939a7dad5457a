"""The torch view of a `PackedBatch`: index tensors made once, used by every layer and head.

Inside the network tokens lie sorted by (parent length, own length), so that segments of one size are neighbours
and attention needs no gathering; outside (every `_T` tensor) they lie as in the `PackedBatch`.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ropewalk.models.attention import Bucket, PackedLayout
from ropewalk.records.errors import InputError
from ropewalk.records.packed import Ints, PackedBatch


@dataclass(frozen=True)
class TokenBatch:
    """`T` tokens in `R` rows on one device; `N` of the tokens are to be described by log-probs or values."""

    tokens_T: Tensor
    positions_T: Tensor
    predecessor_T: Tensor
    """Position whose hidden state predicts each token; -1 at the first token of a root."""
    last_token_R: Tensor
    row_T: Tensor
    """Row number of each token; -1 in a shared prompt."""
    mask_T: Tensor
    """Tokens to describe: the column `policy_mask` if there is one, else all; never one without predecessor."""
    target_N: Tensor
    """Positions where `mask_T` holds, ascending."""
    source_N: Tensor
    """`predecessor_T[target_N]`."""
    layout: PackedLayout
    order_T: Tensor | None
    """Position of the i-th token inside the network; None where it is the identity."""
    inverse_T: Tensor | None
    longest_tokens: int
    """Length of the longest sequence, its parent counted."""

    @property
    def tokens(self) -> int:
        return len(self.tokens_T)

    @property
    def rows(self) -> int:
        return len(self.last_token_R)


def token_batch(packed: PackedBatch, device: torch.device | str = "cpu") -> TokenBatch:
    """The index tensors of a batch. Raises `InputError` for a batch without tokens or a row without any."""
    if packed.tokens == 0:
        raise InputError("a packed batch without tokens cannot be run: drop empty rows before packing")
    layout, order = _layout(packed.segments_S3, device)
    if len(order) != packed.tokens or packed.tokens != packed.segments_S3[:, 1].max():
        raise InputError("the segments of a packed batch must cover its tokens exactly once")
    predecessor = packed.predecessor_T
    mask = np.asarray(packed.token_columns.get("policy_mask", np.ones(packed.tokens)), np.bool_) & (predecessor >= 0)
    target = np.flatnonzero(mask)
    positions = packed.positions_T
    identical = bool((order == np.arange(len(order))).all())

    def tensor(array: Ints) -> Tensor:
        return torch.from_numpy(np.array(array)).to(device)  # a copy: numpy views may be read-only

    return TokenBatch(
        tokens_T=tensor(packed.tokens_T),
        positions_T=tensor(positions),
        predecessor_T=tensor(predecessor),
        last_token_R=tensor(_last_tokens(packed)),
        row_T=tensor(packed.row_T),
        mask_T=torch.from_numpy(mask).to(device),
        target_N=tensor(target),
        source_N=tensor(predecessor[target]),
        layout=layout,
        order_T=None if identical else tensor(order),
        inverse_T=None if identical else tensor(np.argsort(order, kind="stable")),
        longest_tokens=int(positions.max()) + 1,
    )


def _last_tokens(packed: PackedBatch) -> Ints:
    """A child without own tokens (an answer that is empty) ends where its parent ends."""
    own = packed.segments_S3[packed.row_segments_R]
    parents = np.where(own[:, 2] >= 0, packed.segments_S3[own[:, 2], 1], -1)
    last: Ints = np.where(own[:, 1] > own[:, 0], own[:, 1], parents) - 1
    if (last < 0).any():
        raise InputError(f"row {int(np.argmax(last < 0))} of a packed batch has no tokens: drop it before packing")
    return last


def _layout(segments_S3: Ints, device: torch.device | str) -> tuple[PackedLayout, Ints]:
    """Buckets, and the order in which they hold the tokens."""
    start, own = segments_S3[:, 0], segments_S3[:, 1] - segments_S3[:, 0]
    parent = segments_S3[:, 2]
    stem = np.where(parent >= 0, own[parent], 0)
    used = np.flatnonzero(own > 0)
    chosen = used[np.lexsort((used, own[used], stem[used]))]
    order = np.concatenate([np.arange(start[s], start[s] + own[s]) for s in chosen])
    place = np.empty(int(segments_S3[:, 1].max()), np.int64)
    place[order] = np.arange(len(order))
    cuts = np.flatnonzero((np.diff(own[chosen]) != 0) | (np.diff(stem[chosen]) != 0)) + 1
    buckets, gathered = [], []
    for members in np.split(chosen, cuts):
        length, before = int(own[members[0]]), int(stem[members[0]])
        if before == 0:
            buckets.append(Bucket(len(members), length))
            continue
        stems, starts = start[parent[members]][:, None], start[members][:, None]
        gathered.append(place[np.concatenate([stems + np.arange(before), starts + np.arange(length)], 1)].reshape(-1))
        mask = torch.ones(length, before + length, dtype=torch.bool).tril(before)
        buckets.append(Bucket(len(members), length, before, mask.to(device)))
    index = torch.from_numpy(np.concatenate(gathered)).to(device) if gathered else None
    return PackedLayout(tuple(buckets), int(own[stem == 0].sum()), index), order
