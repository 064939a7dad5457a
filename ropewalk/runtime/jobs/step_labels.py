"""Labels for steps by rollouts: from the end of each step the policy goes on k times, and the step is worth the share
that came out right (Wang et al. 2024, "Math-Shepherd").

    completions ──▶ cut into steps ──▶ k requests a step (prompt ids + the very ids said so far) ──▶ scored by the task

Nothing is encoded again: a prefix is the ids that were sampled. Seeds follow from the run's seed, the completion, the
step and the rollout, so a row does not depend on what is labelled beside it. What is kept of a rollout is its verdict.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ropewalk.data.steps import StepValue, separators, steps_of
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Dialogue, Json, Prompt
from ropewalk.records.sample import Completion, Request, Sample, sample_of
from ropewalk.records.score import Failed
from ropewalk.records.version import Draw, sample_seed
from ropewalk.rollout.episode import check_failed, key_of
from ropewalk.rollout.inbox import Inbox
from ropewalk.rollout.native.text import Texts
from ropewalk.runtime.crew import complete
from ropewalk.runtime.learned.read import StepCutter, said_by
from ropewalk.runtime.learned.readers import step_cutter
from ropewalk.runtime.recipe import StepLabels
from ropewalk.runtime.sampler import Sampler
from ropewalk.tasks.scoring.pool import ScorerPool
from ropewalk.tasks.task import Task

MOST_AT_ONCE = 2048
"""Rollouts that are drawn and scored together; of those before only the verdicts are kept."""
UNREADABLE = ("wrong_format", "unparsable")
"""Failures that are the answer's own: what cannot be read as an answer is not right."""


class Prefix(NamedTuple):
    """A completion up to the end of one of its steps."""

    sample: int
    """Number of the completion."""
    step: int
    tokens: int
    """How many of the completion's own tokens it holds."""
    last: bool
    """Nothing can follow: the completion ended with it, or may have no more tokens."""


@dataclass(slots=True)
class Tally:
    """What a labelling job did."""

    answers: int = 0
    rows: int = 0
    steps: int = 0
    rollouts: int = 0
    """Drawn; `judged` of them have a verdict."""
    judged: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Completions and steps that gave no label, by reason."""
    labels: Counter[str] = field(default_factory=Counter)
    """Steps by tenth of their success rate."""

    def to_json(self) -> dict[str, Json]:
        found: dict[str, Json] = {
            name: getattr(self, name) for name in ("answers", "rows", "steps", "rollouts", "judged")
        }
        return {**found, "left out": dict(self.left_out), "steps by success rate": dict(sorted(self.labels.items()))}


def together(tallies: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums of what several parts of a job did."""
    found: dict[str, Any] = Tally().to_json()
    for tally in tallies:
        for name, value in tally.items():
            if isinstance(value, Mapping):
                found[name] = dict(sorted((Counter(found[name]) + Counter(value)).items()))
            else:
                found[name] += value
    return found


@dataclass(frozen=True, slots=True)
class StepLabeller:
    """Labels the steps of completions by rollouts of the policy that a sampler asks."""

    sampler: Sampler
    config: StepLabels
    tally: Tally

    def rows(self, samples: Sequence[Sample], prompts: Mapping[str, Prompt]) -> list[dict[str, Json]]:
        """A row for each completion with a labelled step, in order: the form that a process reward model trains on."""
        language = self.sampler.language
        cutter = step_cutter(language, self.config.step)
        self.tally.answers += len(samples)
        steps: dict[int, list[str]] = {}
        prefixes: list[Prefix] = []
        for number, sample in enumerate(samples):
            found = self._cut(sample, cutter)
            if found is not None:
                steps[number] = found[0]
                prefixes += [Prefix(number, step, *where) for step, where in enumerate(found[1])]
        values: dict[int, list[StepValue]] = {number: [] for number in steps}
        for prefix, value in self._values(samples, prefixes, prompts).items():
            values[prefix.sample].append(value)
        made = [self._row(samples[n], prompts, texts, values[n]) for n, texts in steps.items()]
        return [row for row in made if row is not None]

    def _cut(self, sample: Sample, cutter: StepCutter) -> tuple[list[str], list[tuple[int, bool]]] | None:
        """The texts of a completion's steps, and where each ends."""
        if sample.finish not in ("stop", "length"):
            self.tally.left_out["completions that were lost"] += 1
            return None
        ended = sample.finish == "stop"
        ids = sample.tokens_T[sample.policy_mask_T].tolist()
        ends = cutter.ends(said_by(sample))
        body = ids[:-1] if ids[-1] in cutter.eos_ids else ids
        text = cutter.decode(body)
        if not ended and not separators(text, cutter.separator):
            self.tally.left_out["completions cut off in their first step"] += 1
            return None
        texts = steps_of(text, cutter.separator, ended=ended)
        if len(texts) != len(ends) or not all(map(cutter.says, texts)):
            self.tally.left_out["completions without text, or with a token that ends two steps"] += 1
            return None
        most = sample.sampling.max_new_tokens
        return texts, [(end + 1, (ended and end + 1 == len(ids)) or end + 1 >= most) for end in ends]

    def _values(
        self, samples: Sequence[Sample], prefixes: Sequence[Prefix], prompts: Mapping[str, Prompt]
    ) -> dict[Prefix, StepValue]:
        task = self.sampler.rollouts.task
        asked: list[Request] = []
        of: list[Prefix] = []
        for prefix in prefixes:
            if not prefix.last:
                requests = self._requests(samples[prefix.sample], prefix)
                asked += requests
                of += [prefix] * len(requests)
        self.tally.rollouts += len(asked)
        values = {prefix: StepValue(0, 0, rolled=not prefix.last) for prefix in prefixes}
        for start in range(0, len(asked), MOST_AT_ONCE):
            some = slice(start, start + MOST_AT_ONCE)
            for prefix, right in zip(of[some], self._verdicts(samples, of[some], asked[some], prompts), strict=True):
                values[prefix] = _counted(values[prefix], right)
        for prefix in (prefix for prefix in prefixes if prefix.last):
            values[prefix] = _counted(values[prefix], verdict(task, samples[prefix.sample]))
        return values

    def _verdicts(
        self,
        samples: Sequence[Sample],
        of: Sequence[Prefix],
        asked: Sequence[Request],
        prompts: Mapping[str, Prompt],
    ) -> list[bool | None]:
        """Of each rollout; they are scored as they come."""
        rollouts, failed = self.sampler.rollouts, 0
        places = {key_of(request): place for place, request in enumerate(asked)}
        inbox = Inbox(asked)
        inbox.close()
        with ScorerPool(rollouts.task, workers=rollouts.scorers) as pool:

            def heard(completion: Completion) -> None:
                nonlocal failed
                failed += completion.finish == "failed"
                place = places[key_of(completion.request)]
                whole = self._whole(samples[of[place].sample], of[place], sample_of(completion))
                pool.put(place, prompts[whole.prompt_id], whole)

            complete(rollouts.crew, inbox, heard)
            check_failed(failed, len(asked))
            return [verdict(rollouts.task, scored) for scored in pool.results()]

    def _requests(self, sample: Sample, prefix: Prefix) -> list[Request]:
        said = np.flatnonzero(sample.policy_mask_T)[prefix.tokens - 1] + 1
        sampling = replace(sample.sampling, max_new_tokens=sample.sampling.max_new_tokens - prefix.tokens)
        group = f"{sample.group_id}/{sample.index}/step {prefix.step}"
        key = f"{sample.prompt_id}/{sample.index}/step {prefix.step}"
        ids, seed = sample.tokens_T[:said], self.sampler.rollouts.seed
        return [
            Request(sample.prompt_id, group, number, sample_seed(seed, Draw.STEP_ROLLOUTS, key, number), ids, sampling)
            for number in range(self.config.rollouts)
        ]

    def _whole(self, start: Sample, prefix: Prefix, rest: Sample) -> Sample:
        """The completion that a rollout and its prefix make, as the task scores it."""
        before = start.tokens_T[start.policy_mask_T][: prefix.tokens].tolist()
        after = rest.tokens_T[rest.policy_mask_T].tolist()
        sampling = start.sampling
        text, _ = Texts(self.sampler.language.tokenizer).final(before + after, sampling.eos_ids, sampling.stop_strings)
        prompt, said = len(rest.tokens_T) - len(before) - len(after), len(rest.tokens_T) - len(after)
        mask_T, logprobs_T = np.arange(len(rest.tokens_T)) >= prompt, rest.logprobs_T.copy()
        logprobs_T[prompt:said] = start.logprobs_T[prompt:said]
        return replace(rest, text=text, policy_mask_T=mask_T, logprobs_T=logprobs_T)

    def _row(
        self, sample: Sample, prompts: Mapping[str, Prompt], texts: Sequence[str], values: Sequence[StepValue]
    ) -> dict[str, Json] | None:
        """The labelled steps up to the first without a verdict."""
        known = next((n for n, value in enumerate(values) if not value.judged), len(values))
        self.tally.left_out["steps without a judged rollout"] += len(values) - known
        if not known:
            return None
        kept = values[:known]
        self.tally.rows += 1
        self.tally.steps += known
        self.tally.judged += sum(value.judged for value in kept if value.rolled)
        for value in kept:
            self.tally.labels[f"{min(int(10 * value.label('rate')), 9) / 10:.1f}"] += 1
        return {
            "id": f"{sample.group_id}/{sample.index}",
            "prompt": fields_of(prompts[sample.prompt_id].dialogue),
            "steps": list(texts[:known]),
            "labels": [value.label(self.config.label) for value in kept],
            "finished": sample.finish == "stop" and known == len(values),
            "successes": [value.successes for value in kept],
            "judged": [value.judged for value in kept],
            "rolled": [value.rolled for value in kept],
            "low": [round(value.interval.low, 6) for value in kept],
            "high": [round(value.interval.high, 6) for value in kept],
        }


def check_one_turn(task: Task, prompts: Iterable[Prompt]) -> None:
    """Raises `InputError` for a prompt that is played in an environment."""
    for prompt in prompts:
        if task.environment_of(prompt) is not None:
            raise InputError(
                f"prompt {prompt.id} is played in an environment, whose answers cannot be drawn again from the middle: "
                "label the steps of tasks that are answered in one turn"
            )


def verdict(task: Task, sample: Sample) -> bool | None:
    """Whether a scored completion came out right; None where nobody could tell."""
    if sample.finish not in ("stop", "length"):
        return None
    found = task.verdict(sample)
    unreadable = any(isinstance(o, Failed) and o.reason in UNREADABLE for o in sample.scores.values())
    return False if found is None and unreadable else found


def fields_of(dialogue: Dialogue) -> Json:
    """A prompt as rows have it: text, or messages."""
    if isinstance(dialogue, str):
        return dialogue
    return [{"role": message.role, "content": message.content} for message in dialogue]


def _counted(value: StepValue, right: bool | None) -> StepValue:
    if right is None:
        return value
    return replace(value, successes=value.successes + right, judged=value.judged + 1)
