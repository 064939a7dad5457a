"""Generalised advantage estimation on the compacted policy tokens of each row.

Prompt tokens, tool output and shared prompts are not steps: the list of a row's policy tokens is cut out, the
recursion runs on that list, and the result is scattered back. What stands at other positions cannot matter.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Compact(NamedTuple):
    """Where each policy token sits in a rows x steps table."""

    position_N: Tensor
    row_N: Tensor
    step_N: Tensor
    steps_R: Tensor
    """Policy tokens of each row."""

    def table(self, values_T: Tensor) -> Tensor:
        """(R, longest) float64, 0 beyond a row's end."""
        width = int(self.steps_R.max()) if len(self.steps_R) else 0
        table = torch.zeros(len(self.steps_R), width, dtype=torch.float64, device=values_T.device)
        table[self.row_N, self.step_N] = values_T[self.position_N].double()
        return table

    def scatter(self, table: Tensor, like_T: Tensor) -> Tensor:
        """Back to (T,) in the dtype of `like_T`, 0 at every other position."""
        out_T = torch.zeros_like(like_T)
        out_T[self.position_N] = table[self.row_N, self.step_N].to(like_T.dtype)
        return out_T


def compact(mask_T: Tensor, row_T: Tensor, rows: int) -> Compact:
    """Index of the masked tokens by (row, step); steps count in the order of the tokens."""
    position = torch.nonzero(mask_T).squeeze(-1)
    position = position[torch.argsort(row_T[position], stable=True)]
    row = row_T[position]
    steps_R = torch.bincount(row, minlength=rows)
    first_R = torch.cumsum(steps_R, 0) - steps_R
    step = torch.arange(len(position), device=mask_T.device) - first_R[row]
    return Compact(position, row, step, steps_R)


def at_last_token(rewards_R: Tensor, mask_T: Tensor, row_T: Tensor) -> Tensor:
    """A row's reward on the row's last policy token, 0 elsewhere, (T,). By the mask, never by a token id."""
    where = compact(mask_T, row_T, len(rewards_R))
    rewards_T = torch.zeros(len(mask_T), dtype=rewards_R.dtype, device=mask_T.device)
    last_N = where.step_N == where.steps_R[where.row_N] - 1
    rewards_T[where.position_N[last_N]] = rewards_R[where.row_N[last_N]]
    return rewards_T


def gae(
    rewards_T: Tensor, values_T: Tensor, mask_T: Tensor, row_T: Tensor, *, rows: int, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    """Advantages and returns, both (T,).

    Over the policy tokens of a row, with V after the last one 0 (an unfinished answer ends too):

        δ_t = r_t + γ V_{t+1} − V_t,    A_t = δ_t + γ λ A_{t+1},    R_t = A_t + V_t

    Schulman et al. 2016, "High-dimensional continuous control using generalized advantage estimation". The value at
    a token is the critic's prediction *before* the token is chosen. Computed in float64, returned in the dtype of
    `values_T`.
    """
    where = compact(mask_T, row_T, rows)
    rewards, values = where.table(rewards_T), where.table(values_T)
    after = torch.cat([values[:, 1:], values.new_zeros(rows, 1)], 1) if values.shape[1] else values
    deltas = rewards + gamma * after - values
    advantages = torch.zeros_like(deltas)
    running = deltas.new_zeros(rows)
    for step in range(deltas.shape[1] - 1, -1, -1):
        running = deltas[:, step] + gamma * lam * running
        advantages[:, step] = running
    return where.scatter(advantages, values_T), where.scatter(advantages + values, values_T)
