"""How many parameters of a model lie on one rank, and how many ranks hold the same ones.

    dense ones       P / (tp pp), held by dp ranks
    routed experts   P / (lcm(tp, ep) pp), held by dp tp / lcm(tp, ep) ranks

Where the layers do not divide by pp this is the stage with most of them.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from ropewalk.plan.shape import ModelShape
from ropewalk.planner.estimate.work import Strategy


@dataclass(frozen=True, slots=True)
class Split:
    """Parameters on one rank."""

    dense: float
    experts: float
    dense_copies: int
    """dp ranks that hold the same."""
    expert_copies: int
    layers: int
    """Of one stage."""

    @property
    def parameters(self) -> float:
        return self.dense + self.experts

    @property
    def copies(self) -> tuple[tuple[int, float], ...]:
        """(ranks that hold the same, parameters of theirs): one pair where experts lie as all else does."""
        if not self.experts or self.dense_copies == self.expert_copies:
            return ((self.dense_copies, self.parameters),)
        return ((self.dense_copies, self.dense), (self.expert_copies, self.experts))

    @property
    def shared(self) -> float:
        """Parameters on one rank when the ranks that hold the same share them."""
        return self.dense / self.dense_copies + self.experts / self.expert_copies


def split(shape: ModelShape, strategy: Strategy) -> Split:
    return _split(shape, strategy.dp, strategy.tp, strategy.pp, strategy.ep)


@lru_cache(maxsize=4096)
def _split(shape: ModelShape, dp: int, tp: int, pp: int, ep: int) -> Split:
    routed = shape.routed_parameters
    layers = -(-shape.layers // pp)
    fullest = layers * pp / shape.layers
    spread = math.lcm(tp, ep)
    return Split(
        dense=(shape.parameters - routed) * fullest / (tp * pp),
        experts=routed * fullest / (spread * pp),
        dense_copies=dp,
        expert_copies=max(1, dp * tp // spread),
        layers=layers,
    )
