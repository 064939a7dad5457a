"""Slow readings of the two supervised losses: negative log-likelihood, and Bradley and Terry's (1952) likelihood."""

import math


def nll(logprobs: list[float]) -> list[float]:
    return [-logprob for logprob in logprobs]


def bradley_terry(pairs: list[tuple[float, float]]) -> float:
    """Mean over (chosen, rejected) scores; to be minimised."""
    total = 0.0
    for chosen, rejected in pairs:
        total += math.log(1 + math.exp(rejected - chosen))
    return total / len(pairs)
