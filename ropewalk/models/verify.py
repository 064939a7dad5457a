"""Does packed attention carry this architecture? A few tokens, run stock and packed, must give the same logits.

This finds what no list of architectures can: attention outside the shared interface (ALiBi), mixing layers that
are not attention (convolutions, recurrences), logits that are scaled after the head.
"""

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from ropewalk.models.attention import LayoutMissing
from ropewalk.models.network import Network
from ropewalk.models.packed import token_batch
from ropewalk.records.errors import InputError
from ropewalk.records.packed import PackedBatch

_STEM, _TAILS = 3, ((5, 6, 7, 8), (9, 10))
"""Tokens of a shared prompt, and the two continuations."""
_TOLERANCE, _ROUGH = 5e-4, 8e-2
"""Largest difference of an output, as a share of the largest: in float32, and in half precision."""


def _sequences(vocabulary: int) -> list[list[int]]:
    return [[i * 7 % vocabulary for i in (*range(1, 1 + _STEM), *tail)] for tail in _TAILS]


@torch.no_grad()
def stock_logits(causal_lm: PreTrainedModel) -> list[Tensor]:
    """Logits (T, V) of the probe sequences, each alone, by the model's own attention."""
    return [causal_lm(input_ids=ids, use_cache=False).logits[0] for ids in _inputs(causal_lm)]


@torch.no_grad()
def stock_hidden(model: PreTrainedModel) -> list[Tensor]:
    """Last hidden states (T, D) of the same, for a model without a language-model head."""
    return [model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0] for ids in _inputs(model)]


def _inputs(model: PreTrainedModel) -> list[Tensor]:
    device = next(model.parameters()).device
    return [torch.tensor([ids], device=device) for ids in _sequences(model.config.vocab_size)]


@torch.no_grad()
def verify(network: Network, expected: list[Tensor]) -> None:
    """Raises `InputError` unless the packed probe sequences, with and without a shared prompt, give `expected`.

    `expected` are stock logits for a network with a policy head, else stock hidden states.
    """
    name = network.architecture.causal_class
    first, second = _sequences(network.vocabulary_size)
    ends = np.cumsum([_STEM, len(_TAILS[0]), len(_TAILS[1]), len(first)])
    packed = PackedBatch(
        tokens_T=np.array([*first, *second[_STEM:], *first], np.int64),
        segments_S3=np.array([(0, ends[0], -1), (ends[0], ends[1], 0), (ends[1], ends[2], 0), (ends[2], ends[3], -1)]),
    )
    try:
        hidden_TD = network.hidden(token_batch(packed, network.device))
    except (TypeError, LayoutMissing) as error:
        raise InputError(
            f"{name} does not hand keywords on to its attention layers: it cannot be run packed"
        ) from error
    found = hidden_TD if network.lm_head is None else network.logits(hidden_TD)
    wanted = torch.cat([expected[0], expected[1][_STEM:], expected[0]]).float()
    worst = float((found.float() - wanted).abs().max() / wanted.abs().max())
    if not worst <= (_TOLERANCE if found.dtype == torch.float32 else _ROUGH):
        raise InputError(
            f"{name} gives other outputs when run packed (relative difference {worst:.1g}): its attention, its layers "
            "or its head do more than ropewalk carries; take a plain decoder such as Llama, Qwen, Mistral or GPT-2"
        )
