"""A dry run: everything a recipe asks for is looked at; nothing is loaded, trained or written, torch is not imported.

All problems are found, not only the first. What only a loaded model can tell (exact counts through a chat template,
that every tensor fits) is left to the run.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ropewalk.data.config import RowFile
from ropewalk.data.folders import data_files
from ropewalk.models.config import FreshModel
from ropewalk.plan.execution import CallPlan, default_plan
from ropewalk.plan.layout import Layout
from ropewalk.plan.memory import AUTOCAST, FP32, Bill, Workload, fits, memory_bill
from ropewalk.plan.shape import ModelShape
from ropewalk.rollout.config import NativeEngineConfig, Sampling, resolve
from ropewalk.runtime.assemble import (
    asked_task,
    check_domains,
    formula_of,
    graph_of,
    job_graph,
    plan_of,
    reward_of,
    start_source,
    unscored,
)
from ropewalk.runtime.config import (
    GivenTask,
    Hardware,
    NoEvaluation,
    PairFile,
    StepFile,
    TextRows,
)
from ropewalk.runtime.judging.calls import Judges, check_judge_names
from ropewalk.runtime.learned.calls import check_names, learned_rewards
from ropewalk.runtime.look.folders import ModelFacts
from ropewalk.runtime.look.look import Look
from ropewalk.runtime.look.machine import has_accelerator, machine_bytes
from ropewalk.runtime.look.models import (
    TO_COME,
    fresh_shape,
    judge_facts,
    online_shapes,
    other_facts,
    start_facts,
    to_come,
)
from ropewalk.runtime.look.prompts import look_at_file, look_at_order
from ropewalk.runtime.look.rows import Texts, row_limit, step_of, texts_of, trained
from ropewalk.runtime.look.words import look_at_words
from ropewalk.runtime.look.worlds import first_read, look_at_limits, said_tokens
from ropewalk.runtime.recipe import (
    GRPORecipe,
    OnlineRecipe,
    PPORecipe,
    Recipe,
    RowRecipe,
    SampleRecipe,
    SFTRecipe,
    StagesRecipe,
    StepLabels,
    TrainingRecipe,
)
from ropewalk.runtime.stages import check_stages, stage_recipe
from ropewalk.tasks.config import CityCorpus, FileTask, Gsm8kTask, MixtureTask, PromptsTask, TaskSection
from ropewalk.tasks.judging.config import ServerJudge
from ropewalk.tasks.judging.server import authorisation
from ropewalk.tasks.task import HELDOUT, TRAIN, Task
from ropewalk.training.schedule import StepPlan


def dry_run(recipe: Recipe, *, deep: bool = True) -> Look:
    """Look at everything the recipe names. Never raises for wrong input: see `problems`."""
    found = Look(deep)
    match recipe:
        case StagesRecipe():
            _stages(recipe, found)
        case SampleRecipe():
            _job(recipe, found)
        case PPORecipe() | GRPORecipe():
            _online(recipe, found)
        case _:
            _row_method(recipe, found)
    return found


# -- by method -----------------------------------------------------------------------------------------------------


def _stages(recipe: StagesRecipe, found: Look) -> None:
    before = len(found.problems)
    found.attempt(lambda: check_stages(recipe))
    if len(found.problems) > before:
        return
    for stage in recipe.stage:
        inner = dry_run(stage_recipe(recipe, stage, TO_COME), deep=found.deep)
        for problem in inner.problems:
            found.problem(f"stage {stage.name}: {problem}")
        found.fact(f"stage {stage.name}", stage.recipe)
        found.facts += [(f"  {what}", about) for what, about in inner.facts if what != "formula"]


def _job(recipe: SampleRecipe, found: Look) -> None:
    model = start_facts(recipe, found)
    task = _task(recipe, found, (recipe.split,))
    _judges(recipe.judges, task, found)
    drawn = recipe.rollout.prompts * recipe.rollout.group_size
    found.fact("samples", f"{drawn}: {recipe.rollout.prompts} prompts x {recipe.rollout.group_size}")
    if isinstance(recipe.labels, StepLabels):
        found.fact("labels", f"{recipe.labels.rollouts} rollouts from the end of each step but a completion's last")
    longest = _prompts(task, recipe.split, model, recipe.sampling, found)
    if model is None or not longest:
        return
    judges = judge_facts(recipe.judges, found)
    graph = job_graph(recipe)
    length = min(longest + said_tokens(task, recipe.sampling), model.shape.max_positions)
    work = _workload(recipe.engine, length, drawn)
    layout = Layout(tuple(range(recipe.hardware.processes)), dp=recipe.hardware.processes)
    plan = default_plan(graph, CallPlan(layout, micro_batch_tokens=recipe.hardware.micro_batch_tokens))
    shapes = {"actor": model.shape} | {role: facts.shape for role, facts in judges.items() if facts is not None}
    if set(shapes) == set(graph.roles):
        _memory(memory_bill(graph, shapes, plan, workload=work, numbers=FP32), recipe.hardware, found)


def _row_method(recipe: RowRecipe, found: Look) -> None:
    model = start_facts(recipe, found)
    shape = model.shape if model is not None else None
    if isinstance(recipe, SFTRecipe):
        shape = shape or fresh_shape(recipe, found)
    elif isinstance(recipe.model, FreshModel):
        found.attempt(lambda: start_source(recipe, None))
    texts = _rows(recipe.data, found, lambda: texts_of(recipe, found, model))
    step = step_of(recipe)
    kept, longest = _fitting(texts, model, row_limit(recipe.data, shape), found, sides=step.sides)
    if kept:
        steps = StepPlan.sweep(kept, units_per_step=step.per_step, epochs=step.epochs).total_steps
        found.fact("steps", f"{steps} of {step.per_step} {step.what}: {step.epochs} epochs over {kept} {step.what}")
    _calls(recipe, found)
    if shape is not None and kept:
        _train_memory(recipe, trained(recipe, shape), longest, step.sides * step.per_step, found)


def _online(recipe: OnlineRecipe, found: Look) -> None:
    model = start_facts(recipe, found)
    others = other_facts(recipe, model, found)
    held = not isinstance(recipe.evaluate, NoEvaluation)
    task = _task(recipe, found, (TRAIN, HELDOUT) if held else (TRAIN,))
    _judges(recipe.judges, task, found)
    _reward(recipe, task, found)
    if task is not None:
        look_at_order(recipe, task, found)
    longest = _prompts(task, TRAIN, model, recipe.sampling, found)
    method = recipe.ppo if isinstance(recipe, PPORecipe) else recipe.grpo
    steps = recipe.stop.iterations * method.epochs * method.minibatches
    samples = recipe.rollout.prompts * recipe.rollout.group_size
    found.fact(
        "steps",
        f"{steps}: {recipe.stop.iterations} iterations of {recipe.rollout.prompts} prompts x "
        f"{recipe.rollout.group_size} samples, {method.epochs} epochs x {method.minibatches} minibatches",
    )
    _calls(recipe, found)
    if model is None or not longest:
        return
    shapes = online_shapes(recipe, model.shape, others)
    if shapes is not None:
        length = min(longest + said_tokens(task, recipe.sampling), model.shape.max_positions)
        _train_memory(recipe, shapes, length, -(-samples // method.minibatches), found, recipe.engine)


# -- data and tasks ------------------------------------------------------------------------------------------------


def _task(recipe: OnlineRecipe | SampleRecipe, found: Look, splits: Sequence[str]) -> Task | None:
    config = recipe.task
    look_at_file(recipe.rollout, found)
    if isinstance(config, GivenTask):
        found.fact("task", "a Python object, handed to ropewalk.train")
        return None
    if not found.deep:
        _task_files(config, recipe.data, found)
        return None
    task = found.attempt(lambda: asked_task(recipe))
    if task is None:
        return None
    sizes = [(name, found.attempt(lambda name=name: len(task.split(name)))) for name in splits]  # type: ignore[misc]
    listed = ", ".join(f"{size} {name} prompts" for name, size in sizes if size is not None)
    found.fact("task", f"{task.name}: {listed}; scorers {', '.join(task.scorers)}")
    if task.refused:
        where, why = task.refused[0]
        found.fact("refused", f"{len(task.refused)} rows of the task; the first is {where}: {why}")
    return task


def _task_files(config: TaskSection, data: RowFile | None, found: Look) -> None:
    """Whether the files a task names are there."""
    if isinstance(config, Gsm8kTask | PromptsTask) and data is None:
        found.problem(f"a task of kind {config.kind!r} reads its rows from a file: set data.path")
    if isinstance(config, MixtureTask):
        for part in config.parts.values():
            _task_files(part.task, part.data, found)
    if isinstance(config, FileTask) and not to_come(config.path) and not Path(config.path).exists():
        found.problem(f"there is no file {config.path}: check the path")
    if data is not None:
        _check_file(data, found)


def _check_file(data: RowFile, found: Look) -> None:
    if not to_come(data.path):
        found.attempt(lambda: data_files(data.path, data.split))


def _judges(judges: Judges, task: Task | None, found: Look) -> None:
    """Who judges, and whether a server's key is there; a server itself is not asked."""
    if task is not None:
        found.attempt(lambda: check_judge_names(judges, task.scorers))
    for name, judge in judges.items():
        by = judge.by
        if isinstance(by, ServerJudge):
            found.attempt(lambda by=by: authorisation(by.key))  # type: ignore[misc]
            how = ", even if unencrypted" if by.plain_http else ""
            found.fact(f"judge {name}", f"{judge.kind}, by {by.model} at {by.base_url}{how}")
        else:
            found.fact(f"judge {name}", f"{judge.kind}, by the model {by.path} on the workers")


def _reward(recipe: OnlineRecipe, task: Task | None, found: Look) -> None:
    """Every component of the reward is something that is scored."""
    if task is None:
        return
    learned = learned_rewards(recipe)
    found.attempt(lambda: check_names(learned, task.scorers))
    for said in unscored(recipe, task):
        found.problem(said)
    parts = [f"{component.weight:g} {name}" for name, component in recipe.reward.components.items()]
    reward = found.attempt(lambda: reward_of(recipe.reward, task))
    found.attempt(lambda: check_domains(recipe.reward, task.split(TRAIN)))
    found.fact("reward", " + ".join(parts) or ", ".join(reward.components if reward else ()) or task.main_scorer)


def _prompts(task: Task | None, name: str, model: ModelFacts | None, sampling: Sampling, found: Look) -> int:
    """The longest prompt in tokens, 0 if unknown; over-long prompts are counted."""
    if model is None or not found.deep:
        return 0
    if model.words is not None:
        words = model.words
        found.attempt(
            lambda: resolve(
                sampling,
                words=words,
                eos_ids=model.eos_ids,
                pad_id=model.pad_id,
                vocabulary_size=model.shape.vocabulary,
            )
        )
    prompts = found.attempt(lambda: task.split(name)) if task is not None else None
    look_at_words(model, "prompts", [prompt.dialogue for prompt in prompts or ()], found)
    if task is None or not prompts:
        return 0
    look_at_limits(task, sampling, found)
    texts = first_read(task, prompts, model, found)
    counts = found.attempt(lambda: model.counts([(text,) for text in texts]))
    if not counts:
        return 0
    room = model.shape.max_positions - sampling.max_new_tokens
    over = [prompt.id for prompt, count in zip(prompts, counts, strict=True) if count > room]
    if over:
        said = f"have more than the {room} tokens that sampling.max_new_tokens leaves of the model's length"
        if len(over) == len(prompts):
            found.problem(f"all {len(over)} prompts {said}: lower it")
        found.fact("refused", f"{len(over)} of {len(prompts)} prompts {said}; the first is {over[0]}")
    return max((count for count in counts if count <= room), default=0)


def _rows(config: TextRows | PairFile | StepFile, found: Look, read: Callable[[], Texts]) -> Texts | None:
    if not isinstance(config, CityCorpus) and to_come(config.path):
        found.fact("data", f"from stage {Path(config.path).relative_to(TO_COME).parts[0]}")
        return None
    if not found.deep:
        if not isinstance(config, CityCorpus):
            _check_file(config, found)
        return None
    return found.attempt(read)


def _fitting(
    texts: Texts | None, model: ModelFacts | None, limit: int, found: Look, *, sides: int = 1
) -> tuple[int, int]:
    """(rows that fit, tokens of the longest); a row fits if all its sides do. Unknown lengths count as the limit."""
    if texts is None:
        return 0, 0
    counts = found.attempt(lambda: model.counts(texts)) if model is not None else None
    total = len(texts) // sides
    if counts is None:
        return total, limit
    longest = [max(counts[i : i + sides]) for i in range(0, len(counts), sides)]
    fitting = [count for count in longest if count <= limit]
    if not fitting:
        found.problem(f"all {total} rows have more than {limit} tokens: raise data.max_tokens or give shorter rows")
    elif len(fitting) < total:
        found.fact("refused", f"at least {total - len(fitting)} of {total} rows, which have more than {limit} tokens")
    return len(fitting), max(fitting, default=0)


# -- plan and memory -----------------------------------------------------------------------------------------------


def _calls(recipe: TrainingRecipe, found: Look) -> None:
    graph = graph_of(recipe)
    found.fact("calls", " → ".join(f"{call.name} ({call.role})" for call in graph.calls))
    found.fact("formula", formula_of(recipe))


def _workload(engine: NativeEngineConfig, length: int, samples: int) -> Workload:
    """What an engine holds at once: its slots, or fewer where samples or cache do not fill them."""
    slots = min(engine.slots, samples, max(engine.cache_tokens // max(length, 1), 1))
    return Workload(slots, length)


def _train_memory(
    recipe: TrainingRecipe,
    shapes: Mapping[str, ModelShape],
    longest: int,
    rows_per_step: int,
    found: Look,
    engine: NativeEngineConfig | None = None,
) -> None:
    """A micro-batch holds no more than a step has; its budget may be larger."""
    if not found.deep:
        return
    processes = recipe.hardware.processes
    step_tokens = max(-(-rows_per_step // processes) * longest, 1)
    budget = max(min(recipe.hardware.micro_batch_tokens, step_tokens), longest)
    hardware = recipe.hardware.model_copy(update={"micro_batch_tokens": budget})
    graph = graph_of(recipe)
    plan = plan_of(recipe.model_copy(update={"hardware": hardware}), graph)
    work = _workload(engine or NativeEngineConfig(), longest, -(-rows_per_step // processes))
    numbers = AUTOCAST if recipe.precision.dtype == "bf16" else FP32
    _memory(memory_bill(graph, shapes, plan, workload=work, numbers=numbers), recipe.hardware, found)


def _memory(bill: Bill, hardware: Hardware, found: Look) -> None:
    """The bill against this machine's memory, which all processes share."""
    found.fact("memory", "\n".join(line.strip() for line in bill.lines()))
    if hardware.device != "cpu" and (hardware.device != "auto" or has_accelerator()):
        found.fact("memory", "not compared: only torch can ask an accelerator for its memory, and a dry run has none")
        return
    available = machine_bytes()
    if available is None:
        found.fact("memory", "not compared: this system does not tell how much it has")
        return
    fit = fits(bill, available / hardware.processes)
    if fit.ok:
        found.fact("memory", fit.sentence)
    else:
        found.problem(fit.sentence)
