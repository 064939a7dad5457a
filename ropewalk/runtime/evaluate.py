"""Before against after on held-out rows: same prompts, same seeds. What is found stands in the run's `eval.json`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from ropewalk.models.config import FolderModel
from ropewalk.monitors.report.page import write_report
from ropewalk.records.errors import InputError
from ropewalk.records.files import dumps, write_atomic
from ropewalk.records.score import Abstain, Score
from ropewalk.rollout.config import NativeEngineConfig, Sampling
from ropewalk.runtime.assemble import the_task
from ropewalk.runtime.config import LEARNED, GivenTask, Hardware
from ropewalk.runtime.findings import Evaluation, Measure, SetFinding
from ropewalk.runtime.judge import Reading, check_judge, read_scores, win_rate, with_scores
from ropewalk.runtime.pair_eval import completion_lengths, held_pairs, judged_sets, pair_finding, set_pairs
from ropewalk.runtime.policy_eval import (
    Drawn,
    Place,
    PolicyFolder,
    Question,
    about,
    common_prompts,
    draw,
    task_measures,
)
from ropewalk.runtime.prepare import Pair
from ropewalk.runtime.progress import Progress, Silent
from ropewalk.runtime.recipe import (
    GRPORecipe,
    PPORecipe,
    RewardModelRecipe,
    SampleRecipe,
    SFTRecipe,
    StagesRecipe,
    TrainingRecipe,
    read_recipe,
)
from ropewalk.runtime.run import Run, model_folder, open_run
from ropewalk.runtime.suite import PairSet, Suite, TaskSet, TextSet, read_suite
from ropewalk.tasks.config import Component, Reward
from ropewalk.tasks.load import load_task
from ropewalk.tasks.scoring.compose import compose
from ropewalk.tasks.task import HELDOUT, Task

PolicyRecipe: TypeAlias = PPORecipe | GRPORecipe | SFTRecipe

REWARD = "reward"
"""Name of the composed reward beside the scores it is made of."""
Readings: TypeAlias = Sequence[Sequence[Reading]]
"""Per side, per set."""
PROMPTS, SAMPLES = 128, 4
"""Of each set, unless said otherwise."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What the caller wants evaluated."""

    suite: Suite | None = None
    task: Task | None = None
    model: str | None = None
    judge: str | None = None
    prompts: int | None = None
    samples: int | None = None


def evaluate(
    run: str | Path | Run,
    *,
    suite: str | Path | Task | None = None,
    model: str | Path | None = None,
    judge: str | Path | None = None,
    prompts: int | None = None,
    samples: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate a run (`runs/x`, or `runs/x@best`) against the model it started from; write `eval.json` and the report.

    By default on the held-out split of its own task, `prompts` of it and `samples` of each. `suite` names a TOML file
    of task sets (see `suite.py`), or is a Task. `model` is a folder to compare with in place of the start; `judge` a
    reward model that gives a win rate. Raises `InputError` for what cannot be evaluated.
    """
    progress = progress or Silent()
    found, which, given = _opened(run)
    recipe = read_recipe(found.recipe_file)
    if isinstance(recipe, StagesRecipe):
        stages = ", ".join(str(found.folder / stage.name) for stage in recipe.stage)
        raise InputError(f"{found.folder} is a chain of stages: evaluate one of them: {stages}")
    if isinstance(recipe, SampleRecipe):
        raise InputError(f"{found.folder} only sampled and trained nothing: name a run that did")
    ask = Ask(
        suite=None if suite is None or isinstance(suite, Task) else read_suite(suite),
        task=suite if isinstance(suite, Task) else given,
        model=None if model is None else str(model),
        judge=None if judge is None else str(judge),
        prompts=prompts,
        samples=samples,
    )
    after = str(model_folder(f"{found.folder}@{which}"))
    evaluation = _evaluate(recipe, found, after, ask, progress)
    write_atomic(found.folder / "eval.json", dumps(evaluation.to_json()) + "\n")
    write_report(found.folder)
    return evaluation


def _opened(run: str | Path | Run) -> tuple[Run, str, Task | None]:
    """The run, which of its models is meant, and the Task object it carries."""
    if isinstance(run, Run):
        return run, "last", None
    name, _, which = str(run).partition("@")
    return open_run(name), which or "last", None


def _evaluate(recipe: TrainingRecipe, run: Run, after: str, ask: Ask, progress: Progress) -> Evaluation:
    if isinstance(recipe, RewardModelRecipe):
        return _reward_model(recipe, run, after, ask, progress)
    return _policies(recipe, run, after, ask, progress)


def _reward_model(recipe: RewardModelRecipe, run: Run, after: str, ask: Ask, progress: Progress) -> Evaluation:
    if ask.task is not None or ask.judge is not None or ask.samples is not None:
        raise InputError(f"{run.folder} is a reward model, which answers nothing: give neither task, judge nor samples")
    folders = [*([] if ask.model is None else [str(model_folder(ask.model))]), after]
    sides = [_pair_sets(recipe, folder, ask, progress) for folder in folders]
    for (name, first), (_, last) in zip(sides[0], sides[-1], strict=True):
        if len(first) != len(last):
            raise InputError(f"the two reward models cannot read the same pairs of {name!r}: lower its max_tokens")
    scores = [judged_sets(folder, sets, recipe.hardware, progress) for folder, sets in zip(folders, sides, strict=True)]
    sets = [
        pair_finding(name, completion_lengths(pairs), scores[0][i] if len(folders) > 1 else None, scores[-1][i])
        for i, (name, pairs) in enumerate(sides[-1])
    ]
    return Evaluation(str(run.folder), folders[0] if len(folders) > 1 else None, after, sets)


def _pair_sets(
    recipe: RewardModelRecipe, folder: str, ask: Ask, progress: Progress
) -> list[tuple[str, Sequence[Pair]]]:
    """The pairs of the suite, else those that the run held out, as a model reads them."""
    if ask.suite is not None:
        _leave_out([*ask.suite.set, *ask.suite.text], "policies", progress)
        found = [(one.name, set_pairs(one, folder, progress)) for one in ask.suite.pairs]
        if not found:
            raise InputError("a reward model is evaluated on pairs: the suite has no [[pairs]]")
    elif recipe.data.held_out == 0:
        raise InputError("the run held out no pairs: train with data.held_out above 0, or name pairs with --suite")
    else:
        found = [("held-out pairs", held_pairs(recipe.data, folder, recipe.seed, progress))]
    return [(name, pairs[: ask.prompts]) for name, pairs in found]


def _leave_out(sets: Sequence[TaskSet | TextSet | PairSet], whose: str, progress: Progress) -> None:
    if sets:
        progress.say(f"left out, for {whose} only: {', '.join(one.name for one in sets)}")


def _policies(recipe: PolicyRecipe, run: Run, after: str, ask: Ask, progress: Progress) -> Evaluation:
    questions = _questions(recipe, ask)
    judge = None if ask.judge is None else check_judge(recipe, run, ask.judge)
    sides = [side for side in (policy_before(recipe, ask.model), PolicyFolder(after, _dtype(recipe))) if side]
    if judge is not None and len(sides) < 2:
        raise InputError(
            f"{run.folder} began with fresh weights, so a judge has nothing to compare: give --model FOLDER"
        )
    languages = [side.language() for side in sides]
    engine = recipe.engine if isinstance(recipe, PPORecipe | GRPORecipe) else NativeEngineConfig()
    place = Place(recipe.hardware, engine, recipe.seed)
    read = [common_prompts(question, languages, progress) for question in questions]
    said = [
        draw(side, [(q, prompts[i]) for q, prompts in zip(questions, read, strict=True)], place, progress)
        for i, side in enumerate(sides)
    ]
    readings: Readings = [
        [Reading(one, language) for one in side] for side, language in zip(said, languages, strict=True)
    ]
    readings = with_learned(recipe, readings, progress)
    preferred = None if judge is None else _judged(judge, readings, recipe.hardware, progress)
    sets = []
    for number, question in enumerate(questions):
        drawn = [side[number].drawn for side in readings]
        found = _set_finding(recipe, question, drawn)
        sets.append(found if preferred is None else _with_win_rate(found, preferred[number]))
    before = sides[0].path if len(sides) > 1 else None
    return Evaluation(str(run.folder), before, after, sets, judge)


def _set_finding(recipe: PolicyRecipe, question: Question, drawn: Sequence[Drawn]) -> SetFinding:
    extra = []
    if all(LEARNED in sample.scores for side in drawn for sample in side.samples):
        extra.append(LEARNED)
    rewarded = [with_reward(recipe, question.task, side) for side in drawn]
    if rewarded[0] is not drawn[0]:
        extra.append(REWARD)
    before = rewarded[0] if len(rewarded) > 1 else None
    measures = task_measures(question.task, before, rewarded[-1], extra)
    return SetFinding(question.name, measures, about(question, [before, rewarded[-1]]))


def with_reward(recipe: PolicyRecipe, task: Task, drawn: Drawn) -> Drawn:
    """The samples with the recipe's weighted sum of scores as one more, where that is not simply the first scorer.

    Nothing is subtracted: a frozen mean shifts both sides alike.
    """
    if isinstance(recipe, SFTRecipe) or REWARD in task.scorers:
        return drawn
    weights = {name: component.weight for name, component in recipe.reward.components.items()}
    names = {name for sample in drawn.samples for name in sample.scores}
    if len(weights) < 2 or not names >= weights.keys():
        return drawn
    raw = Reward(components={name: Component(weight=weight) for name, weight in weights.items()})
    composed = compose(raw, [sample.scores for sample in drawn.samples], {})
    samples = [
        sample.with_scores(**{REWARD: Score(float(reward)) if valid else Abstain()})
        for sample, reward, valid in zip(drawn.samples, composed.reward_R, composed.valid_R, strict=True)
    ]
    return replace(drawn, samples=samples)


def with_learned(recipe: PolicyRecipe, readings: Readings, progress: Progress) -> Readings:
    """Readings with the scores of the run's own reward model, where it has one that is still there."""
    if isinstance(recipe, SFTRecipe) or recipe.reward_model is None:
        return readings
    if not Path(recipe.reward_model.partition("@")[0]).is_dir():
        progress.say(f"the run's reward model {recipe.reward_model} is gone, so its scores are left out")
        return readings
    folder = str(model_folder(recipe.reward_model))
    flat = [reading for side in readings for reading in side]
    scores = iter(read_scores(folder, flat, recipe.hardware, progress))
    return [[replace(r, drawn=with_scores(r.drawn, LEARNED, next(scores))) for r in side] for side in readings]


def _judged(judge: str, readings: Readings, hardware: Hardware, progress: Progress) -> list[tuple[Measure, int]]:
    """The win rate on every set, and the ties."""
    before, after = readings
    scores = read_scores(judge, [*before, *after], hardware, progress)
    pairs = zip(scores[: len(before)], scores[len(before) :], before, strict=True)
    return [win_rate(first, second, reading.drawn.per_prompt) for first, second, reading in pairs]


def _with_win_rate(found: SetFinding, preferred: tuple[Measure, int]) -> SetFinding:
    rate, ties = preferred
    return replace(found, measures=[*found.measures, rate], about={**found.about, "judge's ties": ties})


def _questions(recipe: PolicyRecipe, ask: Ask) -> list[Question]:
    """The sets of the suite; else the run's own task."""
    if ask.suite is not None:
        return [_set_question(recipe, one, ask) for one in ask.suite.set]
    if ask.task is not None:
        task = ask.task
    elif isinstance(recipe, SFTRecipe):
        raise InputError("an SFT run has no task of its own: name task sets or texts with --suite")
    elif isinstance(recipe.task, GivenTask):
        raise InputError("this run's task is a Python object: hand it to ropewalk.evaluate(run, suite=task)")
    else:
        task = the_task(recipe.task, recipe.data, None)
    count, samples = ask.prompts or PROMPTS, ask.samples or SAMPLES
    return [Question(task.name, task, HELDOUT, count, samples, _sampling(recipe, task))]


def _set_question(recipe: PolicyRecipe, one: TaskSet, ask: Ask) -> Question:
    task = load_task(one.task, one.data.path if one.data else None)
    sampling = one.sampling.of(_sampling(recipe, task))
    count = one.prompts or ask.prompts or PROMPTS
    return Question(one.name, task, one.split, count, one.samples or ask.samples or SAMPLES, sampling)


def _sampling(recipe: PolicyRecipe, task: Task) -> Sampling:
    """The run's sampling; a run that samples nothing takes what the task says of itself."""
    if not isinstance(recipe, SFTRecipe):
        return recipe.sampling
    banned = task.vocabulary.banned if task.vocabulary is not None else ()
    longest = {} if task.max_new_tokens is None else {"max_new_tokens": task.max_new_tokens}
    return Sampling(banned=banned, **longest)


def policy_before(recipe: TrainingRecipe, model: str | None) -> PolicyFolder | None:
    """The policy to compare with: `model`, else what the run started from; None for fresh weights."""
    if model is not None:
        return PolicyFolder(str(model_folder(model)))
    if recipe.start_from is not None:
        return PolicyFolder(str(model_folder(recipe.start_from)))
    if isinstance(recipe.model, FolderModel):
        return PolicyFolder(str(model_folder(recipe.model.path)), recipe.model.dtype)
    return None


def _dtype(recipe: TrainingRecipe) -> str:
    return recipe.model.dtype if isinstance(recipe.model, FolderModel) else "float32"
