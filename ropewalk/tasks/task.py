"""A task: prompts by split, and scorers by name.

    TASK = Task(name="short", prompts=["Name a fruit.", "Name a tree."], scorers={"reward": brevity})

where `brevity(prompt, sample)` returns a number, a bool, None (no opinion), or a `Score`, `Abstain` or
`Failed`. Prompt ids are unique in the whole task and stable over runs: seeds and accounting hang on them.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import TypeAlias

from ropewalk.data.order import PART
from ropewalk.data.split import is_held_out
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Outcome, Score
from ropewalk.tasks.environments.protocol import EnvironmentFactory

TRAIN, HELDOUT = "train", "heldout"
HELDOUT_SHARE = 0.1

Scorer: TypeAlias = Callable[[Prompt, Sample], Outcome | float | bool | None]
"""Judges one sample of one prompt; see `scoring.run.outcome_of` for what each return value means."""


@dataclass(frozen=True, slots=True)
class AtOnce:
    """A scorer that several threads may ask at once. Any other is asked by one at a time, not always the same one."""

    scorer: Scorer

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome | float | bool | None:
        return self.scorer(prompt, sample)


Prompts: TypeAlias = Sequence[Prompt | str]
PromptSource: TypeAlias = Prompts | Mapping[str, Prompts] | Callable[[str], Prompts]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a fresh model for this task can say: whitespace-separated words, one token each."""

    words: tuple[str, ...]
    eos: str
    """Ends a completion; it is a word of the text (a document already contains it)."""
    pad: str
    banned: tuple[str, ...] = ()
    """Words a policy may never say, in sampling and in log-probs alike."""

    def __post_init__(self) -> None:
        unknown = [word for word in (self.eos, self.pad, *self.banned) if word not in self.words]
        if unknown or len(set(self.words)) != len(self.words):
            raise InputError(f"a vocabulary needs distinct words with its special ones among them, missing: {unknown}")
        if self.eos in self.banned:
            raise InputError(f"the end word {self.eos!r} cannot be banned: no completion could finish")


def at_least_one(outcome: Outcome) -> bool:
    """The usual meaning of solved: a score of at least 1."""
    return isinstance(outcome, Score) and outcome.value >= 1.0


@dataclass(frozen=True)
class Task:
    """Prompts and scorers under one name."""

    name: str
    prompts: PromptSource
    """A list (a tenth is held out, by hash of the id), a list per split, or a function of the split's name."""
    scorers: Mapping[str, Scorer]
    """The first one is what `solved` looks at."""
    vocabulary: Vocabulary | None = None
    """For fresh models; None: the task is plain language."""
    solved: Callable[[Outcome], bool] = at_least_one
    """Whether an outcome of the first scorer counts for pass@1 and pass@k."""
    max_new_tokens: int | None = None
    """The longest completion that makes sense; None: the recipe's word alone."""
    environment: EnvironmentFactory | None = None
    """Makes the world that answers the policy's turns, one an episode; None: a prompt is answered in one turn."""
    refused: tuple[tuple[str, str], ...] = ()
    """Rows of the data that could not be used: where, and why."""
    parts: Mapping[str, "Task"] = field(default_factory=dict)
    """Of a mixture: its tasks, by the name that the `info.task` of their prompts gives; see `mixture`."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of a mixture: each part's share of the prompts that are drawn, on any scale."""
    _splits: dict[str, tuple[Prompt, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.prompts, str):
            raise InputError(f"task {self.name!r} has a text for its prompts: give a list of prompts")
        if not self.scorers:
            raise InputError(f"task {self.name!r} has no scorer: give scorers={{'reward': function}}")
        for name, scorer in self.scorers.items():
            if not callable(scorer):
                raise InputError(f"scorer {name!r} of task {self.name!r} is no function: give f(prompt, sample)")

    @cached_property
    def main_scorer(self) -> str:
        """Name of the first scorer."""
        return next(iter(self.scorers))

    @property
    def rewarding(self) -> tuple[str, ...]:
        """The scorers that are the reward where a recipe names no components: the first, of a mixture each part's."""
        if not self.parts:
            return (self.main_scorer,)
        return tuple(dict.fromkeys(name for part in self.parts.values() for name in part.rewarding))

    def solves(self, sample: Sample) -> bool:
        """Whether a scored sample counts for pass@1 and pass@k, by the task that its prompt is of."""
        part = self.parts.get(str(sample.info.get(PART)))
        return part.solves(sample) if part is not None else self.solved(sample.scores[self.main_scorer])

    def verdict(self, sample: Sample) -> bool | None:
        """Whether a scored sample is solved; None where the scorer that says so has not judged it."""
        part = self.parts.get(str(sample.info.get(PART)))
        if part is not None:
            return part.verdict(sample)
        return self.solves(sample) if isinstance(sample.scores[self.main_scorer], Score) else None

    @property
    def plays(self) -> bool:
        """Whether any of its prompts is played in a world."""
        return self.environment is not None or any(part.plays for part in self.parts.values())

    def environment_of(self, prompt: Prompt) -> EnvironmentFactory | None:
        """Makes the world that this prompt is played in; None: it is answered in one turn."""
        part = self.parts.get(str(prompt.info.get(PART)))
        return part.environment_of(prompt) if part is not None else self.environment

    def split(self, name: str) -> tuple[Prompt, ...]:
        """The prompts of "train", "heldout" or a split of the task's own; read once.

        Raises InputError for an unknown split, an empty one, or a prompt id that occurs twice.
        """
        if name not in self._splits:
            self._splits.update(self._read(name))
        return self._splits[name]

    def first(self, split: str, count: int) -> list[Prompt]:
        """The first prompts of a split; of a mixture, of each of its parts in turn."""
        prompts = self.split(split)
        if not self.parts:
            return list(prompts[:count])
        by_part = [[p for p in prompts if p.info.get(PART) == name] for name in self.parts]
        turns = [prompt for turn in zip_longest(*by_part) for prompt in turn if prompt is not None]
        return turns[:count]

    def _read(self, name: str) -> dict[str, tuple[Prompt, ...]]:
        source = self.prompts
        if callable(source):
            found = {name: as_prompts(source(name))}
        elif isinstance(source, Mapping):
            if name not in source:
                raise InputError(f"task {self.name!r} has no split {name!r}: it has {', '.join(source)}")
            found = {split: as_prompts(prompts) for split, prompts in source.items()}
        else:
            if name not in (TRAIN, HELDOUT):
                raise InputError(f"task {self.name!r} has no split {name!r}: it has {TRAIN}, {HELDOUT}")
            found = split_prompts(as_prompts(source))
        self._check(name, found)
        return found

    def _check(self, name: str, found: Mapping[str, tuple[Prompt, ...]]) -> None:
        seen: set[str] = set()
        for prompts in (*self._splits.values(), *found.values()):
            for prompt in prompts:
                if prompt.id in seen:
                    raise InputError(f"prompt {prompt.id!r} occurs twice in task {self.name!r}: ids must be unique")
                seen.add(prompt.id)
        if not found[name]:
            raise InputError(f"split {name!r} of task {self.name!r} has no prompts: give at least two prompts")


def prompt_id(text: str) -> str:
    """The stable id of a prompt given as plain text: a hash of it."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def split_prompts(prompts: Iterable[Prompt], share: float = HELDOUT_SHARE) -> dict[str, tuple[Prompt, ...]]:
    """Split by a hash of the id, so that other rows do not decide where a row goes.

    Where the hash would leave a split of two or more prompts empty, one prompt is moved to it.
    """
    given = tuple(prompts)
    chosen = {p.id for p in given if is_held_out(p.id, share)}
    if len(given) > 1 and not chosen:
        chosen = {min(p.id for p in given)}
    if len(given) > 1 and len(chosen) == len(given):
        chosen.remove(min(chosen))
    return {
        TRAIN: tuple(p for p in given if p.id not in chosen),
        HELDOUT: tuple(p for p in given if p.id in chosen),
    }


def as_prompts(given: Prompts) -> tuple[Prompt, ...]:
    return tuple(p if isinstance(p, Prompt) else Prompt(id=prompt_id(p), dialogue=p) for p in given)
