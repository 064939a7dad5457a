"""The critic's squared error, per token, to be minimised; and how much of the returns' variance it explains."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ropewalk.algorithms.config import ValueClip
from ropewalk.algorithms.masked import means
from ropewalk.records.metric import Metrics


class ValueTerms(NamedTuple):
    """Per-token terms (T,)."""

    loss_T: Tensor
    clipped_T: Tensor
    """Bools: the clipped error was the larger one, so no gradient flows."""


def value_terms(values_T: Tensor, old_values_T: Tensor, returns_T: Tensor, clip: ValueClip) -> ValueTerms:
    """½ (V − R)², or with clipping ½ max((V − R)², (V_old + clamp(V − V_old, ±range) − R)²).

    The clipped form is that of the OpenAI baselines PPO code (from memory, unverified); it is not in the PPO paper.
    """
    error_T = (values_T - returns_T).square()
    if clip.kind == "none":
        return ValueTerms(0.5 * error_T, torch.zeros_like(error_T, dtype=torch.bool))
    near_T = old_values_T + (values_T - old_values_T).clamp(-clip.range, clip.range)
    bounded_T = (near_T - returns_T).square()
    return ValueTerms(0.5 * torch.maximum(error_T, bounded_T), (bounded_T > error_T).detach())


def value_metrics(terms: ValueTerms, values_T: Tensor, returns_T: Tensor, mask_T: Tensor) -> Metrics:
    """Sums from which `explained_variance` follows, over any split; and the clip's share."""
    error_T = returns_T - values_T.detach()
    shown = {
        "value_error": error_T,
        "value_error_squared": error_T.square(),
        "value_mean": values_T,
        "return_mean": returns_T,
        "return_squared_mean": returns_T.square(),
        "value_clip_fraction": terms.clipped_T.to(error_T.dtype),
    }
    return means(shown, mask_T)


def explained_variance(metrics: Metrics) -> float:
    """1 − Var(R − V) / Var(R): 1 is a perfect critic, 0 no better than a constant; NaN when returns do not vary."""
    error = metrics["value_error_squared"].value - metrics["value_error"].value ** 2
    spread = metrics["return_squared_mean"].value - metrics["return_mean"].value ** 2
    return 1 - error / spread if spread > 0 else math.nan
