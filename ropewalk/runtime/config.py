"""Recipe sections that the runtime itself reads."""

from typing import Annotated, Literal

from pydantic import Field

from ropewalk.config.schema import Section
from ropewalk.data.config import Curriculum, DialogueFile, FlatGroups, KeepFlat, RowFile
from ropewalk.tasks.config import CityCorpus, TaskSection
from ropewalk.tasks.scoring.config import Reward

LEARNED = "reward_model"
"""Name under which a learned reward's score stands beside the task's own scorers."""


class Stop(Section):
    """When a run ends; the first rule that holds."""

    iterations: int = Field(default=60, ge=1)
    """Iterations at most; the learning-rate schedule runs over exactly these."""
    minutes: float | None = Field(default=None, gt=0)
    """Wall-clock minutes of training, counted over resumes."""
    reward: float | None = None
    """End once the mean reward of an iteration reaches this."""
    kl: float | None = Field(default=None, gt=0)
    """End once the mean KL per sequence to the reference exceeds this many nats."""


class Checkpoints(Section):
    """When the complete state is saved, and which saves are kept."""

    every: int = Field(default=20, ge=1)
    """Iterations between saves; the last iteration is always saved."""
    keep: int = Field(default=1, ge=1)
    """Newest saves to keep; the best is kept besides."""
    best_by: str = "auto"
    """Metric whose highest value makes a save the best, `-NAME` the lowest; `auto` is the method's own."""


class Hardware(Section):
    """Where and how wide the work runs."""

    device: str = "auto"
    """`auto`, `cpu`, `cuda`, `cuda:1`, `mps`: anything torch names."""
    processes: int = Field(default=1, ge=1)
    """Data-parallel processes on this machine."""
    threads: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """CPU threads of each process; `auto` is one for small models, else the cores shared out."""
    micro_batch_tokens: int = Field(default=8192, ge=1)
    """Token budget of one micro-batch; smaller needs less memory and gives the same gradient."""


class NoEvaluation(Section):
    """Evaluate only when asked by `ropewalk eval`."""

    kind: Literal["off"] = "off"


class PeriodicEvaluation(Section):
    """Evaluate on held-out prompts inside training."""

    kind: Literal["every"] = "every"
    iterations: int = Field(default=10, ge=1)
    """Iterations between evaluations."""
    prompts: int = Field(default=64, ge=1)
    """Held-out prompts each time."""
    samples: int = Field(default=1, ge=1)
    """Samples per prompt."""


class PeriodicRows(Section):
    """Evaluate on held-out rows or pairs inside training."""

    kind: Literal["every"] = "every"
    iterations: int = Field(default=10, ge=1)
    """Iterations between evaluations."""
    rows: int = Field(default=256, ge=1)
    """Held-out rows (or pairs) each time."""


Evaluation = Annotated[NoEvaluation | PeriodicEvaluation, Field(discriminator="kind")]
RowEvaluation = Annotated[NoEvaluation | PeriodicRows, Field(discriminator="kind")]


class Rollouts(Section):
    """What is sampled at a time, of which prompts."""

    prompts: int = Field(default=16, ge=1)
    """Prompts of an iteration."""
    group_size: int = Field(default=1, ge=1)
    """Samples of each prompt."""
    scorers: int = Field(default=4, ge=1)
    """Threads that score finished samples beside the generation of others."""
    only: str | None = None
    """A file of JSON lines with ids, as `ropewalk select` writes: no other training prompts are drawn."""


class Gathering(Rollouts):
    """How much experience an iteration gathers, and from which prompts."""

    share_prompts: bool = False
    """Store the prompt of a group once in training batches (same gradient, fewer tokens)."""
    curriculum: Curriculum | None = None
    """How often prompts of each difficulty come over the run; by default as often as there are."""
    flat: FlatGroups = KeepFlat()
    """What becomes of groups whose rewards are all equal."""


class Documents(RowFile):
    """Plain text: every token after a document's first is a target."""

    kind: Literal["documents"]
    max_tokens: int = Field(default=1024, ge=2)
    """Longer rows are refused and counted."""
    held_out: float = Field(default=0.0, ge=0, lt=1)
    """Share of the rows kept for evaluation, chosen by a hash of what each asks."""
    limit: int | None = Field(default=None, ge=1)
    """Use only the first rows."""


class Demonstrations(DialogueFile):
    """Dialogues with the completion to imitate: only the completion's tokens are targets.

    Of preference pairs the chosen side is taken.
    """

    kind: Literal["demonstrations"]
    max_tokens: int = Field(default=1024, ge=2)
    """Longer rows are refused and counted."""
    held_out: float = Field(default=0.0, ge=0, lt=1)
    """Share of the rows kept for evaluation, chosen by a hash of what each asks."""
    limit: int | None = Field(default=None, ge=1)
    """Use only the first rows."""


TextRows = Annotated[Documents | Demonstrations | CityCorpus, Field(discriminator="kind")]


class PairFile(DialogueFile):
    """Preference pairs."""

    max_tokens: int = Field(default=1024, ge=2)
    """Pairs with a longer side are refused and counted."""
    held_out: float = Field(default=0.1, ge=0, lt=1)
    """Share of the pairs kept for evaluation, chosen by a hash of each pair's id."""
    limit: int | None = Field(default=None, ge=1)
    """Use only the first pairs."""


class StepFile(DialogueFile):
    """Completions in steps, each step labelled."""

    step: str = Field(default="\n\n", min_length=1)
    """What separates the steps: text, or the text of a special token."""
    max_tokens: int = Field(default=1024, ge=2)
    """Longer rows are refused and counted."""
    held_out: float = Field(default=0.1, ge=0, lt=1)
    """Share of the rows kept for evaluation, chosen by a hash of what each asks."""
    limit: int | None = Field(default=None, ge=1)
    """Use only the first rows."""


class PromptData(DialogueFile):
    """The file a task reads its prompts from."""


class GivenTask(Section):
    """A Task object handed to `ropewalk.train`; such a run is resumed from Python too."""

    kind: Literal["given"]


TaskConfig = Annotated[TaskSection | GivenTask, Field(discriminator="kind")]


class Judging(Section):
    """What completions in a file are scored by, where no recipe says it."""

    task: TaskConfig
    """Prompts and scorers."""
    data: PromptData | None = None
    """The file of a task that reads one."""
    reward: Reward = Reward()
    """How outcomes become one reward."""
