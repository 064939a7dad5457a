"""Settings of the methods. Alternatives are tagged unions, so that an option without effect cannot be written."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from ropewalk.config.schema import Section

KLEstimator: TypeAlias = Literal["k1", "k2", "k3"]
GroupBaseline: TypeAlias = Literal["mean", "leave_one_out"]
GroupScale: TypeAlias = Literal["none", "std"]


class FixedController(Section):
    """The coefficient never changes."""

    kind: Literal["fixed"] = "fixed"
    """This alternative's name."""


class AdaptiveController(Section):
    """The coefficient follows the measured KL towards a target."""

    kind: Literal["adaptive"] = "adaptive"
    """This alternative's name."""
    target_nats_per_sequence: float = Field(default=6.0, gt=0)
    """The KL to the reference to aim for, summed over a sequence."""
    horizon_sequences: float = Field(default=10_000.0, gt=0)
    """Sequences over which a KL 20 % off moves the coefficient by about 20 %; smaller reacts faster.

    An iteration never moves it by more than 20 %."""


Controller: TypeAlias = Annotated[FixedController | AdaptiveController, Field(discriminator="kind")]


class KLNone(Section):
    """No KL term; no reference is loaded or measured."""

    place: Literal["none"] = "none"
    """This alternative's name."""


class KLReward(Section):
    """KL to the reference charged in the reward, token by token: the gradient of the sequence KL."""

    place: Literal["reward"] = "reward"
    """This alternative's name."""
    coefficient: float = Field(default=0.1, ge=0)
    """β, reward per nat; 0 measures the KL without charging it."""
    estimator: KLEstimator = "k1"
    """Charge per token; only k1 and k3 are unbiased, k1 has the sequence KL as its sum."""
    controller: Controller = FixedController()
    """How β changes over the run."""

    @model_validator(mode="after")
    def _can_move(self) -> Self:
        if self.coefficient == 0 and self.controller.kind == "adaptive":
            raise ValueError("an adaptive controller multiplies the coefficient, and 0 stays 0: start it above 0")
        return self


class KLLoss(Section):
    """KL to the reference as a term of the loss. k1 is not offered: its expected gradient as a loss is 0."""

    place: Literal["loss"] = "loss"
    """This alternative's name."""
    coefficient: float = Field(default=0.1, ge=0)
    """β, loss per nat; 0 measures the KL without charging it."""
    estimator: Literal["k2", "k3"] = "k3"
    """k2 has the gradient of the reverse KL(π‖π_ref), k3 that of the forward KL(π_ref‖π); both on-policy."""


KL: TypeAlias = Annotated[KLNone | KLReward | KLLoss, Field(discriminator="place")]


class TokenReduction(Section):
    """Every trained token of the optimiser step weighs the same."""

    kind: Literal["token"] = "token"
    """This alternative's name."""


class SequenceReduction(Section):
    """Every trained sequence weighs the same: mean over its tokens, then over sequences."""

    kind: Literal["sequence"] = "sequence"
    """This alternative's name."""


class ConstantReduction(Section):
    """Sum over tokens, divided by sequences times a constant length."""

    kind: Literal["constant"] = "constant"
    """This alternative's name."""
    length_tokens: int = Field(default=1024, ge=1)
    """The constant length; usually the longest completion allowed."""


Reduction: TypeAlias = Annotated[TokenReduction | SequenceReduction | ConstantReduction, Field(discriminator="kind")]


class KeepUnfinished(Section):
    """Samples cut off by the length limit train like any other."""

    kind: Literal["keep"] = "keep"
    """This alternative's name."""


class PenaliseUnfinished(Section):
    """The reward of a sample cut off by the length limit is replaced by a fixed score."""

    kind: Literal["penalty"] = "penalty"
    """This alternative's name."""
    score: float = -1.0
    """The reward it gets instead."""


class MaskUnfinished(Section):
    """A sample cut off by the length limit is treated as if never sampled: no loss, no denominator, no baseline."""

    kind: Literal["mask"] = "mask"
    """This alternative's name."""


Unfinished: TypeAlias = Annotated[KeepUnfinished | PenaliseUnfinished | MaskUnfinished, Field(discriminator="kind")]


class NoValueClip(Section):
    """Plain squared error."""

    kind: Literal["none"] = "none"
    """This alternative's name."""


class ClipValue(Section):
    """The prediction may only profit from moving this far from the one before the update."""

    kind: Literal["clip"] = "clip"
    """This alternative's name."""
    range: float = Field(default=0.2, gt=0)
    """In units of reward."""


ValueClip: TypeAlias = Annotated[NoValueClip | ClipValue, Field(discriminator="kind")]


class SeparateCritic(Section):
    """The critic is a model of its own, with its own optimiser."""

    kind: Literal["separate"] = "separate"
    """This alternative's name."""


class SharedCritic(Section):
    """The critic is a head on the actor's backbone; one joint loss."""

    kind: Literal["shared"] = "shared"
    """This alternative's name."""
    coefficient: float = Field(default=0.1, gt=0)
    """Weight of the value loss in the joint loss."""


Critic: TypeAlias = Annotated[SeparateCritic | SharedCritic, Field(discriminator="kind")]


class PPO(Section):
    """Proximal policy optimisation with a critic."""

    gamma: float = Field(default=1.0, ge=0, le=1)
    """Discount per policy token."""
    lam: float = Field(default=0.95, ge=0, le=1)
    """λ of generalised advantage estimation."""
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    """The ratio gains nothing below 1 − clip_low."""
    clip_high: float = Field(default=0.2, gt=0)
    """The ratio gains nothing above 1 + clip_high."""
    epochs: int = Field(default=4, ge=1)
    """Passes over each iteration's samples."""
    minibatches: int = Field(default=1, ge=1)
    """Optimiser steps of a pass."""
    whiten: Literal["none", "tokens", "task"] = "tokens"
    """Shift and scale advantages to mean 0 and std 1 over all policy tokens of the iteration, or over those of each
    task by itself."""
    entropy_coefficient: float = Field(default=0.0, ge=0)
    """Reward per nat of a token's entropy, in the loss."""
    value_clip: ValueClip = NoValueClip()
    """Clipping of the value loss."""
    critic: Critic = SeparateCritic()
    """Where the value head sits."""
    reduction: Reduction = TokenReduction()
    """How per-token terms become one number; holds for every term."""
    kl: KL = KLReward()
    """Where and how the KL to the reference is charged."""
    unfinished: Unfinished = KeepUnfinished()
    """What becomes of samples cut off by the length limit."""


class GRPO(Section):
    """Group-relative policy optimisation: the baseline is the mean of the prompt's own samples."""

    baseline: GroupBaseline = "mean"
    """Over the whole group, or over the other samples only."""
    scale: GroupScale = "std"
    """Divide by the group's standard deviation (n − 1), or do not."""
    normalise_by: Literal["none", "task"] = "none"
    """Divide by the spread that the advantages of the sample's own task have in the iteration, or do not."""
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    """The ratio gains nothing below 1 − clip_low."""
    clip_high: float = Field(default=0.2, gt=0)
    """The ratio gains nothing above 1 + clip_high."""
    epochs: int = Field(default=1, ge=1)
    """Passes over each iteration's samples."""
    minibatches: int = Field(default=1, ge=1)
    """Optimiser steps of a pass."""
    entropy_coefficient: float = Field(default=0.0, ge=0)
    """Reward per nat of a token's entropy, in the loss."""
    reduction: Reduction = SequenceReduction()
    """How per-token terms become one number; holds for every term."""
    kl: KL = KLLoss(coefficient=0.04)
    """Where and how the KL to the reference is charged."""
    unfinished: Unfinished = KeepUnfinished()
    """What becomes of samples cut off by the length limit."""


class SFT(Section):
    """Imitation of demonstrations or plain text."""

    epochs: int = Field(default=1, ge=1)
    """Passes over the data."""
    rows_per_step: int = Field(default=32, ge=1)
    """Rows of one optimiser step; micro-batches are cut from it by the token budget."""
    reduction: Reduction = TokenReduction()
    """How per-token terms become one number."""


class RewardModel(Section):
    """A scalar reward learned from preference pairs (Bradley–Terry)."""

    epochs: int = Field(default=1, ge=1)
    """Passes over the pairs."""
    pairs_per_step: int = Field(default=32, ge=1)
    """Pairs of one optimiser step."""


class ProcessRewardModel(Section):
    """A reward for each step of an answer, learned from labels in [0, 1]."""

    epochs: int = Field(default=1, ge=1)
    """Passes over the rows."""
    rows_per_step: int = Field(default=32, ge=1)
    """Rows of one optimiser step; each step of an answer weighs the same in it."""
