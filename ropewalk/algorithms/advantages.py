"""Baselines and scales of advantages: group statistics by explicit group id, whitening by mergeable moments.

A row's group advantage depends on (group id, rewards of the group's valid rows) and on nothing else: not on
order, position, micro-batch or rank.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ropewalk.algorithms.config import GroupBaseline, GroupScale
from ropewalk.algorithms.masked import select

STD_EPS = 1e-6
"""Added to a group's standard deviation. (DeepSeekMath writes none; TRL adds 1e-4.) Equal rewards give exactly 0."""


class Groups(NamedTuple):
    """Per-row statistics of the row's group, over its valid rows."""

    size_R: Tensor
    mean_R: Tensor
    std_R: Tensor
    """Sample standard deviation (n − 1)."""
    flat_R: Tensor
    """Bools: fewer than two valid rows, or all of them equal: no signal."""


def group_statistics(rewards_R: Tensor, group_R: Tensor, valid_R: Tensor) -> Groups:
    """Statistics of each row's group in float64; rewards of invalid rows may hold anything."""
    rewards_R = select(rewards_R.double(), valid_R)
    ids, index_R = torch.unique(group_R, return_inverse=True)
    size = rewards_R.new_zeros(len(ids)).index_add(0, index_R, valid_R.double())
    mean = rewards_R.new_zeros(len(ids)).index_add(0, index_R, rewards_R) / size.clamp(min=1)
    spread_R = select((rewards_R - mean[index_R]).square(), valid_R)
    std = (rewards_R.new_zeros(len(ids)).index_add(0, index_R, spread_R) / (size - 1).clamp(min=1)).sqrt()
    kept = index_R[valid_R]
    low = torch.full_like(mean, torch.inf).scatter_reduce(0, kept, rewards_R[valid_R], "amin")
    high = torch.full_like(mean, -torch.inf).scatter_reduce(0, kept, rewards_R[valid_R], "amax")
    flat = (size < 2) | (low >= high)
    return Groups(size[index_R], mean[index_R], std[index_R], flat[index_R])


def group_advantages(
    rewards_R: Tensor, group_R: Tensor, valid_R: Tensor, *, baseline: GroupBaseline, scale: GroupScale
) -> Tensor:
    """Advantage of each row over its group, (R,); 0 for invalid rows and for groups without signal.

        baseline mean:            r − mean(group)           the own reward included, which scales by (n−1)/n
        baseline leave_one_out:   r − mean(the others)
        scale std:                … / (std_{n−1}(group) + 1e-6)

    Dividing by the std does not weigh prompts equally: for 0/1 rewards of success rate p it turns the objective
    Σ p into Σ 2·arcsin √p.
    """
    groups = group_statistics(rewards_R, group_R, valid_R)
    advantages_R = select(rewards_R.double(), valid_R) - groups.mean_R
    if baseline == "leave_one_out":
        advantages_R = advantages_R * groups.size_R / (groups.size_R - 1).clamp(min=1)
    if scale == "std":
        advantages_R = advantages_R / (groups.std_R + STD_EPS)
    return select(advantages_R, valid_R & ~groups.flat_R).to(rewards_R.dtype)


def task_advantages(advantages_R: Tensor, task_R: Tensor, valid_R: Tensor) -> Tensor:
    """Advantages in units of their task's own spread, (R,): tasks of large rewards do not drown those of small ones.

        A / std(A of the valid rows of the task),   std about 0: √(Σ A² / n)

    After task advantage normalisation (Zhang et al. 2025, AgentRL, arXiv 2510.04206), per row and without its shift:
    group advantages have mean 0 already, and a shift would give a group of equal rewards an advantage. Multiplying a
    task's advantages by c > 0 changes nothing; those of a task without spread stay 0.
    """
    kept_R = select(advantages_R.double(), valid_R)
    _, index_R = torch.unique(task_R, return_inverse=True)
    tasks = int(index_R.max()) + 1 if len(index_R) else 0
    count = kept_R.new_zeros(tasks).index_add(0, index_R, valid_R.double())
    # By the largest first: a square neither overflows nor vanishes.
    largest = kept_R.new_zeros(tasks).scatter_reduce(0, index_R, kept_R.abs(), "amax")
    scaled_R = select(kept_R / largest[index_R], largest[index_R] > 0)
    spread = (kept_R.new_zeros(tasks).index_add(0, index_R, scaled_R.square()) / count.clamp(min=1)).sqrt()
    return select(scaled_R / spread[index_R], (largest[index_R] > 0) & valid_R).to(advantages_R.dtype)


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, mean and sum of squared deviations: merges exactly over any split, an empty part included."""

    count: float
    mean: float
    squares: float

    def merge(self, other: "Moments") -> "Moments":
        """Chan et al. 1979."""
        count = self.count + other.count
        if not count:
            return self
        gap = other.mean - self.mean
        mean = self.mean + gap * other.count / count
        return Moments(count, mean, self.squares + other.squares + gap * gap * self.count * other.count / count)

    @property
    def std(self) -> float:
        """Sample standard deviation; 0 for fewer than two values."""
        return float((self.squares / (self.count - 1)) ** 0.5) if self.count > 1 else 0.0


def moments(values: Tensor, mask: Tensor) -> Moments:
    """Moments of the masked values, in float64, without gradient."""
    kept = values.detach()[mask].double()
    if not len(kept):
        return Moments(0.0, 0.0, 0.0)
    mean = float(kept.mean())
    return Moments(float(len(kept)), mean, float((kept - mean).square().sum()))


def whitened(values: Tensor, mask: Tensor, whole: Moments) -> Tensor:
    """(v − mean) / std of the *whole* batch's moments at the mask, 0 elsewhere; all 0 when there is no spread."""
    if whole.std == 0:
        return torch.zeros_like(values)
    return select((values - whole.mean) / whole.std, mask)
