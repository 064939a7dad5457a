"""Slow reading of the KL estimators (Schulman 2020, "Approximating KL divergence"; from memory, unverified)."""

import math


def estimate(name: str, logprob: float, reference: float) -> float:
    ratio = math.exp(reference - logprob)
    if name == "k1":
        return -math.log(ratio)
    if name == "k2":
        return 0.5 * math.log(ratio) ** 2
    return (ratio - 1) - math.log(ratio)
