"""Drawing tokens: one uniform number per (sample, token), turned into an id by the inverse distribution function.

A sample's numbers come from its own seed and token count alone, so neither batch-mates nor slots nor restarts
can change them; only round-off in the logits can, where a number lies within it of a boundary of the distribution.
"""

import torch
from torch import Tensor
from torch.nn import functional

from ropewalk.models.logprobs import chosen_logprobs, sampling_logits
from ropewalk.records.errors import RunStopped

_CDF_BLOCK = 128


def draw(
    logits_NV: Tensor, uniforms_N: Tensor, *, temperature: float, banned: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Ids (N,) and their log-probs (N,) float32 under the very distribution drawn from.

    That is softmax of `sampling_logits`. Temperature 0 takes the likeliest id that is not banned (the first of
    equals) and reports its log-prob at temperature 1. Raises `RunStopped` if the logits are not finite.
    """
    logits = sampling_logits(logits_NV, temperature, banned)
    ids_N = logits.argmax(-1) if temperature == 0 else inverse_cdf(torch.softmax(logits, -1), uniforms_N)
    logprobs_N = chosen_logprobs(logits, ids_N)
    if not bool(torch.isfinite(logprobs_N).all()):
        raise RunStopped("the policy's logits are not finite: its weights have diverged; resume from a checkpoint")
    return ids_N, logprobs_N


def inverse_cdf(probs_NV: Tensor, uniforms_N: Tensor) -> Tensor:
    """The smallest id whose cumulative probability exceeds u · total, sums in float64; never one of probability 0.

    Two levels (blocks of the vocabulary, then ids of one block), so that no running sum over V is needed.
    """
    rest = -probs_NV.shape[1] % _CDF_BLOCK
    padded_NV = functional.pad(probs_NV, (0, rest)) if rest else probs_NV
    blocks_NKB = padded_NV.view(len(padded_NV), -1, _CDF_BLOCK)
    upto_NK = blocks_NKB.sum(-1, dtype=torch.float64).cumsum(1)
    target_N1 = uniforms_N[:, None].to(torch.float64) * upto_NK[:, -1:]
    block_N1 = _first_above(upto_NK, target_N1)
    before_N1 = functional.pad(upto_NK, (1, 0)).gather(1, block_N1)
    inside_NB = blocks_NKB.gather(1, block_N1[:, :, None].expand(-1, 1, _CDF_BLOCK))[:, 0].double().cumsum(1)
    inside_N1 = _first_above(inside_NB, target_N1 - before_N1)
    return (block_N1 * _CDF_BLOCK + inside_N1)[:, 0].clamp(max=probs_NV.shape[1] - 1)


def _first_above(cumulative: Tensor, target: Tensor) -> Tensor:
    """First index whose sum is above the target; where rounding leaves none, the last one that adds anything.

    Either way the sum grows at the index found, so its probability is not 0. (Sums that are NaN give some index.)
    """
    found = torch.searchsorted(cumulative, target, right=True)
    last = torch.searchsorted(cumulative, cumulative[:, -1:].contiguous(), right=False)
    return torch.minimum(found, last).clamp(max=cumulative.shape[1] - 1)
