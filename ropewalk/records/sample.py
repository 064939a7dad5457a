"""Samples: what a policy said, token by token, with everything needed to train on it.

Sampled ids are the only truth; text is for scorers and readers and is never turned back into ids.
The four token arrays have equal length and are only ever appended to.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json
from ropewalk.records.score import Outcome

Finish: TypeAlias = Literal["stop", "length", "aborted", "failed"]
Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float32]
Bools: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SamplingRecord:
    """The fully resolved sampling settings: the whole truth about the distribution a token was drawn from.

    The trainer computes log-probs under this very record (temperature and bans) or refuses.
    """

    temperature: float
    """0 is greedy choice; its log-probs are those of temperature 1 and it is refused for training."""
    max_new_tokens: int
    eos_ids: tuple[int, ...]
    stop_strings: tuple[str, ...] = ()
    banned_ids: tuple[int, ...] = ()
    """Ids the policy may not say: probability exactly 0 in sampling and in every log-prob."""

    def __post_init__(self) -> None:
        if self.temperature < 0 or self.max_new_tokens < 1:
            raise InputError(
                f"sampling needs temperature >= 0 and max_new_tokens >= 1, "
                f"got {self.temperature} and {self.max_new_tokens}"
            )
        both = sorted(set(self.eos_ids) & set(self.banned_ids))
        if both:
            raise InputError(f"token ids {both} are both end-of-sequence and banned: take them off one of the lists")


@dataclass(frozen=True, slots=True)
class Request:
    """One completion asked of an engine."""

    prompt_id: str
    group_id: str
    index: int
    """Number of the sample within its group."""
    seed: int
    """From `sample_seed`: independent of batch, replica and order."""
    prompt_ids: Ints
    sampling: SamplingRecord


@dataclass(frozen=True, slots=True)
class Completion:
    """An engine's answer to a request: the sampled ids (end token included) and what was known of each."""

    request: Request
    token_ids: Ints
    logprobs: Floats
    """Under the very distribution sampled from."""
    versions: Ints
    """`PolicyVersion.step` that sampled each token."""
    finish: Finish
    text: str
    """Decoded without the end token and cut before a stop string."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One row of experience. Arrays run over prompt + completion, `T` tokens.

    At tokens that were not sampled, `policy_mask_T` is False, `logprobs_T` NaN and `versions_T` -1.
    """

    prompt_id: str
    group_id: str
    index: int
    seed: int
    tokens_T: Ints
    policy_mask_T: Bools
    logprobs_T: Floats
    versions_T: Ints
    finish: Finish
    sampling: SamplingRecord
    text: str
    scores: Mapping[str, Outcome] = field(default_factory=dict)
    info: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = {len(self.tokens_T), len(self.policy_mask_T), len(self.logprobs_T), len(self.versions_T)}
        if len(lengths) != 1:
            raise InputError(
                f"sample {self.prompt_id}/{self.index} has arrays of unequal lengths {sorted(lengths)}: "
                "tokens, mask, log-probs and versions belong together"
            )
        if not np.isfinite(self.logprobs_T[self.policy_mask_T]).all():
            raise InputError(f"sample {self.prompt_id}/{self.index} has a sampled token without a finite log-prob")

    def with_scores(self, **scores: Outcome) -> "Sample":
        return replace(self, scores={**self.scores, **scores})

    @property
    def completion_tokens(self) -> int:
        return int(self.policy_mask_T.sum())


def sample_of(completion: Completion) -> Sample:
    """The single-turn sample of a completion: prompt tokens masked out, then the sampled ids."""
    request = completion.request
    prompt, answer = len(request.prompt_ids), len(completion.token_ids)
    return Sample(
        prompt_id=request.prompt_id,
        group_id=request.group_id,
        index=request.index,
        seed=request.seed,
        tokens_T=np.concatenate([request.prompt_ids, completion.token_ids]),
        policy_mask_T=np.arange(prompt + answer) >= prompt,
        logprobs_T=np.concatenate([np.full(prompt, np.nan, np.float32), completion.logprobs]),
        versions_T=np.concatenate([np.full(prompt, -1, np.int64), completion.versions]),
        finish=completion.finish,
        sampling=request.sampling,
        text=completion.text,
    )
