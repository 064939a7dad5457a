"""What a recipe works on, in numbers: its calls, its models' shapes, an iteration's rows and lengths. Without torch.

What cannot be known beforehand is said in the notes: answers count as long as they may become.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ropewalk.config.load import ConfigError
from ropewalk.plan.graph import CallGraph
from ropewalk.plan.shape import ModelShape
from ropewalk.plan.workload import Lengths, Workload
from ropewalk.records.errors import InputError
from ropewalk.runtime.assemble import asked_task, graph_of
from ropewalk.runtime.config import GivenTask
from ropewalk.runtime.look.folders import ModelFacts, text_of
from ropewalk.runtime.look.look import Look
from ropewalk.runtime.look.models import fresh_shape, online_shapes, other_facts, start_facts
from ropewalk.runtime.look.rows import row_limit, step_of, texts_of, trained
from ropewalk.runtime.look.worlds import said_tokens
from ropewalk.runtime.recipe import (
    GRPORecipe,
    OnlineRecipe,
    PPORecipe,
    Recipe,
    RowRecipe,
    SampleRecipe,
    SFTRecipe,
    StagesRecipe,
)
from ropewalk.tasks.task import TRAIN, Task

UNKNOWN_PROMPT = 128
"""Tokens of a prompt where nothing tells its length."""


@dataclass(frozen=True)
class RecipeSizes:
    """All of a recipe that a plan depends on."""

    method: str
    graph: CallGraph
    shapes: Mapping[str, ModelShape]
    """By role, as far as they are known."""
    workload: Workload
    notes: tuple[str, ...]


def sizes_of(recipe: Recipe, *, given: bool = False) -> RecipeSizes:
    """The sizes of a recipe. Raises InputError or ConfigError for what keeps them from being known; with `given`
    shapes come from elsewhere, and missing models are no problem."""
    match recipe:
        case StagesRecipe():
            raise InputError(f"a chain of stages has a plan for each: plan one of {_listed(recipe)} by its own name")
        case SampleRecipe():
            raise InputError("a sampling job trains nothing, so there is no iteration to plan: name a training recipe")
        case PPORecipe() | GRPORecipe():
            found, look = _online(recipe, Look(deep=False))
        case _:
            found, look = _rows(recipe, Look(deep=True))
    if look.problems and not given:
        raise ConfigError(look.problems)
    return found


def _listed(recipe: StagesRecipe) -> str:
    return ", ".join(dict.fromkeys(stage.recipe for stage in recipe.stage))


def _online(recipe: OnlineRecipe, look: Look) -> tuple[RecipeSizes, Look]:
    model = start_facts(recipe, look)
    others = other_facts(recipe, model, look)
    shapes = (online_shapes(recipe, model.shape, others) if model is not None else None) or {}
    method = recipe.ppo if isinstance(recipe, PPORecipe) else recipe.grpo
    task = _task(recipe) if model is not None else None
    prompts, note = _prompt_lengths(recipe, task, model)
    work = Workload(
        prompts=recipe.rollout.prompts,
        group_size=recipe.rollout.group_size,
        prompt_tokens=prompts,
        generated_tokens=Lengths.fixed(said_tokens(task, recipe.sampling)),
        minibatches=method.minibatches,
        epochs=method.epochs,
        dtype=recipe.precision.dtype,
    )
    said = "answers count as long as sampling.max_new_tokens lets them become"
    if task is not None and task.plays:
        said = "episodes count as long as the policy may speak in them, without what their world says"
    notes = (note, said)
    return RecipeSizes(recipe.method, graph_of(recipe), shapes, work, notes), look


def _task(recipe: OnlineRecipe) -> Task | None:
    """The recipe's task; None where it, or its data, is not here."""
    if isinstance(recipe.task, GivenTask):
        return None
    try:
        return asked_task(recipe)
    except InputError:
        return None


def _prompt_lengths(recipe: OnlineRecipe, task: Task | None, model: ModelFacts | None) -> tuple[Lengths, str]:
    """Tokens of the task's prompts, where its rows and the tokenizer are here."""
    assumed = (
        Lengths.fixed(UNKNOWN_PROMPT),
        f"prompts count as {UNKNOWN_PROMPT} tokens: their task or model is not here",
    )
    if model is None or task is None:
        return assumed
    try:
        prompts = task.split(TRAIN)
        counts = model.counts([(text_of(prompt.dialogue),) for prompt in prompts])
    except InputError:
        return assumed
    return (Lengths.of(counts), "prompts are as long as those of the task") if counts else assumed


def _rows(recipe: RowRecipe, look: Look) -> tuple[RecipeSizes, Look]:
    model = start_facts(recipe, look)
    fresh = fresh_shape(recipe, look) if isinstance(recipe, SFTRecipe) else None
    shape = model.shape if model is not None else fresh
    shapes = trained(recipe, shape) if shape is not None else {}
    limit = min(row_limit(recipe.data, shape), 1 << 20)
    lengths, note = _row_lengths(recipe, model, limit, look)
    step = step_of(recipe)
    work = Workload(
        prompts=step.per_step,
        group_size=step.sides,
        prompt_tokens=lengths,
        generated_tokens=Lengths.fixed(0),
        dtype=recipe.precision.dtype,
    )
    return RecipeSizes(recipe.method, graph_of(recipe), shapes, work, (note,)), look


def _row_lengths(recipe: RowRecipe, model: ModelFacts | None, limit: int, look: Look) -> tuple[Lengths, str]:
    longest = Lengths.fixed(limit), f"rows count as {limit} tokens, the most they may have"
    texts = look.attempt(lambda: texts_of(recipe, look))
    counts: Sequence[int] | None = None
    if texts and model is not None:
        counts = look.attempt(lambda: model.counts(texts))
    kept = [count for count in counts or () if 0 < count <= limit]
    return (Lengths.of(kept), "rows are as long as those of the data") if kept else longest
