"""Before against after on held-out rows: same prompts, same seeds. What is found stands in the run's `eval.json`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ropewalk.models.config import FolderModel
from ropewalk.monitors.report.page import write_report
from ropewalk.records.errors import InputError
from ropewalk.records.files import dumps, write_atomic
from ropewalk.rollout.config import Sampling
from ropewalk.runtime.assemble import the_task
from ropewalk.runtime.config import GivenTask, TextRows
from ropewalk.runtime.evaluation.findings import Evaluation, SetFinding
from ropewalk.runtime.evaluation.judge import check_judge
from ropewalk.runtime.evaluation.pairs import completion_lengths, held_pairs, judged_sets, pair_finding, set_pairs
from ropewalk.runtime.evaluation.policies import (
    PolicyFolder,
    Question,
)
from ropewalk.runtime.evaluation.steps import held_steps, step_finding, step_scores
from ropewalk.runtime.evaluation.suite import PairSet, Suite, TaskSet, TextSet, read_suite
from ropewalk.runtime.evaluation.tasks import PolicyRecipe, asked_sets
from ropewalk.runtime.evaluation.texts import held_texts, read_texts, set_texts, text_finding
from ropewalk.runtime.prepare import Pair
from ropewalk.runtime.progress import Progress, Silent
from ropewalk.runtime.recipe import (
    ProcessRewardModelRecipe,
    RewardModelRecipe,
    SampleRecipe,
    SFTRecipe,
    StagesRecipe,
    TrainingRecipe,
    read_recipe,
)
from ropewalk.runtime.run import Run, model_folder, open_run
from ropewalk.tasks.config import CityCorpus
from ropewalk.tasks.load import load_task
from ropewalk.tasks.task import HELDOUT, Task

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
    reward model, or a TOML file with a judge of pairs, that gives a win rate. Raises `InputError` for what cannot be
    evaluated.
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
        return run, "last", run.task
    name, _, which = str(run).partition("@")
    return open_run(name), which or "last", None


def _evaluate(recipe: TrainingRecipe, run: Run, after: str, ask: Ask, progress: Progress) -> Evaluation:
    if isinstance(recipe, RewardModelRecipe):
        return _reward_model(recipe, run, after, ask, progress)
    if isinstance(recipe, ProcessRewardModelRecipe):
        return _process_reward_model(recipe, run, after, ask, progress)
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


def _process_reward_model(
    recipe: ProcessRewardModelRecipe, run: Run, after: str, ask: Ask, progress: Progress
) -> Evaluation:
    """The run's own held-out steps."""
    if ask.task is not None or ask.judge is not None or ask.samples is not None or ask.suite is not None:
        raise InputError(
            f"{run.folder} is a process reward model, which is evaluated on the steps that its run held out: give "
            "neither suite, task, judge nor samples"
        )
    if recipe.data.held_out == 0:
        raise InputError("the run held out no rows: train with data.held_out above 0")
    folders = [*([] if ask.model is None else [str(model_folder(ask.model))]), after]
    sides = [held_steps(recipe.data, folder, recipe.seed, progress)[: ask.prompts] for folder in folders]
    if [row.labels for row in sides[0]] != [row.labels for row in sides[-1]]:
        raise InputError("the two models do not find the same steps in the rows: compare models of one vocabulary")
    found = [step_scores(f, rows, recipe.hardware, progress) for f, rows in zip(folders, sides, strict=True)]
    finding = step_finding("held-out steps", sides[-1], found[0] if len(folders) > 1 else None, found[-1])
    return Evaluation(str(run.folder), folders[0] if len(folders) > 1 else None, after, [finding])


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
    questions, texts = _questions(recipe, ask), _text_sets(recipe, ask)
    if ask.suite is not None:
        _leave_out(ask.suite.pairs, "reward models", progress)
    if not questions and not texts:
        raise InputError("a policy is evaluated on tasks or texts: the suite has no [[set]] and no [[text]]")
    judge = None if ask.judge is None else check_judge(recipe, run, ask.judge)
    dtype = recipe.model.dtype if isinstance(recipe.model, FolderModel) else "float32"
    sides = [side for side in (policy_before(recipe, ask.model), PolicyFolder(after, dtype)) if side]
    before = sides[0].path if len(sides) > 1 else None
    if judge is not None and (before is None or not questions):
        raise InputError(
            "a judge compares answers of two models: name task sets, and --model FOLDER after fresh weights"
        )
    found = asked_sets(recipe, sides, questions, judge, progress) if questions else []
    if texts:
        found += _texts(recipe, sides, texts, progress)
    return Evaluation(str(run.folder), before, after, found, judge)


@dataclass(frozen=True, slots=True)
class Texts:
    """Rows to read: of a suite all, of the run's own those held out."""

    name: str
    data: TextRows
    held_only: bool


def _texts(
    recipe: PolicyRecipe, sides: Sequence[PolicyFolder], texts: Sequence[Texts], progress: Progress
) -> list[SetFinding]:
    rows = [
        [
            (one.name, (held_texts if one.held_only else set_texts)(one.data, side, recipe.seed, progress))
            for one in texts
        ]
        for side in sides
    ]
    nll = [read_texts(side, sets, recipe.hardware, progress) for side, sets in zip(sides, rows, strict=True)]
    return [
        text_finding(one.name, [sets[i][1] for sets in rows], nll[0][i] if len(sides) > 1 else None, nll[-1][i])
        for i, one in enumerate(texts)
    ]


def _text_sets(recipe: PolicyRecipe, ask: Ask) -> list[Texts]:
    """The suite's texts; of an SFT run without a suite, the rows it held out."""
    if ask.suite is not None:
        return [Texts(one.name, one.data, held_only=False) for one in ask.suite.text]
    if ask.task is not None or not isinstance(recipe, SFTRecipe):
        return []
    if isinstance(recipe.data, CityCorpus) or recipe.data.held_out == 0:
        raise InputError("this SFT run held out no rows: train with data.held_out above 0, or name sets with --suite")
    return [Texts("held-out rows", recipe.data, held_only=True)]


def _questions(recipe: PolicyRecipe, ask: Ask) -> list[Question]:
    """The sets of the suite; else the run's own task."""
    if ask.suite is not None:
        return [_set_question(recipe, one, ask) for one in ask.suite.set]
    if ask.task is not None:
        task = ask.task
    elif isinstance(recipe, SFTRecipe):
        return []
    elif isinstance(recipe.task, GivenTask):
        raise InputError("this run's task is a Python object: hand it to ropewalk.evaluate(run, suite=task)")
    else:
        task = the_task(recipe.task, recipe.data, None)
    count, samples = ask.prompts or PROMPTS, ask.samples or SAMPLES
    return [Question(task.name, task, HELDOUT, count, samples, _sampling(recipe, task))]


def _set_question(recipe: PolicyRecipe, one: TaskSet, ask: Ask) -> Question:
    task = load_task(one.task, one.data)
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
