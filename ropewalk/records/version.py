"""Policy versions and seeds: what makes a sample reproducible."""

import hashlib
from dataclasses import dataclass
from enum import IntEnum, unique


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """Changes with every optimiser step; every cache key of an engine includes it."""

    step: int
    fingerprint: str


@unique
class Draw(IntEnum):
    """What is drawn outside of training's iterations, by the number that stands in place of theirs in its seeds.

    No iteration has these numbers, no two are equal, and each is one place's own: nothing is measured on samples that
    something was decided on, and what a job draws is not what a training run of the same seed draws.
    """

    FIRST_STATISTICS = -1
    EVALUATION = -2
    FRESH_PAIRS = -3
    INITIAL = -4
    FRESH_SAMPLES = -5
    SELECTION = -6
    SAMPLING = -7
    STEP_ROLLOUTS = -8
    INSIDE_TRAINING = -9
    """Evaluation inside training, by which the best save may be chosen."""
    CHAT = -10
    PROBE = -11


def sample_seed(run_seed: int, iteration: int, prompt_id: str, index: int) -> int:
    """A 63-bit seed of (run, iteration, prompt, sample index): independent of batch, replica and order."""
    text = f"{run_seed}\x1f{iteration}\x1f{prompt_id}\x1f{index}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def turn_seed(seed: int, turn: int) -> int:
    """The seed of a conversation's turn, from the sample's own seed, which is that of its first turn (0)."""
    if turn == 0:
        return seed
    return int.from_bytes(hashlib.blake2b(f"{seed}\x1f{turn}".encode(), digest_size=8).digest(), "big") >> 1
