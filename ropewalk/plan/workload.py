"""What one iteration has to process: prompts, samples, lengths, passes."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ropewalk.records.errors import InputError

DTYPES = ("bf16", "fp16", "fp32")
"""What calls compute in."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """A histogram of lengths in tokens. `weights` need not sum to one."""

    tokens: tuple[int, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.tokens or len(self.tokens) != len(self.weights):
            raise InputError("a length histogram needs at least one length, and a weight for each")
        weights_ok = all(math.isfinite(weight) and weight >= 0 for weight in self.weights)
        if min(self.tokens) < 0 or not weights_ok or not sum(self.weights) > 0:
            raise InputError("a length histogram needs lengths and weights >= 0, and weights that sum to more than 0")

    @staticmethod
    def fixed(tokens: int) -> "Lengths":
        return Lengths((tokens,), (1.0,))

    @staticmethod
    def of(lengths: Iterable[int]) -> "Lengths":
        """The histogram of observed lengths."""
        tokens, counts = np.unique(np.fromiter(lengths, np.int64), return_counts=True)
        return Lengths(tuple(int(t) for t in tokens), tuple(float(c) for c in counts))

    @property
    def longest(self) -> int:
        return max(length for length, weight in zip(self.tokens, self.weights, strict=True) if weight > 0)

    @property
    def mean(self) -> float:
        return float(np.average(self.tokens, weights=self.weights))

    def alive(self, token: int) -> float:
        """Share of the sequences that are longer than `token`."""
        shares = np.asarray(self.weights) / sum(self.weights)
        return float(shares[np.asarray(self.tokens) > token].sum())


@dataclass(frozen=True, slots=True)
class Workload:
    """One iteration's batch and how it is trained on."""

    prompts: int
    """Prompts of an iteration; without generation the rows, or the pairs, of a step."""
    group_size: int
    """Samples of a prompt; 2 for pairs."""
    prompt_tokens: Lengths
    generated_tokens: Lengths
    """Without generation the lengths of the answers that are there."""
    minibatches: int = 1
    epochs: int = 1
    dtype: str = "bf16"
    lora_rank: Mapping[str, int] | None = field(default=None, hash=False)
    """By trained role, the rank of its adapters; a role that is not named trains all its parameters."""

    def __post_init__(self) -> None:
        for name in ("prompts", "group_size", "minibatches", "epochs"):
            if getattr(self, name) < 1:
                raise InputError(f"a workload has {name} = {getattr(self, name)}: give a whole number of at least 1")
        if self.sequences < self.minibatches:
            raise InputError(
                f"a workload cuts {self.sequences} sequences into {self.minibatches} mini-batches: "
                "give more prompts or fewer mini-batches"
            )
        if self.prompt_tokens.longest + self.generated_tokens.longest < 1:
            raise InputError("a workload has sequences of 0 tokens: give prompts or answers with some")
        if self.dtype not in DTYPES:
            raise InputError(f"a workload computes in {self.dtype!r}: choose one of {', '.join(DTYPES)}")
        for role, rank in (self.lora_rank or {}).items():
            if rank < 1:
                raise InputError(f"the adapters of role {role!r} have rank {rank}: give at least 1, or no adapters")

    @property
    def sequences(self) -> int:
        return self.prompts * self.group_size

    @property
    def longest(self) -> int:
        """Most tokens that a sequence can have."""
        return self.prompt_tokens.longest + self.generated_tokens.longest
