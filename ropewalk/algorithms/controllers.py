"""Controllers of the KL coefficient: pure functions of a state that is one number and goes into the checkpoint."""

import math
from dataclasses import dataclass
from typing import TypeAlias

from ropewalk.algorithms.config import KLReward

ERROR_LIMIT = 0.2
"""The proportional error is clipped to ±0.2, as in Ziegler et al. 2019."""


@dataclass(frozen=True, slots=True)
class KLState:
    """The coefficient in force, β."""

    coefficient: float

    def to_json(self) -> dict[str, float]:
        return {"coefficient": self.coefficient}

    @staticmethod
    def from_json(raw: dict[str, float]) -> "KLState":
        return KLState(float(raw["coefficient"]))


@dataclass(frozen=True, slots=True)
class FixedKL:
    """β stays what the recipe says."""

    coefficient: float

    def start(self) -> KLState:
        return KLState(self.coefficient)

    def update(self, state: KLState, kl_nats_per_sequence: float, sequences: int) -> KLState:
        return state


@dataclass(frozen=True, slots=True)
class AdaptiveKL:
    """β ← β · (1 + clip(KL / target − 1, ±0.2) · min(sequences / horizon, 1)).

    Ziegler et al. 2019, "Fine-tuning language models from human preferences", section 2.2, with the gain written as
    sequences / horizon (as TRL does; from memory, unverified), here at most 1: from a gain of 5 on a step would
    turn β negative, a reward for leaving the reference. An iteration without a measured KL (NaN) moves nothing.
    """

    coefficient: float
    """The first β."""
    target_nats_per_sequence: float
    horizon_sequences: float

    def start(self) -> KLState:
        return KLState(self.coefficient)

    def update(self, state: KLState, kl_nats_per_sequence: float, sequences: int) -> KLState:
        if math.isnan(kl_nats_per_sequence):
            return state
        error = kl_nats_per_sequence / self.target_nats_per_sequence - 1
        error = min(max(error, -ERROR_LIMIT), ERROR_LIMIT)
        return KLState(state.coefficient * (1 + error * min(sequences / self.horizon_sequences, 1.0)))


Controller: TypeAlias = FixedKL | AdaptiveKL


def controller(kl: KLReward) -> Controller:
    """The controller that a KL in the reward asks for."""
    if kl.controller.kind == "fixed":
        return FixedKL(kl.coefficient)
    return AdaptiveKL(
        coefficient=kl.coefficient,
        target_nats_per_sequence=kl.controller.target_nats_per_sequence,
        horizon_sequences=kl.controller.horizon_sequences,
    )
