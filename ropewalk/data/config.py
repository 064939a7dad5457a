"""Sections of a recipe that this package reads: files of rows and their columns, and which prompts are trained on."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from ropewalk.config.schema import Section


class Columns(Section):
    """What the columns of a file mean, where their names do not tell. Once one is named here, no other is looked at."""

    id: str | None = None
    """A name of the row, unique in the file."""
    text: str | None = None
    """A whole document."""
    prompt: str | None = None
    """What is asked: text, or a list of messages."""
    messages: str | None = None
    """A whole conversation: a list of messages (role and content, or from and value), the JSON text of one, or text in
    Human: / Assistant: turns."""
    system: str | None = None
    """The system message that goes before."""
    answer: str | None = None
    """The gold answer; where it has a `####`, what stands after the last one."""
    solution: str | None = None
    """The completion to imitate."""
    chosen: str | None = None
    """The better of two completions."""
    rejected: str | None = None
    """The worse of two completions."""
    steps: str | None = None
    """The steps of a completion: a list of texts."""
    labels: str | None = None
    """What each step is worth: a list of numbers from 0 to 1."""
    info: Mapping[str, str] = {}
    """Columns that scorers read, by the names they read them under."""


class RowFile(Section):
    """Where rows come from."""

    path: str
    """A file (.jsonl, .json, .csv, .parquet, .arrow; the text forms also as .gz), a folder of such files, one saved by
    the package `datasets`, or OWNER/NAME of a data set in the local hub cache."""
    split: str | None = None
    """Which part of a folder, such as `train` or `test`; by default its train part, or its only one."""
    columns: Columns = Columns()
    """What the columns mean."""
    max_characters: Annotated[int, Field(ge=1)] | None = None
    """Rows that say more than this, question and longest answer together, are refused and counted."""


class DialogueFile(RowFile):
    """Where rows that ask something come from."""

    system: Annotated[str, Field(pattern=r"\S")] | None = None
    """System message of all rows that have none of their own; their ids are as without it."""


class Keep(Section):
    """Which prompts are worth training on, by the share of a policy's samples that pass."""

    low: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Prompts that pass more seldom are left out: there is nothing to learn from yet."""
    high: Annotated[float, Field(ge=0, le=1)] = 0.9
    """Prompts that pass more often are left out: there is nothing to learn from any more."""
    least_judged: Annotated[int, Field(ge=1)] = 1
    """Prompts of which fewer samples could be judged are left out."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low = {self.low} is above high = {self.high}: no pass rate is between them")
        return self


class Buckets(Section):
    """Difficulties by pass rate."""

    hard_below: Annotated[float, Field(ge=0, le=1)] = 0.35
    """Prompts that pass more seldom are hard."""
    easy_above: Annotated[float, Field(ge=0, le=1)] = 0.65
    """Prompts that pass more often are easy; those between are medium."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.hard_below > self.easy_above:
            raise ValueError(f"hard_below = {self.hard_below} is above easy_above = {self.easy_above}")
        return self


class Coverage(Section):
    """How prompts are told to be alike, and how many of a kind are kept."""

    similarity: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Least share of word sequences that prompts of one cluster have in common with its first."""
    shingle_words: Annotated[int, Field(ge=1, le=8)] = 2
    """Length of those sequences."""
    largest_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Most that one cluster may be of what is kept; 1 leaves all."""


class Phase(Section):
    """How often a prompt of each difficulty comes at some point of a run, against one that comes once."""

    at: Annotated[float, Field(ge=0, le=1)]
    """Share of the run that is over."""
    easy: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    """Factor for easy prompts."""
    medium: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    """Factor for medium ones."""
    hard: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    """Factor for hard ones; above 1 they are oversampled."""


class Curriculum(Section):
    """Factors of the difficulties over a run: linear between the phases, constant before the first and after the
    last."""

    phases: tuple[Phase, ...] = (Phase(at=0.0, easy=2.0, hard=0.5), Phase(at=1.0, easy=0.5, hard=2.0))
    """In their order."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        places = [phase.at for phase in self.phases]
        if not places or any(late <= early for early, late in pairwise(places)):
            raise ValueError("a curriculum needs phases in their order, each at another share of the run")
        if any(phase.easy + phase.medium + phase.hard == 0 for phase in self.phases):
            raise ValueError("a phase of a curriculum needs a factor above 0")
        return self


class KeepFlat(Section):
    """Groups whose rewards are all equal train like any other, with advantages of 0."""

    kind: Literal["keep"] = "keep"


class DropFlat(Section):
    """Groups whose rewards are all equal, which teach nothing, are dropped."""

    kind: Literal["drop"] = "drop"
    tolerance: Annotated[float, Field(ge=0)] = 0.0
    """Rewards that differ by no more count as equal."""


class RefillFlat(Section):
    """Such groups are dropped and as many other prompts are drawn, within bounds."""

    kind: Literal["refill"] = "refill"
    tolerance: Annotated[float, Field(ge=0)] = 0.0
    """Rewards that differ by no more count as equal."""
    most: Annotated[float, Field(ge=1, le=100)] = 3.0
    """Groups drawn at most, as a multiple of those wanted; then the iteration goes on with what there is."""


FlatGroups: TypeAlias = Annotated[KeepFlat | DropFlat | RefillFlat, Field(discriminator="kind")]


class Solved(Section):
    """A sample passes as the task itself calls it solved."""

    kind: Literal["solved"] = "solved"


class Reaches(Section):
    """A sample passes where a scorer gives it enough."""

    kind: Literal["score"] = "score"
    scorer: str
    """The scorer, by name."""
    at_least: float = 1.0
    """The least score that passes."""


class Select(Section):
    """How `ropewalk select` measures prompts, and which it keeps."""

    samples: Annotated[int, Field(ge=1)] = 16
    """Samples of each prompt."""
    prompts: Annotated[int, Field(ge=1)] | None = None
    """How many prompts are looked at, drawn by the seed; all, if it is not given."""
    passes: Annotated[Solved | Reaches, Field(discriminator="kind")] = Solved()
    """What passes."""
    keep: Keep = Keep()
    """Which pass rates are worth training on."""
    buckets: Buckets = Buckets()
    """What is called easy, medium and hard."""
    coverage: Coverage = Coverage()
    """Which prompts are alike, and how many of a kind are kept."""

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.keep.least_judged > self.samples:
            raise ValueError(f"keep.least_judged = {self.keep.least_judged} is more than samples = {self.samples}")
        return self
