"""Knobs of the optimiser, the learning-rate schedule and the arithmetic of a training pass."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, NonNegativeInt

from ropewalk.config.schema import Section

Fraction: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class Optimizer(Section):
    """AdamW. Decay acts on parameters with two or more dimensions, never on norms and biases."""

    lr: Annotated[float, Field(gt=0)] = 1e-5
    """Peak learning rate; the schedule multiplies it."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Decay of the gradient's moving average."""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95
    """Decay of the squared gradient's moving average."""
    eps: Annotated[float, Field(gt=0)] = 1e-8
    """Added to the root of the squared average."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Decoupled weight decay per unit of learning rate."""
    clip_norm: Annotated[float, Field(gt=0)] | None = 1.0
    """Global gradient norm above which the gradient is scaled down; none switches clipping off."""


class ConstantSchedule(Section):
    """Warm-up, then the peak."""

    kind: Literal["constant"] = "constant"
    """No decay."""
    warmup_steps: NonNegativeInt = 0
    """Optimiser steps over which the rate rises linearly to its peak."""


class LinearSchedule(Section):
    """Warm-up, then a straight line that reaches its end at the last step."""

    kind: Literal["linear"]
    """Straight decay."""
    warmup_steps: NonNegativeInt = 0
    """Optimiser steps over which the rate rises linearly to its peak."""
    final_fraction: Fraction = 0.1
    """Share of the peak at the last step."""


class CosineSchedule(Section):
    """Warm-up, then half a cosine that reaches its end at the last step."""

    kind: Literal["cosine"]
    """Half a cosine."""
    warmup_steps: NonNegativeInt = 0
    """Optimiser steps over which the rate rises linearly to its peak."""
    final_fraction: Fraction = 0.1
    """Share of the peak at the last step."""


Schedule: TypeAlias = Annotated[ConstantSchedule | LinearSchedule | CosineSchedule, Field(discriminator="kind")]


class Precision(Section):
    """Arithmetic of a pass. Master weights, gradients and optimiser moments are always float32."""

    dtype: Literal["fp32", "bf16"] = "fp32"
    """`bf16` runs the matrix products of the pass under autocast."""
    activation_checkpointing: bool = False
    """Recompute each layer in the backward pass instead of keeping its activations."""
