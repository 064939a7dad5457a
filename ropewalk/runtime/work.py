"""A run's parts, made ready for the loop: models loaded, rows tokenised, limits counted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from ropewalk.algorithms.config import GRPO, PPO
from ropewalk.data.config import KeepFlat
from ropewalk.models.language import Language
from ropewalk.records.errors import InputError
from ropewalk.records.files import rollout_files
from ropewalk.records.metric import Metric
from ropewalk.records.packed import PackedBatch
from ropewalk.records.sample import SamplingRecord
from ropewalk.records.version import Draw
from ropewalk.runtime.assemble import (
    asked_task,
    check_domains,
    graph_of,
    plan_of,
    reward_of,
    setup_of,
    start_source,
    the_task,
    unscored,
)
from ropewalk.runtime.book import Limits
from ropewalk.runtime.clock import Stopwatch
from ropewalk.runtime.config import NoEvaluation, RowEvaluation
from ropewalk.runtime.crew import Crew
from ropewalk.runtime.experience import (
    EpochRows,
    FreshRollouts,
    RecordedRollouts,
    Source,
    TokenisedPrompts,
)
from ropewalk.runtime.flat import FlatRule, scored_part
from ropewalk.runtime.guard import tolerance_of
from ropewalk.runtime.heldout import HeldOutPrompts, HeldOutTexts, PairJudge, StepJudge
from ropewalk.runtime.hosts.open import open_crew
from ropewalk.runtime.judging.calls import check_judge_names, without_judges
from ropewalk.runtime.judging.judges import check_judges, open_judges
from ropewalk.runtime.learned.calls import check_names, learned_rewards
from ropewalk.runtime.learned.read import Reader
from ropewalk.runtime.learned.readers import readers_of
from ropewalk.runtime.loop import Credit, outputs_of, with_outputs
from ropewalk.runtime.prepare import (
    HeldOut,
    Pair,
    check_same_words,
    language_of,
    ordered_prompts,
    pair_rows,
    sampling_record,
    step_rows,
    text_rows,
    tokenised_prompts,
)
from ropewalk.runtime.progress import Progress
from ropewalk.runtime.recipe import (
    GRPORecipe,
    OnlineRecipe,
    PPORecipe,
    ProcessRewardModelRecipe,
    RewardModelRecipe,
    RowRecipe,
    SFTRecipe,
    TrainingRecipe,
)
from ropewalk.runtime.recovery import with_fingerprints
from ropewalk.runtime.rewards import OnlineCredit, no_credit, read_learned
from ropewalk.runtime.roles import FromPolicy, FromScorer
from ropewalk.runtime.rollouts import Rollouts, rules_of
from ropewalk.runtime.run import Run, local_model
from ropewalk.runtime.state import RunState
from ropewalk.tasks.city.task import VOCABULARY
from ropewalk.tasks.config import CityCorpus, MixtureTask
from ropewalk.tasks.scoring.compose import about_sample, observe
from ropewalk.tasks.scoring.config import Reward
from ropewalk.tasks.task import HELDOUT, TRAIN, Task, Vocabulary
from ropewalk.training.packing import Row, StepRow, pack_pairs, pack_rows, pack_steps
from ropewalk.training.schedule import StepPlan

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Work:
    """What the loop and the book need, beside the crew."""

    source: Source
    credit: Credit
    limits: Limits
    start: RunState
    best_by: str
    role: str
    """The role whose weights are the run's result."""
    begin: Callable[[RunState], RunState] = lambda state: state
    """What a new run measures before its first iteration; a resumed one has it in its state."""
    evaluate: Callable[[int], Mapping[str, Metric]] | None = None
    watch: Stopwatch = field(default_factory=Stopwatch)
    """What measures the run, sampling and scoring among it."""
    ratio_tolerance: float | None = None
    """Largest gap between engine and trainer before an update; None where they may differ."""


def prepare(
    recipe: TrainingRecipe, task: Task | None, progress: Progress, *, replay_of: Run | None = None
) -> tuple[Crew, Work]:
    """Load the models and make the data ready. With `replay_of`, the data are that run's recorded rollouts."""
    match recipe:
        case PPORecipe() | GRPORecipe() if replay_of is not None:
            return _prepare_replay(recipe, replay_of)
        case PPORecipe() | GRPORecipe():
            return _prepare_online(recipe, task, progress)
        case _:
            return _prepare_rows(recipe, progress)


@dataclass(frozen=True, slots=True)
class RowWork(Generic[T]):
    """What a method that learns from rows differs in."""

    rows: HeldOut[T]
    pack: Callable[[Sequence[T]], PackedBatch]
    per_step: int
    epochs: int
    judge: Callable[[Crew, Sequence[T]], Callable[[int], Mapping[str, Metric]]]
    """What evaluates on the rows held out."""
    best_by: str
    role: str
    vocabulary: Vocabulary | None = None


def _prepare_rows(recipe: RowRecipe, progress: Progress) -> tuple[Crew, Work]:
    match recipe:
        case SFTRecipe():
            return _rows(recipe, _texts(recipe, progress))
        case RewardModelRecipe():
            return _rows(recipe, _pairs(recipe, progress))
        case ProcessRewardModelRecipe():
            return _rows(recipe, _labelled(recipe, progress))


def _texts(recipe: SFTRecipe, progress: Progress) -> RowWork[Row]:
    vocabulary = VOCABULARY if isinstance(recipe.data, CityCorpus) else None
    rows = text_rows(recipe.data, language_of(start_source(recipe, vocabulary)), recipe.seed, progress)
    method = recipe.sft
    return RowWork(rows, pack_rows, method.rows_per_step, method.epochs, HeldOutTexts, "-loss/nll", "actor", vocabulary)


def _pairs(recipe: RewardModelRecipe, progress: Progress) -> RowWork[Pair]:
    rows = pair_rows(recipe.data, language_of(start_source(recipe, None)), recipe.seed, progress)
    method = recipe.pairwise
    return RowWork(rows, pack_pairs, method.pairs_per_step, method.epochs, PairJudge, "-loss/pairs", "reward")


def _labelled(recipe: ProcessRewardModelRecipe, progress: Progress) -> RowWork[StepRow]:
    rows = step_rows(recipe.data, language_of(start_source(recipe, None)), recipe.seed, progress)
    method = recipe.process
    return RowWork(rows, pack_steps, method.rows_per_step, method.epochs, StepJudge, "-loss/steps", "reward")


def _rows(recipe: RowRecipe, work: RowWork[T]) -> tuple[Crew, Work]:
    """Each row once an epoch, in steps of so many."""
    train = work.rows.train
    held = _held_rows(recipe.evaluate, work.rows.held)
    steps = StepPlan.sweep(len(train), units_per_step=work.per_step, epochs=work.epochs).total_steps
    setup = setup_of(recipe, plan_of(recipe, graph_of(recipe)), steps=steps, vocabulary=work.vocabulary)
    crew = open_crew(setup)
    return crew, Work(
        EpochRows(train, work.pack, work.rows.ledger, work.per_step, work.epochs),
        no_credit,
        Limits(steps, minutes=recipe.stop_minutes),
        RunState(),
        best_by=work.best_by,
        role=work.role,
        evaluate=work.judge(crew, held) if held else None,
    )


def _held_rows(evaluate: RowEvaluation, held: Sequence[T]) -> Sequence[T]:
    """What an evaluation inside training reads; nothing if there is none."""
    if isinstance(evaluate, NoEvaluation):
        return ()
    if not held:
        raise InputError("evaluate.kind = 'every' needs held-out rows: set data.held_out above 0")
    return held[: evaluate.rows]


def _prepare_online(recipe: OnlineRecipe, given: Task | None, progress: Progress) -> tuple[Crew, Work]:
    task = asked_task(recipe, given)
    for said in unscored(recipe, task):
        raise InputError(said)
    reward = reward_of(recipe.reward, task)
    check_names(learned_rewards(recipe), task.scorers)
    check_judge_names(recipe.judges, task.scorers)
    check_judges(recipe.judges)
    language = language_of(start_source(recipe, None))
    for note in language.notes:
        progress.say(note)
    sampling = sampling_record(recipe.sampling, language)
    _check_other_models(recipe, language)
    rules = rules_of(task, language, recipe.sampling, recipe.engine)
    check_domains(reward, task.split(TRAIN))
    prompts = tokenised_prompts(task.split(TRAIN), language, sampling, progress)
    held = _held_out(recipe, task, language, sampling, progress)
    setup = setup_of(recipe, plan_of(recipe, graph_of(recipe)), steps=_steps(recipe))
    crew = open_crew(setup)
    watch = Stopwatch()
    judges = open_judges(recipe.judges, crew, progress, reward)
    drawing = Rollouts(crew, task, sampling, recipe.seed, rules, recipe.rollout.scorers, watch, judges)
    fresh = FreshRollouts(
        rollouts=drawing,
        prompts=prompts,
        order=ordered_prompts(prompts.prompts, language, recipe.seed, task.weights, recipe.rollout.curriculum),
        per_iteration=recipe.rollout.prompts,
        group_size=recipe.rollout.group_size,
        share_prompts=recipe.rollout.share_prompts,
        iterations=recipe.stop.iterations,
        flat=flat_rule(recipe, reward, task, sampling),
    )
    readers = readers_of(learned_rewards(recipe), language)
    credit = OnlineCredit(_method(recipe), reward, readers)
    frozen = [name for name, role in setup.roles.items() if role.training is None]
    stop = recipe.stop
    work = Work(
        fresh,
        credit,
        Limits(stop.iterations, minutes=stop.minutes, reward=stop.reward, kl=stop.kl),
        with_fingerprints(RunState(kl=credit.start_kl()), crew, frozen),
        best_by="reward/mean",
        role="actor",
        begin=lambda state: replace(state, rewards=first_statistics(recipe, reward, fresh, readers)),
        watch=watch,
        ratio_tolerance=tolerance_of(recipe),
    )
    if held is not None:
        samples = 1 if isinstance(recipe.evaluate, NoEvaluation) else recipe.evaluate.samples
        work = replace(work, evaluate=HeldOutPrompts(drawing, held, samples))
    return crew, work


def flat_rule(recipe: OnlineRecipe, reward: Reward, task: Task, sampling: SamplingRecord) -> FlatRule | None:
    """What becomes of groups without variance; None: they stay."""
    config = recipe.rollout.flat
    if isinstance(config, KeepFlat):
        return None
    return FlatRule(
        config, scored_part(reward, task, recipe.judges), _method(recipe).unfinished, sampling.max_new_tokens
    )


def _check_other_models(recipe: OnlineRecipe, language: Language) -> None:
    """The models that read what the policy writes are of its vocabulary."""
    if recipe.reference is not None:
        check_same_words("reference", language_of(FromPolicy(str(local_model(recipe.reference.path)))), language)
    for learned in learned_rewards(recipe):
        for role, folder in zip(learned.roles, learned.section.folders, strict=True):
            check_same_words(role, language_of(FromScorer(str(local_model(folder)))), language)


def _held_out(
    recipe: OnlineRecipe, task: Task, language: Language, sampling: SamplingRecord, progress: Progress
) -> TokenisedPrompts | None:
    """The prompts of evaluations inside training, if there are any."""
    if isinstance(recipe.evaluate, NoEvaluation):
        return None
    return tokenised_prompts(task.first(HELDOUT, recipe.evaluate.prompts), language, sampling, progress)


def _prepare_replay(recipe: OnlineRecipe, origin: Run) -> tuple[Crew, Work]:
    """No task, no engine: samples and their scores are the recorded ones, learned scores are computed anew."""
    recorded = sum(1 for _ in rollout_files(origin.rollouts)) if origin.rollouts.is_dir() else 0
    if not recorded:
        raise InputError(f"{origin.folder} has no rollouts to replay: train it again with record.rollouts = true")
    language = language_of(start_source(recipe, None))
    _check_other_models(recipe, language)
    tokenizer = language.tokenizer
    setup = setup_of(recipe, plan_of(recipe, graph_of(recipe)), steps=_steps(recipe))
    setup = without_judges(replace(setup, engine=None))
    crew = open_crew(setup)
    rollouts = RecordedRollouts(origin.rollouts, lambda ids: str(tokenizer.decode(ids)), recipe.rollout.share_prompts)
    # What a mixture is rewarded by where the recipe is silent, its parts say.
    mixed = isinstance(recipe.task, MixtureTask)
    reward = reward_of(recipe.reward, the_task(recipe.task, recipe.data, None)) if mixed else recipe.reward
    credit = OnlineCredit(_method(recipe), reward, readers_of(learned_rewards(recipe), language))
    frozen = [name for name, role in setup.roles.items() if role.training is None]
    known = origin.lineage().get("reward_statistics")
    statistics: Any = known if isinstance(known, dict) else {}
    start = with_fingerprints(RunState(kl=credit.start_kl(), rewards=statistics), crew, frozen)
    limits = Limits(min(recorded, recipe.stop.iterations))
    return crew, Work(rollouts, credit, limits, start, best_by="reward/mean", role="actor")


def first_statistics(
    recipe: OnlineRecipe, reward: Reward, source: FreshRollouts, readers: Sequence[Reader]
) -> dict[str, dict[str, Any]]:
    """Statistics of reward components that are measured on samples of the starting policy."""
    wanted = [c.normalise.samples for c in reward.components.values() if c.normalise.kind == "initial_mean"]
    if not wanted:
        return {}
    count = -(-max(wanted) // recipe.rollout.group_size)
    experience = source.experience(Draw.FIRST_STATISTICS, source.order.first(count))
    for call in (call for reader in readers for call in reader.calls.graph_calls):
        asked = {"role": call.role, "batch": experience.batch, "outputs": outputs_of(call), "sampling": None}
        found = source.rollouts.crew.call("forward", **asked).result()
        experience = replace(experience, batch=with_outputs(experience.batch, call, found))
    samples = read_learned(experience, readers).samples
    return observe(reward, [s.scores for s in samples], {}, [about_sample(s) for s in samples])


def _steps(recipe: OnlineRecipe) -> int:
    """Optimiser steps of the whole run."""
    method = _method(recipe)
    return StepPlan.iterations(recipe.stop.iterations, epochs=method.epochs, minibatches=method.minibatches).total_steps


def _method(recipe: OnlineRecipe) -> PPO | GRPO:
    return recipe.ppo if isinstance(recipe, PPORecipe) else recipe.grpo
