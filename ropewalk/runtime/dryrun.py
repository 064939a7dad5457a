"""A dry run: everything a recipe asks for is looked at; nothing is loaded, trained or written, torch is not imported.

All problems are found, not only the first. What only a loaded model can tell (exact counts through a chat template,
that every tensor fits) is left to the run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias

from ropewalk.data.config import RowFile
from ropewalk.data.folders import data_files
from ropewalk.data.read import ReadReport, demonstrations, documents, pairs
from ropewalk.data.split import split
from ropewalk.models.config import FolderModel, FreshModel
from ropewalk.plan.execution import CallPlan, default_plan
from ropewalk.plan.graph import Call, CallGraph
from ropewalk.plan.layout import Layout
from ropewalk.plan.memory import AUTOCAST, FP32, Bill, Workload, fits, memory_bill
from ropewalk.plan.shape import ModelShape
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Demonstration, Document, PreferencePair
from ropewalk.rollout.config import NativeEngineConfig, Sampling, resolve
from ropewalk.runtime.assemble import formula_of, graph_of, plan_of, start_source, the_task
from ropewalk.runtime.config import (
    LEARNED,
    Demonstrations,
    Documents,
    GivenTask,
    Hardware,
    NoEvaluation,
    PairFile,
    PromptData,
    TextRows,
)
from ropewalk.runtime.folders import Kind, ModelFacts, Pieces, model_facts, text_of
from ropewalk.runtime.look import Look
from ropewalk.runtime.machine import has_accelerator, machine_bytes
from ropewalk.runtime.recipe import (
    OnlineRecipe,
    PPORecipe,
    Recipe,
    RewardModelRecipe,
    SampleRecipe,
    SFTRecipe,
    StagesRecipe,
    TrainingRecipe,
)
from ropewalk.runtime.run import local_model, model_folder
from ropewalk.runtime.stages import check_stages, stage_recipe
from ropewalk.tasks.city.corpus import documents as city_documents
from ropewalk.tasks.city.task import VOCABULARY
from ropewalk.tasks.config import CityCorpus, FileTask, Gsm8kTask, PromptsTask, TaskSection
from ropewalk.tasks.task import HELDOUT, TRAIN, Task
from ropewalk.training.schedule import StepPlan

TO_COME = Path("stages-to-come")
"""Stands for a chain's folder while nothing is in it."""


def dry_run(recipe: Recipe, *, deep: bool = True) -> Look:
    """Look at everything the recipe names. Never raises for wrong input: see `problems`."""
    found = Look(deep)
    match recipe:
        case StagesRecipe():
            _stages(recipe, found)
        case SampleRecipe():
            _job(recipe, found)
        case SFTRecipe():
            _sft(recipe, found)
        case RewardModelRecipe():
            _reward_model(recipe, found)
        case _:
            _online(recipe, found)
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
    task = _task(recipe.task, recipe.data, found, (recipe.split,))
    drawn = recipe.rollout.prompts * recipe.rollout.group_size
    found.fact("samples", f"{drawn}: {recipe.rollout.prompts} prompts x {recipe.rollout.group_size}")
    longest = _prompts(task, recipe.split, model, recipe.sampling, found)
    if model is None or not longest:
        return
    graph = CallGraph((Call("generate", "actor", "generate", ("prompts",), ("tokens",)),), given=("prompts",))
    work = _workload(recipe.engine, longest + recipe.sampling.max_new_tokens, drawn)
    layout = Layout(tuple(range(recipe.hardware.processes)), dp=recipe.hardware.processes)
    plan = default_plan(graph, CallPlan(layout, micro_batch_tokens=recipe.hardware.micro_batch_tokens))
    _memory(memory_bill(graph, {"actor": model.shape}, plan, workload=work, numbers=FP32), recipe.hardware, found)


def _sft(recipe: SFTRecipe, found: Look) -> None:
    model = start_facts(recipe, found)
    fresh = fresh_shape(recipe, found)
    shape = model.shape if model else fresh
    rows = _rows(recipe.data, found, lambda: row_texts(recipe, found))
    kept, longest = _fitting(rows, model, row_limit(recipe.data, shape), found)
    method = recipe.sft
    if kept:
        steps = StepPlan.sweep(kept, units_per_step=method.rows_per_step, epochs=method.epochs).total_steps
        found.fact("steps", f"{steps} of {method.rows_per_step} rows: {method.epochs} epochs over {kept} rows")
    _calls(recipe, found)
    if shape is not None and kept:
        _train_memory(recipe, {"actor": shape}, longest, method.rows_per_step, found)


def _reward_model(recipe: RewardModelRecipe, found: Look) -> None:
    model = start_facts(recipe, found)
    if isinstance(recipe.model, FreshModel):
        found.attempt(lambda: start_source(recipe, None))
    rows = _rows(recipe.data, found, lambda: pair_texts(recipe, found))
    kept, longest = _fitting(rows, model, row_limit(recipe.data, model.shape if model else None), found, sides=2)
    method = recipe.pairwise
    if kept:
        steps = StepPlan.sweep(kept, units_per_step=method.pairs_per_step, epochs=method.epochs).total_steps
        found.fact("steps", f"{steps} of {method.pairs_per_step} pairs: {method.epochs} epochs over {kept} pairs")
    _calls(recipe, found)
    if model is not None and kept:
        shapes = {"reward": model.shape.with_scalar_head()}
        _train_memory(recipe, shapes, longest, 2 * method.pairs_per_step, found)


def _online(recipe: OnlineRecipe, found: Look) -> None:
    model = start_facts(recipe, found)
    others = other_facts(recipe, model, found)
    held = not isinstance(recipe.evaluate, NoEvaluation)
    task = _task(recipe.task, recipe.data, found, (TRAIN, HELDOUT) if held else (TRAIN,))
    _reward(recipe, task, found)
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
        length = longest + recipe.sampling.max_new_tokens
        _train_memory(recipe, shapes, length, -(-samples // method.minibatches), found, recipe.engine)


# -- models --------------------------------------------------------------------------------------------------------


def start_facts(recipe: TrainingRecipe | SampleRecipe, found: Look) -> ModelFacts | None:
    """The model the run starts from; None where there is nothing to look at yet."""
    if recipe.start_from is not None:
        return _model("model", recipe.start_from, "policy", found)
    if isinstance(recipe.model, FolderModel):
        return _model("model", recipe.model.path, "policy", found, hub=True)
    return None


def _model(what: str, reference: str, kind: Kind, found: Look, *, hub: bool = False) -> ModelFacts | None:
    if _to_come(reference):
        found.fact(what, f"from stage {Path(reference.partition('@')[0]).relative_to(TO_COME)}")
        return None
    folder = found.attempt(lambda: model_folder(reference) if hub else local_model(reference))
    if folder is None:
        return None
    if hub and not folder.exists() and len(folder.parts) == 2 and not folder.parent.exists():
        found.fact(what, f"{reference}: not on this machine, to be fetched from the hub; not checked")
        return None
    facts = found.attempt(lambda: model_facts(_existing(folder), kind))
    if facts is not None:
        count = facts.shape.parameters
        about = "" if facts.shape.exact else ", roughly"
        found.fact(what, f"{folder}: {facts.config.get('model_type', '?')}, {_count(count)} parameters{about}")
        for note in facts.notes:
            found.fact("note", note)
    return facts


def _existing(folder: Path) -> Path:
    if not folder.is_dir():
        raise InputError(f"there is no model folder {folder}: give a folder with config.json and *.safetensors")
    return folder


def _to_come(reference: str) -> bool:
    return Path(reference).parts[:1] == TO_COME.parts


def fresh_shape(recipe: SFTRecipe, found: Look) -> ModelShape | None:
    if not isinstance(recipe.model, FreshModel):
        return None
    vocabulary = VOCABULARY if isinstance(recipe.data, CityCorpus) else None
    if found.attempt(lambda: start_source(recipe, vocabulary)) is None:
        return None
    sizes = recipe.model
    shape = ModelShape(
        vocabulary=len(VOCABULARY.words),
        width=sizes.width,
        layers=sizes.layers,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.width // sizes.heads,
        ffn=sizes.ffn,
        tied=sizes.tied,
        max_positions=sizes.max_positions,
    )
    found.fact("model", f"fresh: {_count(shape.parameters)} parameters over {shape.vocabulary} words")
    return shape


def other_facts(recipe: OnlineRecipe, model: ModelFacts | None, found: Look) -> dict[str, ModelFacts | None]:
    others: dict[str, ModelFacts | None] = {}
    if recipe.reference is not None:
        others["reference"] = _model("reference", recipe.reference.path, "policy", found)
    if recipe.reward_model is not None:
        others["reward"] = _model("reward", recipe.reward_model, "scorer", found)
    for role, other in others.items():
        if other is not None and model is not None and other.shape.vocabulary != model.shape.vocabulary:
            found.problem(
                f"the {role} model has {other.shape.vocabulary} words and the policy {model.shape.vocabulary}: "
                "both must have one vocabulary"
            )
    return others


def online_shapes(
    recipe: OnlineRecipe, policy: ModelShape, others: Mapping[str, ModelFacts | None]
) -> dict[str, ModelShape] | None:
    """The shape of every role; None if one is not there to be looked at."""
    shared = isinstance(recipe, PPORecipe) and recipe.ppo.critic.kind == "shared"
    shapes: dict[str, ModelShape] = {"actor": replace(policy, scalar_heads=1) if shared else policy}
    for role in graph_of(recipe).roles:
        if role in others:
            other = others[role]
            if other is None:
                return None
            shapes[role] = other.shape
        elif role == "reference":
            shapes[role] = policy
    if isinstance(recipe, PPORecipe) and not shared:
        from_reward = recipe.critic is not None and recipe.critic.start == "reward_model"
        shapes["critic"] = shapes["reward"] if from_reward else policy.with_scalar_head()
    return shapes


# -- data and tasks ------------------------------------------------------------------------------------------------


def _task(config: TaskSection | GivenTask, data: PromptData | None, found: Look, splits: Sequence[str]) -> Task | None:
    if isinstance(config, GivenTask):
        found.fact("task", "a Python object, handed to ropewalk.train")
        return None
    if not found.deep:
        _task_files(config, data, found)
        return None
    task = found.attempt(lambda: the_task(config, data, None))
    if task is None:
        return None
    sizes = [(name, found.attempt(lambda name=name: len(task.split(name)))) for name in splits]  # type: ignore[misc]
    listed = ", ".join(f"{size} {name} prompts" for name, size in sizes if size is not None)
    found.fact("task", f"{task.name}: {listed}; scorers {', '.join(task.scorers)}")
    if task.refused:
        where, why = task.refused[0]
        found.fact("refused", f"{len(task.refused)} rows of the task; the first is {where}: {why}")
    return task


def _task_files(config: TaskSection, data: PromptData | None, found: Look) -> None:
    """Whether the files a task names are there."""
    if isinstance(config, Gsm8kTask | PromptsTask) and data is None:
        found.problem(f"a task of kind {config.kind!r} reads its rows from a file: set data.path")
    if isinstance(config, FileTask) and not _to_come(config.path) and not Path(config.path).exists():
        found.problem(f"there is no file {config.path}: check the path")
    if data is not None:
        _check_file(data, found)


def _check_file(data: RowFile, found: Look) -> None:
    if not _to_come(data.path):
        found.attempt(lambda: data_files(data.path, data.split))


def _reward(recipe: OnlineRecipe, task: Task | None, found: Look) -> None:
    """Every component of the reward is something that is scored."""
    if task is None:
        return
    known = [*task.scorers, *([LEARNED] if recipe.reward_model is not None else [])]
    for name, key in recipe.reward.looked_at().items():
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.0)[:1] or known[:1]
            said = key if name in recipe.reward.components else f"{key} = {name!r}"
            found.problem(f"{said} is scored by nobody: did you mean {near[0]!r}?")
    parts = [f"{component.weight:g} {name}" for name, component in recipe.reward.components.items()]
    found.fact("reward", " + ".join(parts) or task.main_scorer)


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
    if prompts and not model.speaks and any(not isinstance(prompt.dialogue, str) for prompt in prompts):
        found.problem(f"{model.folder} has no chat template and the prompts are conversations: take a chat model")
    counts = found.attempt(lambda: model.counts([(text_of(p.dialogue),) for p in prompts or ()]))
    if not prompts or not counts:
        return 0
    room = model.shape.max_positions - sampling.max_new_tokens
    over = [prompt.id for prompt, count in zip(prompts, counts, strict=True) if count > room]
    if over:
        said = f"have more than the {room} tokens that sampling.max_new_tokens leaves of the model's length"
        if len(over) == len(prompts):
            found.problem(f"all {len(over)} prompts {said}: lower it")
        found.fact("refused", f"{len(over)} of {len(prompts)} prompts {said}; the first is {over[0]}")
    return max((count for count in counts if count <= room), default=0)


Texts: TypeAlias = Sequence[Pieces]


def _rows(config: TextRows | PairFile, found: Look, read: Callable[[], Texts]) -> Texts | None:
    if not isinstance(config, CityCorpus) and _to_come(config.path):
        found.fact("data", f"from stage {Path(config.path).relative_to(TO_COME).parts[0]}")
        return None
    if not found.deep:
        if not isinstance(config, CityCorpus):
            _check_file(config, found)
        return None
    return found.attempt(read)


def row_texts(recipe: SFTRecipe, found: Look) -> Texts:
    config = recipe.data
    rows: Sequence[Document | Demonstration]
    match config:
        case CityCorpus():
            rows = city_documents(config, recipe.seed)
            found.fact("data", f"{len(rows)} sentences of the city corpus")
            _held_out(recipe, 0, found)
            return [(row.text,) for row in rows]
        case Documents():
            rows, report = documents(config)
        case Demonstrations():
            rows, report = demonstrations(config)
    _told(config.path, report, found)
    given: list[Document | Demonstration] = list(rows[: config.limit])
    train, held = split(given, config.held_out)
    _held_out(recipe, len(held), found)
    return [_said(row) for row in train]


def _held_out(recipe: SFTRecipe | RewardModelRecipe, count: int, found: Look) -> None:
    if count:
        found.fact("held out", f"{count} {'pairs' if isinstance(recipe, RewardModelRecipe) else 'rows'}")
    elif not isinstance(recipe.evaluate, NoEvaluation):
        found.problem("evaluate.kind = 'every' needs held-out rows: set data.held_out above 0")


def _said(row: Document | Demonstration) -> Pieces:
    return (row.text,) if isinstance(row, Document) else (text_of(row.dialogue), row.completion)


def pair_texts(recipe: RewardModelRecipe, found: Look) -> Texts:
    """Both sides of every training pair, one after the other."""
    config = recipe.data
    rows, report = pairs(config)
    _told(config.path, report, found)
    train, held = split(rows[: config.limit], config.held_out)
    _held_out(recipe, len(held), found)
    if not train:
        raise InputError(f"{config.path} leaves no pair to train on: lower data.held_out or give more pairs")
    return [side for row in train for side in _sides(row)]


def _sides(row: PreferencePair) -> tuple[Pieces, Pieces]:
    asked = text_of(row.dialogue)
    return (asked, row.chosen), (asked, row.rejected)


def _told(path: str, report: ReadReport, found: Look) -> None:
    found.fact("data", f"{path}: {report}")


def row_limit(config: TextRows | PairFile, shape: ModelShape | None) -> int:
    limits = [shape.max_positions] if shape is not None else []
    limits += [] if isinstance(config, CityCorpus) else [config.max_tokens]
    return min(limits, default=1 << 30)


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


def _count(parameters: int) -> str:
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if parameters >= scale:
            return f"{parameters / scale:.3g} {unit}"
    return str(parameters)
