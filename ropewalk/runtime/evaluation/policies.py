"""A policy before against after: the same held-out prompts, the same seeds, every scorer of the task.

The unit of every interval is the prompt: a prompt's samples are averaged first, so that several samples of one
prompt never pass for as many independent observations.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ropewalk.data.intervals import Estimate, bootstrap_mean, wilson
from ropewalk.data.passk import pass_at_k
from ropewalk.models.language import Language
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Abstain, Failed, Score
from ropewalk.records.version import Draw
from ropewalk.rollout.config import NativeEngineConfig, Sampling
from ropewalk.runtime.config import Hardware
from ropewalk.runtime.evaluation.findings import Measure
from ropewalk.runtime.experience import TokenisedPrompts
from ropewalk.runtime.hosts.open import open_crew
from ropewalk.runtime.prepare import language_of, sampling_record, tokenised_prompts
from ropewalk.runtime.progress import Progress
from ropewalk.runtime.roles import FromPolicy
from ropewalk.runtime.rollouts import SCORERS, Rollouts, rules_of
from ropewalk.runtime.sampler import Sampler, policy_setup
from ropewalk.tasks.task import Task

Floats = npt.NDArray[np.float64]

CHUNK_SAMPLES = 256
"""Samples between two signs of progress."""


@dataclass(frozen=True, slots=True)
class PolicyFolder:
    """A policy and where it stands."""

    path: str
    dtype: str = "float32"

    def language(self) -> Language:
        return language_of(FromPolicy(self.path))


@dataclass(frozen=True, slots=True)
class Question:
    """One set to ask of both sides."""

    name: str
    task: Task
    split: str
    prompts: int
    samples: int
    sampling: Sampling

    def __post_init__(self) -> None:
        if self.sampling.temperature == 0 and self.samples > 1:
            raise InputError(
                f"set {self.name!r} asks for {self.samples} samples at temperature 0, which are all the same: "
                "ask for one, or raise the temperature"
            )


@dataclass(frozen=True, slots=True)
class Drawn:
    """What one side said to a question."""

    prompts: Sequence[Prompt]
    samples: Sequence[Sample]
    """Scored, prompt by prompt, `per_prompt` of each."""
    per_prompt: int

    def groups(self) -> list[Sequence[Sample]]:
        """The samples of each prompt."""
        n = self.per_prompt
        return [self.samples[start : start + n] for start in range(0, len(self.samples), n)]


@dataclass(frozen=True, slots=True)
class Place:
    """On what, and under which seed, both sides are sampled."""

    hardware: Hardware
    engine: NativeEngineConfig
    seed: int
    scorers: int = SCORERS
    """Threads that score."""


def common_prompts(question: Question, languages: Sequence[Language], progress: Progress) -> list[TokenisedPrompts]:
    """The question's prompts as each language reads them; those that one of them cannot hold are left out of all."""
    asked = question.task.first(question.split, question.prompts)
    read = [
        tokenised_prompts(asked, language, sampling_record(question.sampling, language), progress)
        for language in languages
    ]
    kept = set.intersection(*({prompt.id for prompt in side.prompts} for side in read))
    if not kept:
        raise InputError(f"set {question.name!r} has no prompt that both models can hold: shorten its completions")
    return [_only(side, kept) for side in read]


def _only(side: TokenisedPrompts, kept: set[str]) -> TokenisedPrompts:
    places = [place for place, prompt in enumerate(side.prompts) if prompt.id in kept]
    return TokenisedPrompts([side.prompts[i] for i in places], [side.ids[i] for i in places])


def draw(
    folder: PolicyFolder, questions: Sequence[tuple[Question, TokenisedPrompts]], place: Place, progress: Progress
) -> list[Drawn]:
    """What a policy says to each question; it is in memory only meanwhile."""
    progress.begin(f"loading {folder.path}", 1)
    language = folder.language()
    crew = open_crew(policy_setup(folder.path, place.hardware, place.engine, dtype=folder.dtype))
    try:
        found = []
        for question, prompts in questions:
            record = sampling_record(question.sampling, language)
            rules = rules_of(question.task, language, question.sampling, place.engine)
            rollouts = Rollouts(crew, question.task, record, place.seed, rules, place.scorers)
            sampler = Sampler(rollouts, language, prompts)
            progress.begin(f"{question.name}: {folder.path}", len(prompts))
            found.append(_draw(sampler, question, progress))
        return found
    finally:
        crew.close()


def _draw(sampler: Sampler, question: Question, progress: Progress) -> Drawn:
    samples: list[Sample] = []
    count = len(sampler.prompts)
    step = max(1, CHUNK_SAMPLES // question.samples)
    for start in range(0, count, step):
        chosen = range(start, min(start + step, count))
        samples += sampler.samples(chosen, group_size=question.samples, draw=Draw.EVALUATION)
        progress.advance(chosen.stop)
    return Drawn(sampler.prompts.prompts, samples, question.samples)


def task_measures(task: Task, before: Drawn | None, after: Drawn, extra: Sequence[str] = ()) -> list[Measure]:
    """The task's first scorer, its others and those of `extra` names, then pass@k for powers of two and all samples."""
    main = task.main_scorer
    columns: dict[str, Callable[[Drawn], Floats]] = {
        name: _scores(name) for name in (main, *(n for n in task.scorers if n != main), *extra)
    }
    n = after.per_prompt
    for k in sorted({2**power for power in range(n.bit_length())} | {n}):
        columns[f"pass@{k}"] = _passes(task, k)
    found = [compared(name, column(before) if before else None, column(after)) for name, column in columns.items()]
    measures = [measure for measure in found if measure is not None]
    if not measures or measures[0].name != main:
        raise InputError(f"scorer {main!r} of task {task.name!r} scored no sample: see to it first")
    return measures


def compared(name: str, before_P: Floats | None, after_P: Floats, *, higher_is_better: bool = True) -> Measure | None:
    """A measure from one value a prompt, NaN where there is none; over prompts that have one on both sides."""
    there = np.isfinite(after_P)
    if before_P is not None:
        there &= np.isfinite(before_P)
    if not there.any():
        return None
    after = estimate(after_P[there])
    if before_P is None:
        return Measure(name, after, higher_is_better=higher_is_better)
    before = estimate(before_P[there])
    difference = bootstrap_mean((after_P - before_P)[there])
    if difference.count == 1:  # one prompt says nothing of others
        difference = Estimate(difference.value, -np.inf, np.inf, 1)
    return Measure(name, after, before, difference, higher_is_better)


def estimate(values_P: Floats) -> Estimate:
    """Mean with its bootstrap interval; Wilson's where all values are 0 or all are 1, which no resample doubts."""
    first = float(values_P[0])
    if first in (0.0, 1.0) and (values_P == first).all():
        return wilson(len(values_P) if first else 0, len(values_P))
    return bootstrap_mean(values_P)


def _scores(name: str) -> Callable[[Drawn], Floats]:
    def column(drawn: Drawn) -> Floats:
        means = []
        for group in drawn.groups():
            values = [o.value for sample in group if isinstance(o := sample.scores.get(name), Score)]
            means.append(float(np.mean(values)) if values else np.nan)
        return np.array(means)

    return column


def _passes(task: Task, k: int) -> Callable[[Drawn], Floats]:
    def column(drawn: Drawn) -> Floats:
        passed = [sum(task.solves(s) for s in group) for group in drawn.groups()]
        return np.array([pass_at_k(drawn.per_prompt, count, k) for count in passed])

    return column


def about(question: Question, sides: Sequence[Drawn | None]) -> dict[str, Json]:
    """How much was asked, and every outcome that is no score."""
    asked = next(side for side in sides if side is not None)
    facts: dict[str, Json] = {"prompts": len(asked.prompts), "samples": question.samples}
    odd: Counter[str] = Counter()
    for side in sides:
        for sample in side.samples if side is not None else ():
            for name, outcome in sample.scores.items():
                if isinstance(outcome, Abstain | Failed):
                    odd[f"{name} {'failed' if isinstance(outcome, Failed) else 'abstained'}"] += 1
    return facts | dict(odd)


def by_id(prompts: Sequence[Prompt]) -> Mapping[str, Prompt]:
    return {prompt.id: prompt for prompt in prompts}
