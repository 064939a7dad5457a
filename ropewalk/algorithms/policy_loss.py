"""The clipped policy term, per token, to be minimised."""

from typing import NamedTuple

import torch
from torch import Tensor

from ropewalk.algorithms.masked import extrema, means
from ropewalk.records.metric import Metrics


class PolicyTerms(NamedTuple):
    """Per-token terms (T,) and what the clip did to them."""

    loss_T: Tensor
    ratio_T: Tensor
    clipped_T: Tensor
    """Bools: the clip took the gradient away."""


def clipped_policy_terms(
    logprobs_T: Tensor, old_logprobs_T: Tensor | None, advantages_T: Tensor, *, clip_low: float, clip_high: float
) -> PolicyTerms:
    """−min(ρ A, clip(ρ, 1 − clip_low, 1 + clip_high) A) with ρ = exp(log π − log π_old).

    Schulman et al. 2017, "Proximal policy optimization algorithms", eq. 7 (maximised there); clip_high > clip_low is
    DAPO's clip-higher. Without old log-probs the batch is on-policy and ρ = exp(log π − stop_gradient(log π)):
    exactly 1, with the policy gradient as its gradient. The clip zeroes gradients; it does not bound ρ, and for
    A < 0 a large ρ is not clipped at all.
    """
    old_T = logprobs_T.detach() if old_logprobs_T is None else old_logprobs_T
    ratio_T = torch.exp(logprobs_T - old_T)
    free_T = ratio_T * advantages_T
    bounded_T = ratio_T.clamp(1 - clip_low, 1 + clip_high) * advantages_T
    return PolicyTerms(-torch.minimum(free_T, bounded_T), ratio_T, (bounded_T < free_T).detach())


def policy_metrics(terms: PolicyTerms, mask_T: Tensor) -> Metrics:
    """Clip fraction, ratio and `approximate_kl` = mean ρ − 1 − log ρ: KL(π_old‖π) in nats per token."""
    ratio_T = terms.ratio_T.detach()
    shown = {
        "clip_fraction": terms.clipped_T.to(ratio_T.dtype),
        "ratio": ratio_T,
        "approximate_kl": ratio_T - 1 - torch.log(ratio_T),
    }
    return {**means(shown, mask_T), **extrema("ratio", ratio_T, mask_T)}
