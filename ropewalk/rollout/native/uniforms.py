"""Random numbers of samples: a function of (seed, token number) alone, so nothing else can change a sample."""

import numpy as np
import numpy.typing as npt

UNIFORM_BLOCK = 256
"""Numbers drawn ahead for a sample at a time."""
_PER_COUNTER = 4
"""Doubles that one counter step of Philox4x64 yields."""


def uniforms(seed: int, block: int) -> npt.NDArray[np.float64]:
    """Numbers `block * UNIFORM_BLOCK …` of a sample's stream in [0, 1): Philox (Salmon et al. 2011) by the seed."""
    counter = block * (UNIFORM_BLOCK // _PER_COUNTER)
    return np.random.Generator(np.random.Philox(key=seed, counter=counter)).random(UNIFORM_BLOCK)
