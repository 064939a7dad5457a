"""The one attention function: transformers models call it, a *layout* decides who attends to whom.

A layout travels as a keyword through the model's forward down to every attention layer. There are two kinds:
`PackedLayout` here (training: flat tokens, no padding) and the decode engine's slot cache. A model whose
attention needs more than query, key, value and scale (windows, soft caps, sinks) is refused, never approximated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface

from ropewalk.records.errors import InputError

ATTENTION_NAME = "ropewalk"
LAYOUT_KEYWORD = "attention_layout"

_UNSUPPORTED = {
    "sliding_window": "a sliding window",
    "softcap": "soft-capped attention scores",
    "s_aux": "attention sinks",
    "position_bias": "position biases",
}


class LayoutMissing(InputError):
    """An attention layer was reached without a layout."""


class AttentionLayout(Protocol):
    """Who attends to whom in one forward pass (`H` query heads, `K` key/value heads, `E` width of a head)."""

    def attend(
        self, module: nn.Module, query_BHTE: Tensor, key_BKTE: Tensor, value_BKTE: Tensor, scaling: float
    ) -> Tensor:
        """Attention output, shape (B, T, H, E); `module.layer_idx` numbers the layer."""
        ...


def scaled_attention(
    query_BHTE: Tensor,
    key_BKSE: Tensor,
    value_BKSE: Tensor,
    *,
    scaling: float,
    mask: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """softmax(scaling · q kᵀ + mask) v, grouped key/value heads repeated; shape (B, H, T, E).

    `mask` is boolean, True = may attend, broadcastable to (B, H, T, S).
    """
    grouped = query_BHTE.shape[1] // key_BKSE.shape[1]
    if grouped > 1 and mask is not None and query_BHTE.is_cuda:  # the fast masked kernels want equal head counts
        key_BKSE, value_BKSE = (x.repeat_interleave(grouped, 1) for x in (key_BKSE, value_BKSE))
    return functional.scaled_dot_product_attention(
        query_BHTE,
        key_BKSE,
        value_BKSE,
        attn_mask=mask,
        is_causal=causal,
        scale=scaling,
        enable_gqa=query_BHTE.shape[1] != key_BKSE.shape[1],
    )


@dataclass(frozen=True, slots=True)
class Bucket:
    """Neighbouring segments of equal own length and equal parent length: one batched attention call."""

    segments: int
    own: int
    """Tokens of each segment."""
    parent: int = 0
    """Tokens of each segment's parent; 0 for roots."""
    mask: Tensor | None = None
    """(own, parent + own): all of the parent, own tokens causally; None for roots."""

    @property
    def queries(self) -> int:
        return self.segments * self.own

    @property
    def keys(self) -> int:
        return self.segments * (self.parent + self.own)

    def attend(self, query_NHE: Tensor, key_NKE: Tensor, value_NKE: Tensor, scaling: float) -> Tensor:
        query = query_NHE.view(self.segments, self.own, *query_NHE.shape[1:])
        key, value = (x.view(self.segments, self.parent + self.own, *x.shape[1:]) for x in (key_NKE, value_NKE))
        out = scaled_attention(
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            scaling=scaling,
            mask=self.mask,
            causal=self.mask is None,
        )
        return out.transpose(1, 2).flatten(0, 1)


@dataclass(frozen=True)
class PackedLayout:
    """Segments isolated from each other but for their parents. Tokens lie in the order of the buckets, roots first."""

    buckets: Sequence[Bucket]
    roots: int
    """Tokens of root segments: the first ones."""
    child_index: Tensor | None = None
    """Places of keys and values for the children: for each its parent's tokens, then its own; None without children."""

    def attend(
        self, module: nn.Module, query_BHTE: Tensor, key_BKTE: Tensor, value_BKTE: Tensor, scaling: float
    ) -> Tensor:
        """The batch is 1: all tokens lie along T. Roots are split off, not indexed: their backward is one `cat`."""
        query, key, value = (x[0].transpose(0, 1) for x in (query_BHTE, key_BKTE, value_BKTE))
        queries = torch.split(query, [bucket.queries for bucket in self.buckets])
        pairs = zip(self._by_bucket(key), self._by_bucket(value), strict=True)
        out = [
            bucket.attend(query_NHE, key_NKE, value_NKE, scaling)
            for bucket, query_NHE, (key_NKE, value_NKE) in zip(self.buckets, queries, pairs, strict=True)
        ]
        return (out[0] if len(out) == 1 else torch.cat(out))[None]

    def _by_bucket(self, states_TKE: Tensor) -> list[Tensor]:
        sizes = [bucket.keys for bucket in self.buckets]
        if self.child_index is None:
            return list(torch.split(states_TKE, sizes))
        roots = sum(bucket.parent == 0 for bucket in self.buckets)
        children = states_TKE.index_select(0, self.child_index)
        return [*torch.split(states_TKE[: self.roots], sizes[:roots]), *torch.split(children, sizes[roots:])]


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **settings: object,
) -> tuple[Tensor, None]:
    """What transformers calls in every attention layer; `settings` are the architecture's own."""
    layout = settings.get(LAYOUT_KEYWORD)
    if layout is None:
        raise LayoutMissing(
            f"{type(module).__name__} was run without an attention layout: call the model through Network.hidden, "
            "or export it and load the folder with transformers"
        )
    for name, what in _UNSUPPORTED.items():
        if settings.get(name) is not None:
            raise InputError(
                f"{type(module).__name__} uses {what}, which packed attention does not compute: "
                "take a model with plain full attention"
            )
    if settings.get("dropout"):
        raise InputError(
            f"{type(module).__name__} is in train mode: ropewalk's networks stay in eval mode (no dropout)"
        )
    scaling = settings.get("scaling")
    scale = float(scaling) if isinstance(scaling, int | float) else query.shape[-1] ** -0.5
    attend: AttentionLayout = layout  # type: ignore[assignment]
    return attend.attend(module, query, key, value, scale), None


# Without a mask function of the same name transformers builds no mask at all, which is what a layout wants.
AttentionInterface.register(ATTENTION_NAME, _attend)
