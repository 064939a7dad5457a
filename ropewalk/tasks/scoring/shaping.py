"""Potential-based shaping of the rewards along an episode (Ng, Harada & Russell 1999).

    r'ₜ = rₜ + γ Φ(sₜ₊₁) - Φ(sₜ),   with Φ = 0 where the episode ends

The return from step t changes by exactly -Φ(sₜ), which no later action can change: advantages, and with them which
policy is best, stay as they were, whatever Φ is. With any other value at the end than 0 this does not hold: the
difference would pay for where an episode ends.

It applies where an episode has rewards on its way (several turns). A sample with one reward at its end has one state
before it, its prompt: shaping would subtract Φ(prompt), a constant of the group, which a group baseline takes out.
"""

import numpy as np
import numpy.typing as npt

from ropewalk.records.errors import InputError

Floats = npt.NDArray[np.float64]


def shaped(rewards_T: npt.ArrayLike, potentials_T: npt.ArrayLike, *, gamma: float = 1.0) -> Floats:
    """The shaped rewards of one episode of T steps.

    `potentials_T` holds Φ of the state before each step; the state after the last has none. Raises InputError for
    unequal lengths, a number that is not finite, or a discount outside [0, 1].
    """
    rewards, potentials = np.asarray(rewards_T, np.float64), np.asarray(potentials_T, np.float64)
    if rewards.shape != potentials.shape or rewards.ndim != 1:
        raise InputError(
            f"shaping needs one potential before each step: there are {rewards.size} rewards and "
            f"{potentials.size} potentials"
        )
    if not (np.isfinite(rewards).all() and np.isfinite(potentials).all() and 0.0 <= gamma <= 1.0):
        raise InputError("shaping needs finite rewards and potentials, and a discount from 0 to 1")
    return rewards + gamma * np.append(potentials[1:], 0.0)[: rewards.size] - potentials
