"""Sections of a recipe that say which models reward, and how each is read."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from ropewalk.config.schema import Section


class LastToken(Section):
    """One score, read at the last token of a completion."""

    kind: Literal["last"] = "last"


class Heads(Section):
    """Σ weight · score over the heads of a model, all read at the last token of a completion."""

    kind: Literal["heads"]
    weights: Annotated[dict[str, float], Field(min_length=1)]
    """By the name of the head (the model's label); heads that are not named are measured and count nothing."""


class Process(Section):
    """A process reward model: σ(score) at the end of each step, and one number of them."""

    kind: Literal["process"]
    step: str = Field(default="\n\n", min_length=1)
    """What separates steps: text, or the text of a special token."""
    combine: Literal["min", "product", "last", "mean"] = "min"
    """How the values of a completion's steps become its score."""


Reading: TypeAlias = Annotated[LastToken | Heads | Process, Field(discriminator="kind")]


class Mean(Section):
    """The members' mean."""

    kind: Literal["mean"] = "mean"


class Min(Section):
    """The lowest of the members: what none of them finds bad."""

    kind: Literal["min"]


class MeanMinusStd(Section):
    """mean - k · std over the members (divided by their number): what they disagree on is worth less."""

    kind: Literal["mean_minus_std"]
    k: float = Field(default=1.0, ge=0)
    """Standard deviations taken off."""


Combine: TypeAlias = Annotated[Mean | Min | MeanMinusStd, Field(discriminator="kind")]


class LearnedReward(Section):
    """One learned reward: a model, or several that are asked the same."""

    folders: Annotated[tuple[str, ...], Field(min_length=1)]
    """`runs/x`, `runs/x@best` or model folders; more than one is an ensemble."""
    read: Reading = LastToken()
    """Where a model's scores stand, and how they become one."""
    combine: Combine = Mean()
    """How the members' scores become one."""
    offsets: tuple[float, ...] = ()
    """Taken off each member's score, in order: scores of models trained on pairs have no common zero."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.offsets and len(self.offsets) != len(self.folders):
            raise ValueError(f"{len(self.folders)} folders have {len(self.offsets)} offsets: give one for each")
        twice = [folder for folder in self.folders if self.folders.count(folder) > 1]
        if twice:
            raise ValueError(f"{twice[0]} is a member twice: its own twin agrees with it")
        return self
