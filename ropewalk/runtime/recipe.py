"""The recipe: every section composed, one class per method. Importing it imports no torch.

What a method does not use cannot be written in its recipe: SFT knows no sampling, GRPO no critic, and so on.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from ropewalk.algorithms.config import GRPO, PPO, SFT
from ropewalk.algorithms.config import ProcessRewardModel as Process
from ropewalk.algorithms.config import RewardModel as Pairwise
from ropewalk.config.load import ConfigError, load, read_toml, to_toml
from ropewalk.config.schema import Section, Seed
from ropewalk.data.config import Select
from ropewalk.models.config import FreshModel, Model
from ropewalk.monitors.config import Health, Record
from ropewalk.records.errors import InputError
from ropewalk.rollout.config import NativeEngineConfig, Sampling
from ropewalk.runtime.config import (
    LEARNED,
    Checkpoints,
    Evaluation,
    Gathering,
    Hardware,
    NoEvaluation,
    PairFile,
    PromptData,
    Rollouts,
    RowEvaluation,
    StepFile,
    Stop,
    TaskConfig,
    TextRows,
)
from ropewalk.runtime.learned.calls import critic_role
from ropewalk.runtime.learned.config import LearnedReward
from ropewalk.tasks.judging.config import JudgeSection, PairwiseJudge, Siblings
from ropewalk.tasks.scoring.config import OverlongBuffer, Reward
from ropewalk.training.config import ConstantSchedule, Optimizer, Precision, Schedule

RewardName: TypeAlias = Annotated[str, Field(pattern=r"^[\w-]+$")]
Judges: TypeAlias = dict[RewardName, JudgeSection]


def check_siblings(judges: Judges, group_size: int) -> None:
    """Raises ValueError for a judge that compares samples of a group where a group is one sample."""
    for name, judge in judges.items():
        if isinstance(judge, PairwiseJudge) and isinstance(judge.against, Siblings) and group_size < 2:
            raise ValueError(
                f"judges.{name} compares samples of one prompt: set rollout.group_size to at least 2, or "
                f"judges.{name}.against.kind = 'reference'"
            )


class Learner(Section):
    """How one trained role is updated."""

    optimizer: Optimizer = Optimizer()
    """AdamW's settings."""
    schedule: Schedule = ConstantSchedule()
    """Learning rate over the run."""


class CriticLearner(Learner):
    """How a critic of its own starts and is updated."""

    start: str = "policy"
    """Weights it starts from: `policy` (with a head of zeros), or those of a reward model, head included:
    `reward_model`, the NAME of one of [reward_models] (its first member), or `NAME/1` for another member."""


class Reference(Section):
    """The model that the KL term holds the policy to; by default the starting policy."""

    path: str
    """`runs/x`, `runs/x@best` or a model folder with the policy's vocabulary."""


class Common(Section):
    """What every training recipe has."""

    seed: Seed = 0
    """Everything random follows from it."""
    model: Model | None = None
    """The model to start from."""
    start_from: str | None = None
    """Or an earlier run: `runs/x`, `runs/x@best` (weights, tokenizer and chat template)."""
    hardware: Hardware = Hardware()
    """Devices, processes, threads, memory."""
    precision: Precision = Precision()
    """Number formats of the passes."""
    checkpoint: Checkpoints = Checkpoints()
    """What is saved when."""
    record: Record = Record()
    """What is written down."""
    health: Health = Health()
    """When a run is called dead or ill."""

    @model_validator(mode="after")
    def _one_start(self) -> Self:
        if (self.model is None) == (self.start_from is None):
            raise ValueError("give either [model] (with kind and path) or start_from, the run to start from")
        return self


class Online(Common):
    """What recipes that learn from their own samples have."""

    task: TaskConfig
    """Prompts and scorers."""
    data: PromptData | None = None
    """The file of a task that reads one."""
    rollout: Gathering = Gathering()
    """Prompts and samples of an iteration."""
    sampling: Sampling = Sampling()
    """How completions are drawn."""
    engine: NativeEngineConfig = NativeEngineConfig()
    """What draws them."""
    reward: Reward = Reward()
    """How outcomes become one reward."""
    reward_model: str | None = None
    """A learned reward: `runs/x`, `runs/x@best`, or a folder made by a reward-model run."""
    reward_models: dict[RewardName, LearnedReward] = Field(default_factory=dict)
    """Further learned rewards, by the name that their scores have beside the task's scorers."""
    judges: Judges = Field(default_factory=dict)
    """Models that are asked what they think of samples, by the name that their scores have."""
    reference: Reference | None = None
    """Another reference than the starting policy."""
    actor: Learner = Learner()
    """How the policy is updated."""
    evaluate: Evaluation = NoEvaluation()
    """Evaluation inside training."""
    stop: Stop = Stop()
    """When the run ends."""
    select: Select | None = None
    """How `ropewalk select` looks at this recipe's prompts; training does not read it."""

    @model_validator(mode="after")
    def _flat_groups(self) -> Self:
        if self.rollout.flat.kind != "keep" and self.rollout.group_size < 2:
            raise ValueError(
                f"rollout.flat.kind = {self.rollout.flat.kind!r} looks at the rewards of a group, and a group of one "
                "sample has nothing to compare: set rollout.group_size to at least 2, or keep flat groups"
            )
        return self

    @model_validator(mode="after")
    def _samplable(self) -> Self:
        if isinstance(self.model, FreshModel):
            raise ValueError("a fresh model knows nothing to sample: pretrain it by a recipe with method = 'sft' first")
        if self.reward_model is not None and LEARNED in self.reward_models:
            raise ValueError("reward_model = ... is the learned reward 'reward_model': call that section otherwise")
        twice = [name for name in self.judges if name in self.reward_models or name == LEARNED]
        if twice:
            raise ValueError(f"judges.{twice[0]} has the name of a learned reward: call one of them otherwise")
        check_siblings(self.judges, self.rollout.group_size)
        if self.sampling.temperature == 0:
            raise ValueError("sampling.temperature = 0 is greedy choice, which nothing can be learnt from: use 1")
        length, longest = self.reward.length, self.sampling.max_new_tokens
        if isinstance(length, OverlongBuffer) and length.max_tokens - length.buffer_tokens >= longest:
            raise ValueError(
                f"reward.length costs nothing up to {length.max_tokens - length.buffer_tokens} tokens, and "
                f"sampling.max_new_tokens is {longest}: no completion would ever be charged"
            )
        return self


class PPORecipe(Online):
    """PPO with a critic."""

    method: Literal["ppo"]
    ppo: PPO = PPO()
    """The method's own settings."""
    critic: CriticLearner | None = None
    """A separate critic's settings; not with ppo.critic.kind = "shared"."""

    @model_validator(mode="after")
    def _critic_fits(self) -> Self:
        if self.ppo.critic.kind == "shared" and self.critic is not None:
            raise ValueError("[critic] has no effect with ppo.critic.kind = 'shared': remove one of them")
        if self.critic is not None and self.critic.start != "policy":
            try:
                critic_role(self, self.critic.start)
            except InputError as error:
                raise ValueError(str(error)) from error
        return self


class GRPORecipe(Online):
    """GRPO: groups of samples, no critic."""

    method: Literal["grpo"]
    grpo: GRPO = GRPO()
    """The method's own settings."""

    @model_validator(mode="after")
    def _groups(self) -> Self:
        if self.rollout.group_size < 2:
            raise ValueError("GRPO compares samples of one prompt: rollout.group_size must be at least 2")
        return self


class SFTRecipe(Common):
    """Imitation of demonstrations, or continued pretraining on documents."""

    method: Literal["sft"]
    data: TextRows
    """What to imitate."""
    sft: SFT = SFT()
    """The method's own settings."""
    actor: Learner = Learner()
    """How the model is updated."""
    evaluate: RowEvaluation = NoEvaluation()
    """Evaluation inside training, on the rows that `data.held_out` keeps back."""
    sharpen: float = Field(default=1.0, gt=0)
    """Factor on the output head of the finished model (1.15 bakes in a sampling temperature of 0.87)."""
    stop_minutes: float | None = Field(default=None, gt=0)
    """Wall-clock minutes after which the run ends early."""


class RewardModelRecipe(Common):
    """A reward model from preference pairs."""

    method: Literal["reward_model"]
    data: PairFile
    """The pairs."""
    pairwise: Pairwise = Pairwise()
    """The method's own settings."""
    actor: Learner = Learner()
    """How the model is updated."""
    evaluate: RowEvaluation = NoEvaluation()
    """Evaluation inside training, on the rows that `data.held_out` keeps back."""
    stop_minutes: float | None = Field(default=None, gt=0)
    """Wall-clock minutes after which the run ends early."""


class ProcessRewardModelRecipe(Common):
    """A process reward model from labelled steps."""

    method: Literal["process_reward_model"]
    data: StepFile
    """The rows."""
    process: Process = Process()
    """The method's own settings."""
    actor: Learner = Learner()
    """How the model is updated."""
    evaluate: RowEvaluation = NoEvaluation()
    """Evaluation inside training, on the rows that `data.held_out` keeps back."""
    stop_minutes: float | None = Field(default=None, gt=0)
    """Wall-clock minutes after which the run ends early."""


class NoLabels(Section):
    """Samples and their scores, nothing more."""

    kind: Literal["none"] = "none"


class BradleyTerryLabels(Section):
    """The laboratory's pairs: the two samples of a prompt, P(first preferred) = σ(difference of true scores)."""

    kind: Literal["bradley_terry"]


class StepLabels(Section):
    """Steps of the completions, each worth the share of rollouts from its end that come out right."""

    kind: Literal["steps"]
    step: str = Field(default="\n\n", min_length=1)
    """What separates steps: text, or the text of a special token."""
    rollouts: int = Field(default=8, ge=1)
    """Completions drawn from the end of each step."""
    label: Literal["rate", "any"] = "rate"
    """The share that came out right, or 1 where any did."""


class JudgeLabels(Section):
    """Pairs of a prompt's samples, labelled by a judge that is asked in both orders (AI feedback)."""

    kind: Literal["judge"]
    judge: str
    """Its name in [judges]: one that compares pairs. It labels, and gives no scores in this job."""
    pairs: int = Field(default=1, ge=1)
    """Pairs of each prompt, at most; no sample is in two while others are in none."""
    agreement: bool = True
    """Leave out pairs whose preferred answer changes with the order: a tie."""
    at_least: float = Field(default=0.5, ge=0.5, lt=1)
    """Leave out pairs in which the preferred answer's probability, averaged over both orders, is below this."""


Labels: TypeAlias = Annotated[NoLabels | BradleyTerryLabels | StepLabels | JudgeLabels, Field(discriminator="kind")]


class SampleRecipe(Section):
    """A sampling job: prompts × n, scored, into a file; and pairs from it if asked."""

    method: Literal["sample"]
    seed: Seed = 0
    """Everything random follows from it."""
    model: Model | None = None
    """The model that samples."""
    start_from: str | None = None
    """Or the run whose model samples."""
    task: TaskConfig
    """Prompts and scorers."""
    data: PromptData | None = None
    """The file of a task that reads one."""
    split: Literal["train", "heldout"] = "train"
    """Which of the task's prompts."""
    rollout: Rollouts = Rollouts()
    """How many prompts, and samples of each."""
    sampling: Sampling = Sampling()
    """How completions are drawn."""
    engine: NativeEngineConfig = NativeEngineConfig()
    """What draws them."""
    labels: Labels = NoLabels()
    """What is made of the samples: preference pairs, or labelled steps."""
    judges: Judges = Field(default_factory=dict)
    """Models that are asked what they think of samples, by the name that their scores have."""
    select: Select | None = None
    """How `ropewalk select` looks at this job's prompts; sampling does not read it."""
    hardware: Hardware = Hardware()
    """Devices, threads."""

    @model_validator(mode="after")
    def _one_start(self) -> Self:
        if (self.model is None) == (self.start_from is None):
            raise ValueError("give either [model] (with kind and path) or start_from, the run to start from")
        if self.labels.kind == "bradley_terry" and (self.task.kind != "city" or self.rollout.group_size != 2):
            raise ValueError("labels.kind = 'bradley_terry' needs the city task and rollout.group_size = 2")
        check_siblings(self.judges, self.rollout.group_size)
        if isinstance(self.labels, JudgeLabels):
            self._check_labels(self.labels)
        return self

    def _check_labels(self, labels: JudgeLabels) -> None:
        judge = self.judges.get(labels.judge)
        if judge is None:
            there = ", ".join(self.judges) or "none"
            raise ValueError(f"labels.judge = {labels.judge!r} is none of [judges]: there are {there}")
        if not isinstance(judge, PairwiseJudge):
            raise ValueError(f"labels.judge = {labels.judge!r} marks single answers: labels need a pairwise judge")
        if self.rollout.group_size < 2:
            raise ValueError(
                "labels.kind = 'judge' compares samples of one prompt: set rollout.group_size to 2 or more"
            )


class Stage(Section):
    """One stage of a chain."""

    name: str = Field(pattern=r"^[\w-]+$")
    """Its folder in the chain's folder, and what `stage:NAME` refers to."""
    recipe: str
    """A built-in recipe's name or a file."""
    set: Mapping[str, Any] = {}
    """Dotted keys that replace the recipe's; `stage:NAME` means an earlier stage's folder."""
    cache: bool = False
    """Keep the finished stage in the user's cache, and take it from there next time."""


class StagesRecipe(Section):
    """A chain of stages."""

    method: Literal["stages"]
    seed: Seed = 0
    """Handed to every stage."""
    at_once: int = Field(default=1, ge=1)
    """Stages that may run at the same time."""
    stage: tuple[Stage, ...]
    """The stages, each after those it refers to."""


OnlineRecipe: TypeAlias = PPORecipe | GRPORecipe
RowRecipe: TypeAlias = SFTRecipe | RewardModelRecipe | ProcessRewardModelRecipe
TrainingRecipe: TypeAlias = PPORecipe | GRPORecipe | RowRecipe
Recipe: TypeAlias = TrainingRecipe | SampleRecipe | StagesRecipe
SCHEMA = Annotated[Recipe, Field(discriminator="method")]


def built_in() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    folder = Path(str(resources.files("ropewalk"))) / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def recipe_path(name: str | Path) -> Path:
    """The file of a built-in recipe, or the file named."""
    path = built_in().get(str(name), Path(name))
    if (path / "recipe.toml").is_file():
        raise InputError(f"{name} is a run folder: resume it, or name {path / 'recipe.toml'} to train by its recipe")
    if not path.is_file():
        near = get_close_matches(str(name), built_in(), n=1)
        mend = f"did you mean {near[0]}?" if near else f"give a .toml file or one of {', '.join(built_in())}"
        raise InputError(f"there is no recipe {name}: {mend}")
    return path


def read_recipe(name: str | Path, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe by name or file, with overrides by dotted key. Raises `ConfigError` with every problem at once."""
    path = recipe_path(name)
    try:
        return load_recipe(read_toml(path), overrides)
    except ConfigError as error:
        if path.name != "recipe.toml":
            raise
        raise ConfigError([f"{path}: {problem}" for problem in error.problems]) from error


def load_recipe(data: Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe from its content."""
    recipe: Recipe = load(SCHEMA, data, dict(overrides or {}))
    return recipe


def recipe_text(recipe: Recipe) -> str:
    """The resolved recipe, as a file that loads to the same."""
    return to_toml(recipe)
