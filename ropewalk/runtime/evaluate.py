"""Before against after on held-out rows: same prompts, same seeds. What is found stands in the run's `eval.json`."""

from dataclasses import dataclass
from pathlib import Path

from ropewalk.models.config import FolderModel
from ropewalk.monitors.report.page import write_report
from ropewalk.records.errors import InputError
from ropewalk.records.files import dumps, write_atomic
from ropewalk.rollout.config import NativeEngineConfig, Sampling
from ropewalk.runtime.assemble import the_task
from ropewalk.runtime.config import GivenTask
from ropewalk.runtime.findings import Evaluation, SetFinding
from ropewalk.runtime.policy_eval import (
    Place,
    PolicyFolder,
    Question,
    about,
    common_prompts,
    draw,
    task_measures,
)
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
from ropewalk.runtime.suite import Suite, TaskSet, read_suite
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
        raise InputError(f"{run.folder} trained a reward model, which is not evaluated yet")
    return _policies(recipe, run, after, ask, progress)


def _policies(
    recipe: PPORecipe | GRPORecipe | SFTRecipe, run: Run, after: str, ask: Ask, progress: Progress
) -> Evaluation:
    questions = _questions(recipe, ask)
    sides = [side for side in (policy_before(recipe, ask.model), PolicyFolder(after, _dtype(recipe))) if side]
    languages = [side.language() for side in sides]
    engine = recipe.engine if isinstance(recipe, PPORecipe | GRPORecipe) else NativeEngineConfig()
    place = Place(recipe.hardware, engine, recipe.seed)
    read = [common_prompts(question, languages, progress) for question in questions]
    drawn = [
        draw(side, [(q, prompts[i]) for q, prompts in zip(questions, read, strict=True)], place, progress)
        for i, side in enumerate(sides)
    ]
    sets = []
    for number, question in enumerate(questions):
        said_before = drawn[0][number] if len(drawn) > 1 else None
        said_after = drawn[-1][number]
        measures = task_measures(question.task, said_before, said_after)
        sets.append(SetFinding(question.name, measures, about(question, [said_before, said_after])))
    return Evaluation(str(run.folder), sides[0].path if len(sides) > 1 else None, after, sets)


def _questions(recipe: PPORecipe | GRPORecipe | SFTRecipe, ask: Ask) -> list[Question]:
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


def _set_question(recipe: PPORecipe | GRPORecipe | SFTRecipe, one: TaskSet, ask: Ask) -> Question:
    task = load_task(one.task, one.data.path if one.data else None)
    sampling = one.sampling.of(_sampling(recipe, task))
    count = one.prompts or ask.prompts or PROMPTS
    return Question(one.name, task, one.split, count, one.samples or ask.samples or SAMPLES, sampling)


def _sampling(recipe: PPORecipe | GRPORecipe | SFTRecipe, task: Task) -> Sampling:
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
