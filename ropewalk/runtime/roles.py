"""What each role of a run is made of: plain data that a worker on any rank can build from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ropewalk.algorithms.config import GRPO, PPO, SFT, ProcessRewardModel
from ropewalk.algorithms.config import RewardModel as RewardModelMethod
from ropewalk.models.config import FreshModel
from ropewalk.rollout.config import NativeEngineConfig as EngineConfig
from ropewalk.tasks.task import Vocabulary
from ropewalk.training.config import Optimizer, Precision, Schedule

Head: TypeAlias = Literal["policy", "value", "reward"]
MethodConfig: TypeAlias = PPO | GRPO | SFT | RewardModelMethod | ProcessRewardModel


@dataclass(frozen=True, slots=True)
class FromPolicy:
    """A policy folder or hub id."""

    path: str
    dtype: Literal["float32", "bfloat16"] = "float32"


@dataclass(frozen=True, slots=True)
class FromScorer:
    """A reward-model folder."""

    path: str
    many_heads: bool = False
    """Whether it may have more heads than one."""


@dataclass(frozen=True, slots=True)
class FromSizes:
    """A fresh model over a task's vocabulary."""

    config: FreshModel
    vocabulary: Vocabulary
    seed: int


@dataclass(frozen=True, slots=True)
class FromRole:
    """A copy of another role's starting weights, taken before any training."""

    role: str


Source: TypeAlias = FromPolicy | FromScorer | FromSizes | FromRole


@dataclass(frozen=True, slots=True)
class ObjectiveSpec:
    """Which objective a trained role minimises, and the method's settings it reads."""

    kind: Literal["actor", "critic", "joint", "sft", "pairwise", "process"]
    config: MethodConfig


@dataclass(frozen=True, slots=True)
class Training:
    """How a trained role is updated."""

    objective: ObjectiveSpec
    optimizer: Optimizer
    schedule: Schedule
    total_steps: int
    epochs: int = 1
    minibatches: int = 1


@dataclass(frozen=True, slots=True)
class RoleSetup:
    """One role: where its weights come from, its heads, and its training if it has any."""

    source: Source
    heads: frozenset[Head]
    training: Training | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything a worker builds; the same on every rank. Roles are built in order, sources first."""

    roles: Mapping[str, RoleSetup]
    seed: int
    device: str
    threads: int | Literal["auto"]
    processes: int
    precision: Precision
    micro_batch_tokens: int
    engine: EngineConfig | None
    """The engine of the role `actor`, for runs that generate."""
    writers: Mapping[str, EngineConfig] = field(default_factory=dict)
    """Engines of other roles that write, such as judges; their weights never change."""
