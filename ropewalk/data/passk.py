"""pass@k without bias, from n >= k samples a prompt.

The chance that at least one of k samples drawn without replacement from n passes, c of which do:
1 − C(n−c, k) / C(n, k) (Chen et al. 2021, eq. 1).
"""

import math
from collections.abc import Sequence

from ropewalk.data.intervals import Estimate, bootstrap_mean
from ropewalk.records.errors import InputError


def pass_at_k(samples: int, passed: int, k: int) -> float:
    """pass@k of one prompt."""
    if not 1 <= k <= samples or not 0 <= passed <= samples:
        raise InputError(
            f"pass@{k} needs at least {k} samples a prompt and 0 to {samples} passes, got {passed} of {samples}"
        )
    return 1.0 - math.comb(samples - passed, k) / math.comb(samples, k)


def mean_pass_at_k(counts: Sequence[tuple[int, int]], k: int, *, seed: int = 0) -> Estimate:
    """Mean pass@k over prompts, given (samples, passed) of each, with a bootstrap interval over prompts."""
    return bootstrap_mean([pass_at_k(samples, passed, k) for samples, passed in counts], seed=seed)
