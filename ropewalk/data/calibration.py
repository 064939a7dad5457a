"""Whether values are probabilities: of what is given 0.7, 0.7 come true. Labels may be parts, such as success rates."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ropewalk.records.errors import InputError

Floats = npt.NDArray[np.float64]


class Bin(NamedTuple):
    """Values of one stretch of [0, 1]."""

    value: float
    """Their mean."""
    label: float
    """The mean of their labels."""
    size: int
    """How many values."""


def reliability(values: Sequence[float] | Floats, labels: Sequence[float] | Floats, *, bins: int = 10) -> list[Bin]:
    """The bins of equal width that hold values, in order; 1 belongs to the last one."""
    given, wanted = np.asarray(values, np.float64), np.asarray(labels, np.float64)
    if len(given) != len(wanted) or not len(given) or not ((given >= 0) & (given <= 1)).all():
        raise InputError("calibration needs a label for each value, and values from 0 to 1, at least one")
    place = np.minimum((given * bins).astype(np.int64), bins - 1)
    held = [place == b for b in range(bins) if (place == b).any()]
    return [Bin(float(given[of].mean()), float(wanted[of].mean()), int(of.sum())) for of in held]


def calibration_error(values: Sequence[float] | Floats, labels: Sequence[float] | Floats, *, bins: int = 10) -> float:
    """Σ over bins of their share · |mean value − mean label| (expected calibration error); 0 for perfect ones."""
    found = reliability(values, labels, bins=bins)
    return sum(one.size * abs(one.value - one.label) for one in found) / sum(one.size for one in found)
