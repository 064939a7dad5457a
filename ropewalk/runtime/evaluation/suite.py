"""Evaluation suites: TOML files of named sets of prompts, pairs or texts.

[[set]]                       [[pairs]]                     [[text]]
name = "sums"                 name = "harmless"             name = "answers"
samples = 8                   path = "pairs.jsonl"          kind = "demonstrations"
task = { kind = "sums" }                                    path = "rows.jsonl"
"""

from collections import Counter
from pathlib import Path

from pydantic import Field

from ropewalk.config.load import load, read_toml
from ropewalk.config.schema import Section
from ropewalk.records.errors import InputError
from ropewalk.rollout.config import Sampling
from ropewalk.runtime.config import PromptData, TextRows
from ropewalk.tasks.config import TaskSection


class SamplingChange(Section):
    """What a set samples otherwise than the run did."""

    temperature: float | None = Field(default=None, ge=0)
    """Logits are divided by it; 0 is greedy choice."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    """A completion that has not ended by then is cut."""
    stop: tuple[str, ...] | None = None
    """Strings that end a completion."""
    banned: tuple[str, ...] | None = None
    """Tokens that may never be said."""

    def of(self, sampling: Sampling) -> Sampling:
        """The run's sampling with these changes."""
        return sampling.model_copy(update=self.model_dump(exclude_none=True))


class TaskSet(Section):
    """Prompts of a task, sampled and scored: for policies."""

    name: str
    """What the set is called in tables and in `eval.json`."""
    task: TaskSection
    """Its prompts and scorers."""
    data: PromptData | None = None
    """The file of a task that reads one."""
    split: str = "heldout"
    """Which of the task's prompts."""
    prompts: int | None = Field(default=None, ge=1)
    """How many of them; by default what the command asks for."""
    samples: int | None = Field(default=None, ge=1)
    """Samples of each."""
    sampling: SamplingChange = SamplingChange()
    """What is sampled otherwise than in the run."""


class PairSet(Section):
    """Preference pairs of a file, all of them: for reward models."""

    name: str
    """What the set is called."""
    path: str
    """JSONL or JSON in one of the common shapes, plain or .gz."""
    max_tokens: int = Field(default=1024, ge=2)
    """Pairs with a longer side are refused and counted."""
    limit: int | None = Field(default=None, ge=1)
    """Use only the first pairs."""


class TextSet(Section):
    """Texts whose likelihood is measured: for policies."""

    name: str
    """What the set is called."""
    data: TextRows
    """Documents or demonstrations; every row is used."""


class Suite(Section):
    """Named sets."""

    set: tuple[TaskSet, ...] = ()
    """Tasks to sample."""
    pairs: tuple[PairSet, ...] = ()
    """Pairs to judge."""
    text: tuple[TextSet, ...] = ()
    """Texts to read."""


def read_suite(path: str | Path) -> Suite:
    """The suite of a file. `ConfigError` for wrong sections, `InputError` for no set or a name that occurs twice."""
    suite = load(Suite, read_toml(path))
    names = Counter([*(s.name for s in suite.set), *(p.name for p in suite.pairs), *(t.name for t in suite.text)])
    if not names:
        raise InputError(f"{path} names no set: write [[set]] with a name and a task, [[pairs]], or [[text]]")
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise InputError(f"{path} has two sets named {twice[0]!r}: names tell results apart")
    return suite
