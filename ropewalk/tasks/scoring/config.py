"""Sections of a recipe that say how the outcomes of a sample become one reward.

    reward = Σ shareᵢ · weightᵢ · normalise(scoreᵢ) + length term + repetition term

A *domain* is what a prompt's info names as `domain` (text); prompts that name none share one.
"""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from ropewalk.config.schema import Section
from ropewalk.records.score import FailureReason

Share: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0)]
Count: TypeAlias = Annotated[int, Field(ge=1)]
Positive: TypeAlias = Annotated[float, Field(gt=0.0)]


class Raw(Section):
    """The score as it is."""

    kind: Literal["raw"] = "raw"
    clip: Positive | None = None
    """Scores are cut to ± this; "none" cuts nothing."""


class InitialMean(Section):
    """The score minus its mean over the first samples; its spread is left alone."""

    kind: Literal["initial_mean"] = "initial_mean"
    samples: Count = 512
    """After at least this many scores the mean is frozen; until then it is the mean of those so far."""
    clip: Positive | None = None
    """What is left is cut to ± this; "none" cuts nothing."""


class ZScore(Section):
    """The score minus its domain's mean, in standard deviations of its domain; 0 where a domain has one score only, or
    equal ones."""

    kind: Literal["z_score"] = "z_score"
    estimate: Literal["running", "batch"] = "running"
    """Mean and spread over all scores of the run so far, or over those of the present batch alone."""
    clip: Positive = 5.0
    """Cut to ± this: a success at a rate of 1 % stands 9.9 standard deviations above the mean."""


Normalise: TypeAlias = Annotated[Raw | InitialMean | ZScore, Field(discriminator="kind")]


class Gate(Section):
    """A component counts only where another scorer's raw score is high enough.

    A scorer that failed has not been passed: its gates are closed, and so are those of one that abstained unless
    `abstained` says otherwise.
    """

    on: str
    """The scorer that decides, by name; it need not be a component itself."""
    at_least: float = 1.0
    """The raw score that opens the gate."""
    value: float = 0.0
    """What stands in place of the normalised score while the gate is closed, whatever the component's own outcome."""
    abstained: Literal["closed", "open"] = "closed"
    """The gate where the scorer that decides abstained."""


class Component(Section):
    """One scorer's part in the reward."""

    weight: float = 1.0
    """Factor after normalisation."""
    normalise: Normalise = Raw()
    """What is done to a score before it is weighted."""
    gates: tuple[Gate, ...] = ()
    """All must be open for the component to count; the first closed one says what stands in its place."""
    failed: Literal["drop"] | float | dict[FailureReason, float] = "drop"
    """A failed judgement drops its row from training, or counts as this raw score; or by reason, others drop."""


class NoMix(Section):
    """Components have their weights and nothing else."""

    kind: Literal["none"] = "none"


class Mix(Section):
    """reward = (1 - share) · Σ of verifiable components + share · Σ of judged ones, the share by domain."""

    kind: Literal["judged"] = "judged"
    judged: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of the components that are judged; all others are verifiable."""
    share: Share = 0.5
    """Of the judged part, in domains that `domains` does not name."""
    domains: dict[str, Share] = Field(default_factory=dict)
    """Share of the judged part by domain."""


class NoLength(Section):
    """Length costs nothing."""

    kind: Literal["none"] = "none"


class LinearLength(Section):
    """- coefficient · min(1, tokens / at_tokens)."""

    kind: Literal["linear"] = "linear"
    at_tokens: Count
    """Completion tokens that cost the whole coefficient."""
    coefficient: Positive = 1.0
    """What a completion of that length costs."""


class OverlongBuffer(Section):
    """Nothing up to max - buffer tokens, then linearly down to - coefficient at max tokens (DAPO, eq. 13)."""

    kind: Literal["overlong"] = "overlong"
    max_tokens: Count
    """Completion tokens that cost the whole coefficient."""
    buffer_tokens: Count
    """The stretch before, over which the cost grows."""
    coefficient: Positive = 1.0
    """What a completion of max tokens costs."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.buffer_tokens > self.max_tokens:
            raise ValueError(f"the buffer of {self.buffer_tokens} tokens is longer than max_tokens = {self.max_tokens}")
        return self


class CosineLength(Section):
    """From the short value to the long one along half a cosine, right answers and wrong ones apart.

    long + (short - long) · (1 + cos(π tokens / limit_tokens)) / 2 (Yeo et al. 2025, arXiv 2502.03373). It is added to
    the components: give the one that says what is right a weight of 0 to have this in its place.
    """

    kind: Literal["cosine"] = "cosine"
    on: str
    """The scorer that says what is right; nothing is added where it failed or abstained."""
    at_least: float = 1.0
    """The raw score from which on an answer is right."""
    limit_tokens: Count
    """Completion tokens at which the long values are reached."""
    right_short: float = 1.0
    """A right answer of no length."""
    right_long: float = 0.5
    """A right answer of limit_tokens."""
    wrong_short: float = -1.0
    """A wrong answer of no length."""
    wrong_long: float = -0.5
    """A wrong answer of limit_tokens."""
    beyond: float = -1.0
    """Any answer of more than limit_tokens."""


Length: TypeAlias = Annotated[NoLength | LinearLength | OverlongBuffer | CosineLength, Field(discriminator="kind")]


class NoRepetition(Section):
    """Repetition costs nothing."""

    kind: Literal["none"] = "none"


class RepeatedNgrams(Section):
    """- coefficient · (1 - distinct n-grams / all n-grams) of a completion's words."""

    kind: Literal["ngrams"] = "ngrams"
    words: Count = 3
    """Words of an n-gram. Punctuation marks are words, and so is each Chinese, Japanese or Korean character."""
    coefficient: Positive = 1.0
    """What a completion would cost that says nothing but the same."""


Repetition: TypeAlias = Annotated[NoRepetition | RepeatedNgrams, Field(discriminator="kind")]


class Reward(Section):
    """How the outcomes of a sample become one reward."""

    components: dict[str, Component] = Field(default_factory=dict)
    """By scorer name; a scorer not named here is recorded only. Empty: the task's first scorer, raw."""
    mix: Annotated[NoMix | Mix, Field(discriminator="kind")] = NoMix()
    """How much verifiable and judged components count, by domain."""
    length: Length = NoLength()
    """What a completion's length adds."""
    repetition: Repetition = NoRepetition()
    """What repetition takes off."""
    failure_limit: Share = 0.5
    """A scorer that fails on a larger share of an iteration's samples stops the run; failures that `failed` of its
    component names a score for are no failures here."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        judged = self.mix.judged if isinstance(self.mix, Mix) else ()
        strange = [name for name in judged if name not in self.components]
        if strange:
            there = ", ".join(self.components) or "none"
            raise ValueError(f"mix.judged names {strange[0]!r}, which is no component: there are {there}")
        return self

    def looked_at(self) -> dict[str, str]:
        """Every scorer that the reward looks at, and the key that names it first."""
        found = {name: f"reward.components.{name}" for name in self.components}
        for name, component in self.components.items():
            for number, gate in enumerate(component.gates):
                found.setdefault(gate.on, f"reward.components.{name}.gates.{number}.on")
        if isinstance(self.length, CosineLength):
            found.setdefault(self.length.on, "reward.length.on")
        return found
