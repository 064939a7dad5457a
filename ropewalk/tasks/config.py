"""Sections of a recipe that this package reads: the task and its corpus.

How scores become a reward is in `scoring/config.py`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from ropewalk.config.schema import Section, Seed
from ropewalk.data.config import DialogueFile
from ropewalk.tasks.scoring.kinds.config import Scorers
from ropewalk.tasks.scoring.numbers import AnswerPlace
from ropewalk.tasks.scoring.sandbox.jail import Isolation

Share: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0)]
Count: TypeAlias = Annotated[int, Field(ge=1)]


class CityTask(Section):
    """The laboratory: short travel sentences with a known true preference."""

    kind: Literal["city"] = "city"
    prompts: Count = 4096
    """Training prompts drawn from the first words, each with its own stream of samples."""
    heldout_prompts: Count = 512
    """Held-out prompts, drawn in the same way."""
    seed: Seed = 0
    """Of the draw of prompts."""


class Gsm8kTask(Section):
    """Grade-school word problems with a gold number; data.path names the file or folder."""

    kind: Literal["gsm8k"] = "gsm8k"
    instruction: str = "Solve the problem in a few short steps. End with a line '#### number'."
    """Follows the question in the prompt."""
    answer: AnswerPlace | Literal["maths"] = "anywhere"
    """Where a number counts: after a marker only, or else the last one too; `maths`: any spelling of it, as the maths
    scorer reads it, for which no answer is a failure and not a wrong one."""
    scorers: Scorers = Field(default_factory=dict)
    """More scorers beside `correct`, by name."""


class SumsTask(Section):
    """Short sums made by program, for small models."""

    kind: Literal["sums"] = "sums"
    low: int = 0
    """Smallest operand."""
    high: int = 20
    """Largest operand."""
    operations: tuple[Literal["+", "-", "*"], ...] = ("+",)
    """Operations to draw from."""
    operands: Annotated[int, Field(ge=2, le=5)] = 2
    """Numbers in a sum."""
    style: Literal["chat", "plain"] = "chat"
    """A question to a chat model, or a line such as `3 + 5 =` to continue."""
    prompts: Count = 512
    """Training sums; at most as many as there are."""
    heldout_prompts: Count = 128
    """Held-out sums, none of which is a training sum in another order."""
    seed: Seed = 0
    """Of the choice of sums."""
    scorers: Scorers = Field(default_factory=dict)
    """More scorers beside `correct` and `format`, by name."""


class PromptsTask(Section):
    """Prompts of a file, each with what its scorers ask for (a gold answer, an info); data.path names it."""

    kind: Literal["prompts"] = "prompts"
    answer: AnswerPlace = "anywhere"
    """Where a number counts if there are no other scorers: after a marker only, or else the last number too."""
    scorers: Scorers = Field(default_factory=dict)
    """Scorers by name, the first of which decides what is solved; none: `correct`, for the gold number."""

    @model_validator(mode="after")
    def _answers(self) -> Self:
        if self.scorers and self.answer != "anywhere":
            raise ValueError("answer has no effect beside scorers: give a scorer of kind = 'number' its own answer")
        return self


class FileTask(Section):
    """A task of the user's own."""

    kind: Literal["file"] = "file"
    path: str
    """A Python file that defines TASK; it is run as it stands."""
    scorers: Scorers = Field(default_factory=dict)
    """More scorers beside the task's own, by name."""


class GymTask(Section):
    """Procedural prompts of reasoning-gym, scored by their generator's own verifier."""

    kind: Literal["gym"] = "gym"
    generator: str
    """Its name, such as `leg_counting` or `sudoku`."""
    parameters: Mapping[str, Any] = {}
    """The generator's own settings, such as `max_animals = 5`; what is not given is its default."""
    instruction: str = "Give the final answer, and nothing else, between <answer> and </answer>."
    """Follows the question in the prompt."""
    answer: Literal["tags", "text"] = "tags"
    """What counts as the answer: the last `<answer>…</answer>`, or the whole completion."""
    isolation: Isolation = "bubblewrap"
    """Of the sandbox that checks answers to `simple_integration`; the others need none."""
    prompts: Count = 512
    """Training prompts; at most as many as there are."""
    heldout_prompts: Count = 128
    """Held-out prompts, none of which is a training prompt."""
    seed: Seed = 0
    """Of the prompts."""
    scorers: Scorers = Field(default_factory=dict)
    """More scorers beside `verified` and `solved`, by name."""


class EnvironmentTask(Section):
    """A folder with an `environment.toml`: prompts, a world with its tools, scorers."""

    kind: Literal["environment"] = "environment"
    path: str
    """The folder, or the name of a built-in one: number-guess, calculator, file-search."""


class VerifiersTask(Section):
    """An environment of the package verifiers (versions below 0.4), scored by its own rubric."""

    kind: Literal["verifiers"] = "verifiers"
    environment: str
    """Its name; a module of that name has `load_environment`."""
    arguments: Mapping[str, Any] = {}
    """What `load_environment` is given."""
    prompts: Count | None = None
    """Training rows; all if not given."""
    heldout_prompts: Count | None = None
    """Held-out rows, where it has evaluation rows; all if not given."""


class GymnasiumTask(Section):
    """A game registered with Gymnasium, played in words, scored by what it gives."""

    kind: Literal["gymnasium"] = "gymnasium"
    id: str
    """Its name, such as `Words-v0`."""
    register_file: str | None = None
    """A Python file that registers the game; it is run as it stands."""
    arguments: Mapping[str, Any] = {}
    """What the game is made with, such as `render_mode = "ansi"`."""
    instruction: str = "Play the game. Say one action a turn and nothing else."
    """Stands before the first observation."""
    action: Literal["text", "tags"] = "text"
    """What counts as the action: the whole turn, or the last `<answer>…</answer>`."""
    actions: tuple[str, ...] = ()
    """Words for the actions of a game that takes numbers, from 0 on."""
    prompts: Count = 512
    """Training games, each with a seed of its own."""
    heldout_prompts: Count = 64
    """Held-out games; their seeds follow."""
    seed: Seed = 0
    """Of the first game."""


OneTask: TypeAlias = Annotated[
    CityTask
    | Gsm8kTask
    | SumsTask
    | PromptsTask
    | FileTask
    | GymTask
    | EnvironmentTask
    | VerifiersTask
    | GymnasiumTask,
    Field(discriminator="kind"),
]
"""A task that is no mixture."""


class MixturePart(Section):
    """One of the tasks of a mixture."""

    weight: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """Its share of the prompts that are drawn, against the other parts' weights."""
    task: OneTask
    """Prompts and scorers."""
    data: DialogueFile | None = None
    """The file of a task that reads one."""


class MixtureTask(Section):
    """Several tasks in one run: prompts have ids NAME/…, and are scored by their own task alone."""

    kind: Literal["mixture"] = "mixture"
    parts: Annotated[dict[Annotated[str, Field(pattern=r"^[\w-]+$")], MixturePart], Field(min_length=1)]
    """The tasks, by names of your choice."""


TaskSection: TypeAlias = Annotated[
    CityTask
    | Gsm8kTask
    | SumsTask
    | PromptsTask
    | FileTask
    | GymTask
    | EnvironmentTask
    | VerifiersTask
    | GymnasiumTask
    | MixtureTask,
    Field(discriminator="kind"),
]


class CityCorpus(Section):
    """Sentences of the laboratory to pretrain on."""

    kind: Literal["city"] = "city"
    sentences: Count = 20_000
    """How many to draw."""
    shuffled_share: Share = 0.0
    """Share of sentences with shuffled words: 0.5 gives the corpus of the babbling reference."""
