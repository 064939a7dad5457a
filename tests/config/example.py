"""A schema with every shape that a recipe may have, and a valid recipe of it."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from ropewalk.config.schema import Section


class Optimizer(Section):
    lr: float = Field(default=1e-4, gt=0)
    """Learning rate."""
    betas: tuple[float, float] = (0.9, 0.99)
    clip_norm: float | None = 1.0
    warmup_steps: int = Field(default=3, ge=0)


class RewardKL(Section):
    kind: Literal["reward"] = "reward"
    beta: float = 0.1
    adaptive: bool = False


class LossKL(Section):
    kind: Literal["loss"] = "loss"
    beta: float = 0.1
    estimator: Literal["k1", "k2", "k3"] = "k3"


class NoKL(Section):
    kind: Literal["none"] = "none"


KL: TypeAlias = Annotated[RewardKL | LossKL | NoKL, Field(discriminator="kind")]


class Actor(Section):
    path: str
    optimizer: Optimizer = Optimizer(lr=1e-6, clip_norm=5.0)
    scheduler: Optimizer | None = None


class Sink(Section):
    name: str
    every: int = 1
    weights: dict[str, float] = Field(default={})


class Ppo(Section):
    method: Literal["ppo"] = "ppo"
    seed: int = 0
    label: str | None = None
    fast: bool = False
    actor: Actor
    kl: KL = RewardKL(beta=0.05)
    second_kl: KL | None = None
    sinks: tuple[Sink, ...] = ()
    terms: dict[str, KL] = Field(default={})


class Sft(Section):
    method: Literal["sft"] = "sft"
    model: str
    max_tokens: int | None = None


Recipe: TypeAlias = Annotated[Ppo | Sft, Field(discriminator="method")]

VALID: dict[str, Any] = {
    "method": "ppo",
    "seed": 3,
    "label": "x",
    "fast": True,
    "actor": {
        "path": "models/a",
        "optimizer": {"lr": 1e-5, "betas": [0.9, 0.95], "clip_norm": 2.0, "warmup_steps": 10},
    },
    "kl": {"kind": "loss", "beta": 0.2, "estimator": "k2"},
    "sinks": [{"name": "a", "every": 2}, {"name": "b", "weights": {"any-name": 1.0}}],
    "terms": {"length": {"kind": "reward", "beta": 0.1, "adaptive": False}},
}
