"""From many scores of a completion to one: over the members of an ensemble, and over the steps of a completion."""

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ropewalk.runtime.learned.config import Mean, MeanMinusStd, Min

Floats: TypeAlias = npt.NDArray[np.float64]


def spread(scores_RM: Floats) -> Floats:
    """Standard deviation over the members, divided by their number: what they disagree by, 0 for one."""
    found: Floats = scores_RM.std(axis=1)
    return found


def over_members(scores_RM: Floats, how: Mean | Min | MeanMinusStd) -> Floats:
    """One score a row (Coste et al. 2023, "Reward model ensembles help mitigate overoptimization")."""
    # Sorted, so that the order of the members changes no bit of the sums; + 0.0, because -0.0 and 0.0 are in no order.
    ordered_RM = np.sort(scores_RM + 0.0, axis=1)
    match how:
        case Min():
            found: Floats = ordered_RM[:, 0]
        case MeanMinusStd(k=k):
            found = ordered_RM.mean(axis=1) - k * spread(ordered_RM)
        case Mean():
            found = ordered_RM.mean(axis=1)
    return found


def sigmoid(logits: Floats) -> Floats:
    """σ, without overflow on either side."""
    found: Floats = np.exp(-np.logaddexp(0.0, -logits))
    return found


def over_steps(values: Floats, how: Literal["min", "product", "last", "mean"]) -> float:
    """One number of a completion's step values, at least one."""
    match how:
        case "min":
            return float(values.min())
        case "product":
            return float(values.prod())
        case "last":
            return float(values[-1])
        case "mean":
            return float(values.mean())
