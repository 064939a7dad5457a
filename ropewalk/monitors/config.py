"""What a run records, and when it is called dead."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from ropewalk.config.schema import Section

Action: TypeAlias = Literal["warn", "stop"]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class Tensorboard(Section):
    """Event files that `tensorboard --logdir RUN` reads."""

    kind: Literal["tensorboard"] = "tensorboard"
    folder: str = "tensorboard"
    """Folder of the event files, inside the run folder."""


class Wandb(Section):
    """A Weights & Biases run, kept in the run folder until `wandb sync` sends it."""

    kind: Literal["wandb"] = "wandb"
    project: str = "ropewalk"
    """Name of the project that the run is filed under."""
    online: bool = False
    """Send metrics to the server while the run goes on; without it nothing leaves the machine."""


class Trackio(Section):
    """A local trackio project, shown by `trackio show`."""

    kind: Literal["trackio"] = "trackio"
    project: str = "ropewalk"
    """Name of the project that the run is filed under."""


SinkConfig: TypeAlias = Annotated[Tensorboard | Wandb | Trackio, Field(discriminator="kind")]


class Record(Section):
    """What is written into the run folder; `metrics.jsonl` always is."""

    samples_every: int = Field(default=10, ge=1)
    """Samples of every n-th iteration, of the first and of the last are kept for reading."""
    samples_limit: int = Field(default=64, ge=1)
    """At most this many samples of such an iteration are kept, evenly spread over the batch."""
    extreme_samples: int = Field(default=2, ge=0)
    """This many samples of highest and of lowest reward are kept of every iteration."""
    rollouts: bool = False
    """Keep every rollout whole, so that `replay` can train from them without an engine."""
    sinks: tuple[SinkConfig, ...] = ()
    """Further places for the metrics: tensorboard, wandb, trackio."""


class Health(Section):
    """When a run is called dead or ill. A rule fires only if it holds in every one of `window` iterations."""

    window: int = Field(default=10, ge=1)
    """Number of iterations in a row over which a rule must hold."""
    truncated_above: Share = 0.9
    """Share of samples cut off at the length limit above which a run counts as truncated."""
    truncated: Action = "warn"
    """What to do with a truncated run."""
    no_variance: Action = "stop"
    """What to do when all rewards that are compared with each other are equal."""
    zero_gradient: Action = "stop"
    """What to do when the gradient of a trained model is exactly zero."""
    failed_above: Share = 0.2
    """Share of samples that one scorer could not judge above which the scorer counts as broken."""
    failed: Action = "warn"
    """What to do with a broken scorer."""
    entropy_fraction: Share = 0.1
    """Entropy below this fraction of the first iterations' counts as collapsed; 0 never does."""
    entropy: Action = "warn"
    """What to do about collapsed entropy."""
    kl_above: float = Field(default=1.0, gt=0)
    """KL to the reference per token, in nats, above which the policy counts as torn loose."""
    kl: Action = "warn"
    """What to do with a policy that is torn loose."""
