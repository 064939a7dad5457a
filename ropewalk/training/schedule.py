"""Learning-rate factors, and the one place that says how many optimiser steps a run has.

The loop and the schedule both take their length from a `StepPlan`; no second formula exists.
"""

import math
from dataclasses import dataclass

from ropewalk.records.errors import InputError
from ropewalk.training.config import ConstantSchedule, CosineSchedule, Schedule


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The number of optimiser steps of a run."""

    total_steps: int

    def __post_init__(self) -> None:
        if self.total_steps < 1:
            raise InputError("a run needs at least one optimiser step: raise the iterations or give more rows")

    @staticmethod
    def iterations(iterations: int, *, epochs: int = 1, minibatches: int = 1) -> "StepPlan":
        """Each iteration sweeps its batch `epochs` times in `minibatches` steps."""
        return StepPlan(iterations * epochs * minibatches)

    @staticmethod
    def sweep(units: int, *, units_per_step: int, epochs: int) -> "StepPlan":
        """`epochs` passes over fixed data in windows that cross epoch ends; the last, partial window is a step too."""
        return StepPlan(math.ceil(units * epochs / units_per_step))


def lr_factor(step: int, total: int, schedule: Schedule) -> float:
    """Factor on the peak rate at 0-based `step` of `total`.

    Warm-up: (step + 1) / warmup_steps, so its last step is the peak. Decay starts from that step (step 0 without
    warm-up) and is exactly `final_fraction` at step total - 1 and after. A warm-up of `total` or more never decays.
    """
    if step < schedule.warmup_steps:
        return (step + 1) / schedule.warmup_steps
    if isinstance(schedule, ConstantSchedule):
        return 1.0
    peak = max(schedule.warmup_steps - 1, 0)
    if total - 1 <= peak:
        return 1.0
    done = min((step - peak) / (total - 1 - peak), 1.0)
    left = 0.5 * (1 + math.cos(math.pi * done)) if isinstance(schedule, CosineSchedule) else 1.0 - done
    return schedule.final_fraction + (1.0 - schedule.final_fraction) * left
