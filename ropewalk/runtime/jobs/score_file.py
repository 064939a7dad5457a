"""Completions in a file, scored offline by the very code of a run: what each scorer says, and what reward it makes.

Nothing is loaded but the task. The rows of the file are one batch: what a recipe takes statistics over (a batch, or
all scores so far) it takes over them, on top of those that a run folder's run began with. A learned reward is not
computed here: its scores are read from the rows, where a run wrote them.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from ropewalk.config.load import ConfigError, load, read_toml
from ropewalk.data.forms import RefusedRow, parse
from ropewalk.data.order import PART
from ropewalk.data.rows import Row as FileRow
from ropewalk.data.rows import read_records
from ropewalk.monitors.samples import dialogue_text, outcome_read, outcome_shown
from ropewalk.records.errors import InputError
from ropewalk.records.files import SAMPLES_FORMAT, dumps, read_samples, write_atomic
from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.sample import Finish, Sample, SamplingRecord
from ropewalk.records.score import Abstain, Failed, Score
from ropewalk.runtime.assemble import reward_of, the_task
from ropewalk.runtime.config import LEARNED, GivenTask, Judging, PromptData
from ropewalk.runtime.progress import Progress, Silent
from ropewalk.runtime.recipe import built_in, read_recipe, recipe_path
from ropewalk.runtime.run import Run
from ropewalk.tasks.config import TaskSection
from ropewalk.tasks.environments.protocol import EPISODE
from ropewalk.tasks.files import task_from_file
from ropewalk.tasks.mixture import own_prompt
from ropewalk.tasks.scoring.compose import About, Composed, Statistics, compose
from ropewalk.tasks.scoring.config import NoLength, Reward
from ropewalk.tasks.scoring.explain import explain
from ropewalk.tasks.scoring.kinds.words import seen
from ropewalk.tasks.scoring.run import score_sample
from ropewalk.tasks.scoring.sandbox.shared import sandboxes
from ropewalk.tasks.task import HELDOUT, TRAIN, Task, prompt_id

_MADE = ("scores", "components", "terms", "reward")
_EVERY = 64
"""Rows between two signs of life."""
_MOST_TOKENS = 2**24
"""Of one completion: each costs memory."""


class Judge(NamedTuple):
    """What a file is scored by."""

    task: Task
    reward: Reward
    statistics: Statistics
    """Those that the first of the rows finds."""


class Line(NamedTuple):
    """One row of the file, ready to be scored."""

    where: str
    fields: Mapping[str, Any]
    """As it stood, for the file to be written."""
    prompt: Prompt
    sample: Sample
    tokens: int | None


@dataclass(frozen=True, slots=True)
class ScoredFile:
    """The rows of a file with their outcomes and rewards."""

    judge: Judge
    lines: Sequence[Line]
    """Their samples hold the outcomes."""
    about: Sequence[About]
    composed: Composed

    @property
    def scorers(self) -> dict[str, dict[str, Any]]:
        """Of each scorer: the mean, how many it scored, how many failed by reason, abstained, and were gated out."""
        found: dict[str, dict[str, Any]] = {}
        for name in dict.fromkeys(name for line in self.lines for name in line.sample.scores):
            outcomes = [line.sample.scores[name] for line in self.lines if name in line.sample.scores]
            scores = [outcome.value for outcome in outcomes if isinstance(outcome, Score)]
            metric = self.composed.metrics.get
            gated, part = metric(f"score/{name}/gated"), metric(f"reward/part/{name}")
            found[name] = {
                "mean": float(np.mean(scores)) if scores else None,
                "scored": len(scores),
                "failed": dict(sorted(Counter(o.reason for o in outcomes if isinstance(o, Failed)).items())),
                "abstained": sum(isinstance(outcome, Abstain) for outcome in outcomes),
                "gated": int(gated.total) if gated else 0,
                "adds": part.value if part and part.count else None,
            }
        return found

    def summary(self) -> dict[str, Any]:
        """For machines."""
        reward = self.composed.metrics["reward"]
        return {
            "task": self.judge.task.name,
            "rows": len(self.lines),
            "rewarded": int(reward.count),
            "reward": reward.value if reward.count else None,
            "scorers": self.scorers,
        }

    def explained(self, row: int) -> list[str]:
        """Row `row`, counted from 1, in words."""
        if not 1 <= row <= len(self.lines):
            raise InputError(f"there is no row {row}: the file has rows 1 to {len(self.lines)}")
        line, about = self.lines[row - 1], self.about[row - 1]
        said = explain(self.judge.reward, self.composed, row - 1, line.sample.scores, about)
        if line.sample.finish in ("failed", "aborted"):
            return said  # no scorer was shown it
        part = self.judge.task.parts.get(str(line.prompt.info.get(PART)))
        task, prompt = (self.judge.task, line.prompt) if part is None else (part, own_prompt(line.prompt))
        found = {f"{name}: ": seen(scorer, prompt, line.sample) for name, scorer in task.scorers.items()}
        return [
            next((f"{words} ({more})" for name, more in found.items() if more and words.startswith(name)), words)
            for words in said
        ]

    def write(self, path: Path) -> None:
        """Every row as it stood, with its outcomes, the parts of its reward, and their sum; the whole file or none."""
        rows = [
            {
                **{name: value for name, value in line.fields.items() if name not in _MADE},
                "scores": {name: outcome_shown(outcome) for name, outcome in line.sample.scores.items()},
                **record,
            }
            for line, record in zip(self.lines, self.composed.records, strict=True)
        ]
        write_atomic(path, "".join(_written(row) + "\n" for row in rows))


def _written(row: Mapping[str, Any]) -> str:
    """A row as JSON; half characters, which UTF-8 has none of, stay the escapes that they came as."""
    text = dumps(row)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(json.loads(text))
    return text


def score_file(
    judge: str | Judge,
    path: str | Path,
    *,
    set: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> ScoredFile:
    """Score the completions of a file; `judge` is named as `judge_of` says.

    Raises `InputError` with the file and the line for the first row that cannot be scored.
    """
    found = judge if isinstance(judge, Judge) else judge_of(judge, set)
    shown = progress or Silent()
    lines = read_lines(path, found)
    shown.begin("scoring", len(lines))
    scored = []
    with sandboxes():
        for number, line in enumerate(lines):
            scored.append(_scored(found, line))
            if number % _EVERY == 0:
                shown.advance(number)
    shown.advance(len(lines))
    about = [About(str(line.sample.info.get("domain", "")), line.tokens, line.sample.text) for line in scored]
    composed = compose(found.reward, [line.sample.scores for line in scored], found.statistics, about)
    return ScoredFile(found, scored, about, composed)


# -- by what -------------------------------------------------------------------------------------------------------


def judge_of(name: str, overrides: Mapping[str, Any] | None = None) -> Judge:
    """The task and the reward of a recipe (built in, or a file), of a run folder, of a TOML file with [task] and
    [reward] alone, of a Python file that defines TASK, or of a kind of task with its defaults."""
    settings = dict(overrides or {})
    if name.endswith(".py"):
        extra = [key for key in settings if not key.startswith("reward.")]
        if extra:
            raise InputError(f"{extra[0]} cannot be set: {name} is the whole task, only keys of reward are left")
        judging: Judging = load(Judging, {"task": {"kind": "file", "path": name}}, settings)
        return Judge(task_from_file(name), judging.reward, {})
    if name in _kinds() and name not in built_in() and not Path(name).exists():
        return _judge(load(Judging, {"task": {"kind": name}}, settings))
    run = Run(Path(name))
    if run.recipe_file.is_file():
        known = run.lineage().get("reward_statistics")
        return _judge(read_recipe(run.recipe_file, settings), known if isinstance(known, dict) else {})
    try:
        path = recipe_path(name)
    except InputError as error:
        raise InputError(f"{error}; or a Python file with TASK, a run folder, or {', '.join(_kinds())}") from None
    data = read_toml(path)
    return _judge(read_recipe(name, settings) if "method" in data else _judging_file(path, data, settings))


def _judging_file(path: Path, data: Mapping[str, Any], settings: Mapping[str, Any]) -> Judging:
    try:
        found: Judging = load(Judging, data, settings)
    except ConfigError as error:
        raise ConfigError([f"{path}: {problem}" for problem in error.problems]) from error
    return found


def _judge(recipe: Any, statistics: Any = None) -> Judge:
    task = getattr(recipe, "task", None)
    if task is None:
        raise InputError(f"a recipe of method {recipe.method!r} has no task to score by: use one of PPO or GRPO")
    if isinstance(task, GivenTask):
        raise InputError("the task of this run was a Python object: name the Python file that defines it as TASK")
    data: PromptData | None = recipe.data
    found = the_task(task, data, None)
    return Judge(found, reward_of(getattr(recipe, "reward", Reward()), found), statistics or {})


def _kinds() -> tuple[str, ...]:
    """Kinds of tasks that need nothing to be said of them."""
    variants = get_args(get_args(TaskSection)[0])
    return tuple(
        str(variant.model_fields["kind"].default)
        for variant in variants
        if not any(field.is_required() for field in variant.model_fields.values())
    )


# -- the rows ------------------------------------------------------------------------------------------------------


def read_lines(path: str | Path, judge: Judge) -> list[Line]:
    """The rows of a file: completions with their prompts, or recorded rollouts."""
    rows = list(read_records(path))
    asked = Asked(judge.task)
    if rows[0].fields.get("format") == SAMPLES_FORMAT:
        return [_recorded(sample, f"{path} sample {n}", asked) for n, sample in enumerate(read_samples(path), 1)]
    return [_line(row, number, judge, asked) for number, row in enumerate(rows)]


class Asked:
    """A task's prompts, by id and by what a reader sees of them."""

    def __init__(self, task: Task) -> None:
        splits = tuple(task.prompts) if isinstance(task.prompts, Mapping) else (TRAIN, HELDOUT)
        prompts = [prompt for name in splits for prompt in self._split(task, name)]
        self.task = task
        self.by_id = {prompt.id: prompt for prompt in prompts}
        self.by_text = {dialogue_text(prompt.dialogue): prompt for prompt in prompts}

    @staticmethod
    def _split(task: Task, name: str) -> Sequence[Prompt]:
        try:
            return task.split(name)
        except InputError:
            if name == HELDOUT:
                return ()  # a task may hold nothing out
            raise

    def prompt(self, row: FileRow) -> Prompt:
        """The prompt that a row answers; its own gold and info stand over the task's."""
        found = self._named(row) or self._told(row)
        gold = {"gold": row.fields["gold"]} if "gold" in row.fields else {}
        info = row.fields.get("info", {})
        if not isinstance(info, Mapping):
            raise InputError(f"{row.where} has an info that is no object: write {{}} for none")
        return replace(found, **gold, info={**found.info, **info})

    def _named(self, row: FileRow) -> Prompt | None:
        name, text = row.fields.get("prompt_id"), row.fields.get("prompt")
        found = self.by_id.get(name) if isinstance(name, str) else None
        if found is not None and isinstance(text, str) and text != dialogue_text(found.dialogue):
            raise InputError(
                f"{row.where}: prompt {name!r} reads otherwise in task {self.task.name!r}: "
                "score it by the task and the data it was made with"
            )
        return found or (self.by_text.get(text) if isinstance(text, str) else None)

    def _told(self, row: FileRow) -> Prompt:
        fields = {key: value for key, value in row.fields.items() if key != "completion"}
        name = fields.get("prompt_id")
        if not any(key in fields for key in ("prompt", "messages", "question", "conversations")):
            of = f"{name!r}" if name is not None else "without a prompt_id"
            raise InputError(f"{row.where}: prompt {of} is none of task {self.task.name!r}, and has no text")
        if "gold" not in fields and "info" not in fields:
            raise InputError(
                f"{row.where}: its prompt is none of task {self.task.name!r}: "
                "give its gold answer, or an info, to score it all the same"
            )
        try:
            parsed = parse(fields)
        except RefusedRow as refusal:
            raise InputError(f"{row.where}: {refusal}") from None
        return Prompt(str(name) if name else prompt_id(dialogue_text(parsed.dialogue)), parsed.dialogue, parsed.gold)


def _line(row: FileRow, number: int, judge: Judge, asked: Asked) -> Line:
    fields = row.fields
    text, tokens, finish = fields.get("completion"), fields.get("tokens"), fields.get("finish", "stop")
    if not isinstance(text, str):
        raise InputError(f"{row.where} has no completion: give it as text")
    if isinstance(tokens, bool) or not isinstance(tokens, int | None) or not 0 <= (tokens or 0) <= _MOST_TOKENS:
        raise InputError(f"{row.where} has tokens = {tokens!r}: give the number of sampled tokens, or leave it out")
    if tokens is None and not isinstance(judge.reward.length, NoLength):
        raise InputError(f"{row.where} has no tokens, and the reward looks at length: give the number sampled")
    if finish not in get_args(Finish):
        raise InputError(f"{row.where} has finish = {finish!r}: it is one of {', '.join(get_args(Finish))}")
    prompt = asked.prompt(row)
    sample = _sample(prompt, number, text, finish, tokens or 0)
    if EPISODE in fields:
        sample = replace(sample, info={EPISODE: fields[EPISODE]})
    return Line(row.where, fields, prompt, sample.with_scores(**_known(row, judge)), tokens)


def _known(row: FileRow, judge: Judge) -> dict[str, Any]:
    """Outcomes that the reward looks at and the task does not give, such as a reward model's, as the row has them."""
    given = row.fields.get("scores")
    found = {}
    for name in judge.reward.looked_at():
        if name in judge.task.scorers:
            continue
        outcome = outcome_read(given.get(name)) if isinstance(given, Mapping) else None
        if outcome is None:
            there = "no model is loaded here" if name == LEARNED else f"the task scores {', '.join(judge.task.scorers)}"
            raise InputError(
                f"{row.where} has no score of {name!r}, and {there}: give it under scores, or take it out of the reward"
            )
        found[name] = outcome
    return found


def _sample(prompt: Prompt, number: int, text: str, finish: Any, tokens: int) -> Sample:
    """A sample of known text and length, whose ids are not known."""
    return Sample(
        prompt_id=prompt.id,
        group_id=prompt.id,
        index=number,
        seed=0,
        tokens_T=np.zeros(tokens, np.int64),
        policy_mask_T=np.ones(tokens, np.bool_),
        logprobs_T=np.zeros(tokens, np.float32),
        versions_T=np.zeros(tokens, np.int64),
        finish=finish,
        sampling=SamplingRecord(temperature=1.0, max_new_tokens=max(tokens, 1), eos_ids=()),
        text=text,
    )


def _recorded(sample: Sample, where: str, asked: Asked) -> Line:
    fields: dict[str, Json] = {"prompt_id": sample.prompt_id, "group_id": sample.group_id, "index": sample.index}
    fields |= {"completion": sample.text, "finish": sample.finish, "tokens": sample.completion_tokens}
    prompt = asked.by_id.get(sample.prompt_id)
    if prompt is None:
        raise InputError(f"{where}: prompt {sample.prompt_id!r} is none of task {asked.task.name!r}")
    return Line(where, fields, prompt, sample, sample.completion_tokens)


def _scored(judge: Judge, line: Line) -> Line:
    try:
        return line._replace(sample=score_sample(judge.task, line.prompt, line.sample))
    except InputError as error:
        raise InputError(f"{line.where}: {error}") from error
