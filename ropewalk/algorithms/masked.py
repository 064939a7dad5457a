"""The one masked reducer: positions outside the mask may hold anything, and change nothing.

Values are *selected*, never multiplied by a mask (0 · NaN is NaN), and selected before any arithmetic, so
that the backward pass is as blind to them as the forward pass.
"""

from collections.abc import Mapping
from typing import TypeAlias

import torch
from torch import Tensor

from ropewalk.algorithms.config import Unfinished
from ropewalk.records.metric import Metric, Metrics

Columns: TypeAlias = Mapping[str, Tensor]
"""Token columns (T,), row columns (R,) and `row_T`, the row of each token (-1 in a shared prompt)."""


def select(values: Tensor, mask: Tensor) -> Tensor:
    """`values` where `mask`, exactly 0 elsewhere; no gradient reaches the rest."""
    return torch.where(mask, values, values.new_zeros(()))


def masked_sum(values: Tensor, mask: Tensor) -> Tensor:
    """Σ over the mask, a scalar; 0 (with a zero gradient) over an empty one."""
    return select(values, mask).sum()


def rows_in(columns: Columns) -> int:
    """R: from `valid` where it is given, otherwise the highest row number of any token."""
    if "valid" in columns:
        return len(columns["valid"])
    row_T = columns["row_T"]
    return int(row_T.max()) + 1 if len(row_T) else 0


def judged_rows(columns: Columns) -> Tensor:
    """valid_R: rows with an outcome. Without the column every row is one (demonstrations)."""
    if "valid" in columns:
        return columns["valid"].bool()
    return torch.ones(rows_in(columns), dtype=torch.bool, device=columns["row_T"].device)


def trained_rows(columns: Columns, unfinished: Unfinished) -> Tensor:
    """R bools: rows that train. A masked unfinished row is as if it had never been sampled."""
    valid_R = judged_rows(columns)
    return valid_R & columns["finished"].bool() if unfinished.kind == "mask" else valid_R


def in_rows(rows_R: Tensor, columns: Columns) -> Tensor:
    """T bools: policy tokens of the given rows."""
    row_T = columns["row_T"]
    if not len(rows_R):
        return torch.zeros_like(row_T, dtype=torch.bool)
    return columns["policy_mask"].bool() & (row_T >= 0) & rows_R[row_T.clamp(min=0)]


def trained_tokens(columns: Columns, unfinished: Unfinished) -> Tensor:
    """T bools: the policy tokens of rows that train. Every numerator and denominator starts here."""
    return in_rows(trained_rows(columns, unfinished), columns)


def per_row(values_T: Tensor, mask_T: Tensor, row_T: Tensor, rows: int) -> Tensor:
    """Σ_t of the masked tokens of each row, (R,)."""
    sums_R = values_T.new_zeros(rows)
    return sums_R.index_add(0, row_T[mask_T], values_T[mask_T])


def means(values: Mapping[str, Tensor], mask: Tensor) -> dict[str, Metric]:
    """Mean metrics over the mask, summed in float64 and read back in one transfer."""
    sums = [select(value.detach(), mask).sum(dtype=torch.float64) for value in values.values()]
    *totals, count = torch.stack([*sums, mask.sum(dtype=torch.float64)]).tolist()
    return {name: Metric.mean(total, count) for name, total in zip(values, totals, strict=True)}


def extrema(name: str, values: Tensor, mask: Tensor) -> Metrics:
    """`name_max` and `name_min` over the mask; neither over an empty one."""
    kept = values.detach()[mask]
    if not len(kept):
        return {}
    low, high = (float(bound) for bound in kept.aminmax())
    return {f"{name}_max": Metric.max(high), f"{name}_min": Metric.min(low)}
