"""The alarm on the first ratio: before any update, engine and trainer must give every sampled token the same log-prob.

The ratio of the first step is 1 by construction, so a difference would not show there: it would bias every later
one. Held against it is what was recorded: the log-probs the engine sampled from, and the column old_logprobs.
"""

from collections.abc import Mapping

from ropewalk.models.config import FolderModel
from ropewalk.records.metric import Metric
from ropewalk.runtime.recipe import OnlineRecipe

TOLERANCE = 1e-3
"""Largest difference of a log-prob in float32: round-off stays under 1e-4, a real fault is far above."""
MENDS = {
    "engine/logprob_gap_max": "the engine sampled from other weights or another distribution than the one trained: "
    "see that both use the run's temperature and bans, and that every update is published",
    "policy/old_logprob_gap_max": "the policy changed between the scoring of old_logprobs and the first step: "
    "see that dropout is off and that both passes use one precision",
}


def tolerance_of(recipe: OnlineRecipe) -> float | None:
    """How far engine and trainer may be apart in a run; None in bf16, where round-off alone is larger than faults."""
    stored = recipe.model.dtype if isinstance(recipe.model, FolderModel) else "float32"
    return TOLERANCE if recipe.precision.dtype == "fp32" and stored == "float32" else None


def ratio_fault(metrics: Mapping[str, Metric], *, tolerance: float = TOLERANCE) -> str | None:
    """What is wrong with this iteration's first ratio, in a sentence with the mend; None if nothing is."""
    for name, mend in MENDS.items():
        found = metrics.get(name)
        if found is not None and not found.value <= tolerance:
            return f"{name} is {found.value:.2g} before the first update (at most {tolerance:g} in float32): {mend}"
    return None
