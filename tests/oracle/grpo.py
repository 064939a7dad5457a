"""Slow reading of GRPO's advantage: Shao et al. 2024, "DeepSeekMath", outcome supervision: (r − mean) / std of the
group. The paper does not say which std; n − 1 is TRL's (from memory, unverified). The clipped term is PPO's."""

import math


def advantages(rewards: list[float], *, baseline: str, scale: str, eps: float) -> list[float]:
    """Of one group's valid samples."""
    n = len(rewards)
    if n < 2 or max(rewards) == min(rewards):
        return [0.0] * n
    mean = sum(rewards) / n
    std = math.sqrt(sum((r - mean) ** 2 for r in rewards) / (n - 1))
    found = []
    for i, reward in enumerate(rewards):
        others = [r for j, r in enumerate(rewards) if j != i]
        centre = mean if baseline == "mean" else sum(others) / len(others)
        found.append((reward - centre) / (std + eps) if scale == "std" else reward - centre)
    return found
