"""How per-token terms become one number. A loss term is Σ_t w_t · v_t / N with one global N per optimiser step.

    token      w = 1                      N = trained tokens
    sequence   w = 1 / tokens of the row  N = trained rows             (GRPO as in DeepSeekMath)
    constant   w = 1                      N = length_tokens · trained rows   (Dr. GRPO: length from the config)

A trained row has at least one trained token. N is additive over rows, so any split into micro-batches and ranks
that keeps rows whole gives the same sum and the same N. Rows whose advantage is 0 stay in N.
"""

import torch
from torch import Tensor

from ropewalk.algorithms.config import Reduction


def row_tokens(mask_T: Tensor, row_T: Tensor, rows: int) -> Tensor:
    """Masked tokens of each row, (R,) int."""
    return torch.bincount(row_T[mask_T], minlength=rows)


def token_weights(
    reduction: Reduction, row_T: Tensor, mask_T: Tensor, rows: int, *, dtype: torch.dtype = torch.float32
) -> Tensor:
    """w_T, exactly 0 outside the mask. `mask_T` is True only inside rows (`row_T` >= 0)."""
    if reduction.kind != "sequence":
        return mask_T.to(dtype)
    weights_T = torch.zeros(len(row_T), dtype=dtype, device=row_T.device)
    weights_T[mask_T] = 1 / row_tokens(mask_T, row_T, rows).to(dtype)[row_T[mask_T]]
    return weights_T


def count(reduction: Reduction, row_T: Tensor, mask_T: Tensor, rows: int) -> float:
    """This part's share of N."""
    if reduction.kind == "token":
        return float(mask_T.sum())
    trained = float((row_tokens(mask_T, row_T, rows) > 0).sum())
    return trained * reduction.length_tokens if reduction.kind == "constant" else trained
