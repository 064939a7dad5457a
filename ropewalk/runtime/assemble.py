"""From a recipe to its parts: call graph, roles, plan. Pure, and without torch: a dry run needs no more."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from ropewalk.algorithms.methods import grpo, ppo, process_reward_model, reward_model, sft
from ropewalk.config.schema import Section
from ropewalk.models.config import FolderModel, FreshModel
from ropewalk.plan.execution import CallPlan, ExecutionPlan, default_plan
from ropewalk.plan.graph import Call, CallGraph
from ropewalk.plan.layout import Layout
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.rollout.config import Episode
from ropewalk.runtime.config import GivenTask, PromptData
from ropewalk.runtime.judging.calls import judge_calls, judge_engines, judge_roles
from ropewalk.runtime.learned.calls import LearnedCalls, critic_role, judging_calls, learned_rewards
from ropewalk.runtime.learned.config import Heads
from ropewalk.runtime.recipe import (
    CriticLearner,
    GRPORecipe,
    Learner,
    OnlineRecipe,
    PPORecipe,
    ProcessRewardModelRecipe,
    RewardModelRecipe,
    RowRecipe,
    SampleRecipe,
    SFTRecipe,
    TrainingRecipe,
)
from ropewalk.runtime.roles import (
    FromPolicy,
    FromRole,
    FromScorer,
    FromSizes,
    Head,
    ObjectiveSpec,
    RoleSetup,
    Setup,
    Source,
    Training,
)
from ropewalk.runtime.run import local_model, model_folder
from ropewalk.tasks.load import load_task
from ropewalk.tasks.mixture import check_parts, check_reward
from ropewalk.tasks.only import narrowed
from ropewalk.tasks.scoring.config import Component, Mix, Reward
from ropewalk.tasks.scoring.run import DOMAIN
from ropewalk.tasks.task import Task, Vocabulary

POLICY: frozenset[Head] = frozenset({"policy"})
VALUE: frozenset[Head] = frozenset({"value"})
REWARD: frozenset[Head] = frozenset({"reward"})


def the_task(config: Section, data: PromptData | None, given: Task | None) -> Task:
    """The task object of a recipe, or the one handed in."""
    if isinstance(config, GivenTask):
        if given is None:
            raise InputError("this run's task is a Python object: hand it to ropewalk.train(task=…) again")
        return given
    return load_task(config, data)  # type: ignore[arg-type]


def asked_task(recipe: OnlineRecipe | SampleRecipe, given: Task | None = None) -> Task:
    """The task whose prompts a recipe draws: of its training prompts those that `rollout.only` names."""
    task = the_task(recipe.task, recipe.data, given)
    if recipe.sampling.episode != Episode() and not task.plays:
        raise InputError(
            f"sampling.episode says how episodes are played, and task {task.name!r} has no environment: leave it out"
        )
    return task if recipe.rollout.only is None else narrowed(task, recipe.rollout.only)


def reward_of(reward: Reward, task: Task) -> Reward:
    """The reward with its components named: by default what the task is rewarded by. Raises `InputError` where a part
    of a mixture could not be rewarded."""
    if reward.components or not task.parts:
        check_parts(reward, task)
        return reward
    check_reward(task)
    return reward.model_copy(update={"components": {name: Component() for name in task.rewarding}})


def unscored(recipe: OnlineRecipe, task: Task) -> list[str]:
    """What the reward looks at and nobody scores, each in a sentence with the nearest name."""
    known = [*task.scorers, *recipe.judges, *(one.name for one in learned_rewards(recipe))]
    said = []
    for name, key in recipe.reward.looked_at().items():
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.0)[:1] or known[:1]
            what = key if name in recipe.reward.components else f"{key} = {name!r}"
            said.append(f"{what} is scored by nobody: did you mean {near[0]!r}?")
    return said


def check_domains(reward: Reward, prompts: Sequence[Prompt]) -> None:
    """Raises `InputError` for a share of a domain that no prompt is of: it would never act."""
    named = reward.mix.domains if isinstance(reward.mix, Mix) else {}
    there = {str(prompt.info.get(DOMAIN, "")) for prompt in prompts} if named else set()
    for name in named:
        if name not in there:
            known = ", ".join(sorted(map(repr, there - {""}))[:8]) or "none: no prompt has an info.domain"
            raise InputError(
                f"reward.mix.domains names {name!r}, a domain that no training prompt is of (there are {known})"
            )


def graph_of(recipe: TrainingRecipe) -> CallGraph:
    """The calls of one iteration."""
    if isinstance(recipe, PPORecipe | GRPORecipe):
        learned, judges = recipe.reward_model is not None, (*judge_calls(recipe.judges), *judging_calls(recipe))
        if isinstance(recipe, PPORecipe):
            return ppo.graph(recipe.ppo, learned_reward=learned, judges=judges)
        return grpo.graph(recipe.grpo, learned_reward=learned, judges=judges)
    match recipe:
        case SFTRecipe():
            return sft.graph(recipe.sft)
        case RewardModelRecipe():
            return reward_model.graph(recipe.pairwise)
        case ProcessRewardModelRecipe():
            return process_reward_model.graph(recipe.process)


def job_graph(recipe: SampleRecipe) -> CallGraph:
    """The calls of a sampling job."""
    drawn = Call("generate", "actor", "generate", ("prompts",), ("tokens",))
    return CallGraph((drawn, *judge_calls(recipe.judges)), given=("prompts",))


def formula_of(recipe: TrainingRecipe) -> str:
    """The objective, filled in."""
    match recipe:
        case PPORecipe():
            return ppo.formula(recipe.ppo)
        case GRPORecipe():
            return grpo.formula(recipe.grpo)
        case SFTRecipe():
            return sft.formula(recipe.sft)
        case RewardModelRecipe():
            return reward_model.formula(recipe.pairwise)
        case ProcessRewardModelRecipe():
            return process_reward_model.formula(recipe.process)


def plan_of(recipe: TrainingRecipe, graph: CallGraph) -> ExecutionPlan:
    """The default plan: every call on all processes, data-parallel."""
    processes = recipe.hardware.processes
    layout = Layout(tuple(range(processes)), dp=processes)
    template = CallPlan(
        layout,
        micro_batch_tokens=recipe.hardware.micro_batch_tokens,
        recompute=recipe.precision.activation_checkpointing,
    )
    return default_plan(graph, template)


def start_source(recipe: TrainingRecipe, vocabulary: Vocabulary | None) -> Source:
    """Where the run's first weights come from."""
    if recipe.start_from is not None:
        return FromPolicy(str(local_model(recipe.start_from)))
    match recipe.model:
        case FolderModel(path=path, dtype=dtype):
            return FromPolicy(str(model_folder(path)), dtype)
        case FreshModel():
            if vocabulary is None:
                raise InputError(
                    "a fresh model needs a word list: use data.kind = 'city', or start from a model folder"
                )
            return FromSizes(recipe.model, vocabulary, recipe.seed)
    raise AssertionError("the schema asks for one of model and start_from")


def setup_of(recipe: TrainingRecipe, plan: ExecutionPlan, *, steps: int, vocabulary: Vocabulary | None = None) -> Setup:
    """Every role of the run. `steps` is the number of optimiser steps, from the run's one `StepPlan`."""
    call_plan = next(iter(plan.calls.values()))
    if isinstance(recipe, PPORecipe | GRPORecipe):
        roles, engine = _online_roles(recipe, steps), recipe.engine
    else:
        roles, engine = _supervised_roles(recipe, steps, vocabulary), None
    return Setup(
        roles=roles,
        seed=recipe.seed,
        device=recipe.hardware.device,
        threads=recipe.hardware.threads,
        processes=call_plan.layout.dp,
        precision=recipe.precision,
        micro_batch_tokens=call_plan.micro_batch_tokens,
        engine=engine,
        writers=judge_engines(recipe.judges) if isinstance(recipe, PPORecipe | GRPORecipe) else {},
    )


def scorer_roles(learned: LearnedCalls) -> dict[str, RoleSetup]:
    """The members of a learned reward as roles that are only read."""
    many = isinstance(learned.section.read, Heads)
    return {
        role: RoleSetup(FromScorer(str(local_model(folder)), many), REWARD)
        for role, folder in zip(learned.roles, learned.section.folders, strict=True)
    }


def _training(spec: ObjectiveSpec, learner: Learner, steps: int, *, epochs: int = 1, minibatches: int = 1) -> Training:
    return Training(spec, learner.optimizer, learner.schedule, steps, epochs, minibatches)


def _supervised_roles(recipe: RowRecipe, steps: int, vocabulary: Vocabulary | None) -> Mapping[str, RoleSetup]:
    source = start_source(recipe, vocabulary)
    if isinstance(recipe, SFTRecipe):
        return {"actor": RoleSetup(source, POLICY, _training(ObjectiveSpec("sft", recipe.sft), recipe.actor, steps))}
    if isinstance(recipe, ProcessRewardModelRecipe):
        spec = ObjectiveSpec("process", recipe.process)
    else:
        spec = ObjectiveSpec("pairwise", recipe.pairwise)
    return {"reward": RoleSetup(source, REWARD, _training(spec, recipe.actor, steps))}


def _online_roles(recipe: OnlineRecipe, steps: int) -> Mapping[str, RoleSetup]:
    method = recipe.ppo if isinstance(recipe, PPORecipe) else recipe.grpo
    shared = isinstance(recipe, PPORecipe) and recipe.ppo.critic.kind == "shared"
    spec = ObjectiveSpec("joint" if shared else "actor", method)
    training = _training(spec, recipe.actor, steps, epochs=method.epochs, minibatches=method.minibatches)
    heads = POLICY | VALUE if shared else POLICY
    roles = {"actor": RoleSetup(start_source(recipe, None), heads, training)}
    if method.kl.place != "none":
        other = recipe.reference
        source: Source = FromPolicy(str(local_model(other.path))) if other else FromRole("actor")
        roles["reference"] = RoleSetup(source, POLICY)
    for learned in learned_rewards(recipe):
        roles |= scorer_roles(learned)
    roles |= judge_roles(recipe.judges)
    if isinstance(recipe, PPORecipe) and not shared:
        critic = recipe.critic or CriticLearner()
        source = FromRole("actor" if critic.start == "policy" else critic_role(recipe, critic.start))
        spec = ObjectiveSpec("critic", method)
        training = _training(spec, critic, steps, epochs=method.epochs, minibatches=method.minibatches)
        roles["critic"] = RoleSetup(source, VALUE, training)
    return roles
