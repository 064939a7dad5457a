"""From GPUs, a model and a task to a method, a placement and a recipe, each with its reason; and what fails first.

The method is decided by what can be had: a check of answers, preference pairs, room for a critic. Everything else is
computed: memory by footprints of the calls, time by the price of each stage. Stages use all GPUs one after another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Literal, TypeAlias

from ropewalk.plan.cluster import Cluster
from ropewalk.plan.shape import ModelShape
from ropewalk.plan.workload import Lengths, Workload
from ropewalk.planner.advice.colocate import Colocated, Rung, colocate, fewest_gpus, ladder
from ropewalk.planner.case.describe import Case
from ropewalk.planner.case.graphs import assign_shapes, method_graph, split_name
from ropewalk.planner.case.space import default_space
from ropewalk.planner.estimate.calibration import CALIBRATIONS, REFERENCE, Calibration
from ropewalk.planner.estimate.place import place
from ropewalk.planner.estimate.work import CallWork, works
from ropewalk.planner.price.decoding import replica
from ropewalk.planner.price.figure import Figure, positive
from ropewalk.planner.price.flops import relative_cost
from ropewalk.planner.price.job_price import DAY_HOURS, Assumptions, Price, price
from ropewalk.planner.price.jobs import Amount, job, trunk
from ropewalk.records.errors import InputError

Limit: TypeAlias = Literal["memory", "time"]
BATCH_ROWS = 512
"""Rows of one iteration, assumed."""
RECIPES: Mapping[str, str] = {
    "sft": "sft-chat",
    "reward-model": "reward-model",
    "grpo+rule-reward": "grpo-gsm8k",
    "grpo": "city-grpo-reward-model",
    "ppo": "city-ppo",
    "ppo+rule-reward": "city-ppo",
}
"""The built-in recipe nearest to a stage."""


@dataclass(frozen=True, slots=True)
class Question:
    """What there is and what is wanted."""

    cluster: Cluster
    model: ModelShape
    verifiable: bool = False
    """A program can say whether an answer is right."""
    long_episodes: bool = False
    """Many turns or thousands of tokens before the reward."""
    pairs: float = 0.0
    """Preference pairs at hand."""
    days: float | None = None
    """Within which all stages should end."""
    prompts: float = 100e3
    """Of one pass of reinforcement learning; demonstrations where it is supervised."""
    row_tokens: int = 1024
    prompt_tokens: int = 128
    assumptions: Assumptions = field(default_factory=Assumptions)

    def __post_init__(self) -> None:
        positive(self.prompts, "the number of prompts")
        if self.pairs < 0:
            raise InputError(f"the number of pairs is at least 0, got {self.pairs:g}")
        if self.days is not None:
            positive(self.days, "the number of days")
        if not 0 < self.prompt_tokens < self.row_tokens:
            raise InputError(
                f"a prompt of {self.prompt_tokens} tokens leaves nothing to answer of {self.row_tokens}: "
                "a row is prompt and answer together"
            )


@dataclass(frozen=True, slots=True)
class Choice:
    """Something recommended, or advised against, and why."""

    what: str
    because: str


@dataclass(frozen=True, slots=True)
class Need:
    """How many GPUs one thing needs at least."""

    what: str
    limit: Limit
    gpus: int | None
    """None: more than any mesh looked at."""
    because: str


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the advice."""

    method: str
    recipe: str
    price: Price
    placement: Colocated | None
    """On all GPUs; None where it does not fit."""
    iterations: float
    ladders: Mapping[str, tuple[Rung, ...]]
    """By train call, ways to shard it on all GPUs."""
    needs: tuple[Need, ...]

    @property
    def planned_days(self) -> float | None:
        """By the cost model of the planner, with no work repeated."""
        seconds = None if self.placement is None else self.placement.seconds
        return None if seconds is None else seconds * self.iterations / (3600 * DAY_HOURS)


@dataclass(frozen=True, slots=True)
class Advice:
    """The answer."""

    methods: tuple[Choice, ...]
    """Stages in order."""
    against: tuple[Choice, ...]
    stages: tuple[Stage, ...]
    needs: tuple[Need, ...]
    """From the most GPUs to the fewest: the first fails first."""
    days: Figure
    """Of all stages on all GPUs."""
    enough: bool
    """Whether the cluster meets every need."""


def advise(question: Question, constants: Calibration | None = None) -> Advice:
    """The advice on a question."""
    given = constants or CALIBRATIONS.get("default", REFERENCE)
    methods, against = decide(question, given)
    stages = tuple(_stage(question, choice.what, given) for choice in methods)
    needs = [need for stage in stages for need in stage.needs]
    hours = [stage.price.gpu_hours for stage in stages]
    total = Figure(sum(h.low for h in hours), sum(h.high for h in hours))
    if question.days is not None:
        needs.append(_time_need(question, stages, total))
    needs.sort(key=lambda need: -(need.gpus or float("inf")))
    gpus = question.cluster.gpus
    return Advice(
        methods=methods,
        against=against,
        stages=stages,
        needs=tuple(needs),
        days=total.times(1 / (gpus * DAY_HOURS)),
        enough=all(need.gpus is not None and need.gpus <= gpus for need in needs),
    )


def decide(question: Question, constants: Calibration) -> tuple[tuple[Choice, ...], tuple[Choice, ...]]:
    """The stages by name with reasons, and what was not taken."""
    if not question.verifiable and not question.pairs:
        return _without_reward()
    before = () if question.verifiable else (_reward_model(question),)
    instead = _a_learned_reward() if question.verifiable else _pairs_alone(question)
    taken, left = _credit(question, "+rule-reward" if question.verifiable else "", constants)
    return (*before, taken), (instead, left)


def _credit(question: Question, reward: str, constants: Calibration) -> tuple[Choice, Choice]:
    """A critic or a group: the one taken, and the other."""
    critic, group = f"ppo{reward}", f"grpo{reward}"
    passes, states = f"{_cost(critic)} against {_cost(group)}", f"{_states(critic)} against {_states(group)}"
    costs = f"{passes} training passes a token, {states} bytes of states a parameter, estimated"
    if not question.long_episodes:
        why = "the group of a prompt's answers is the baseline, so there is no critic to train or to hold"
        return Choice(group, why), Choice(critic, f"a critic earns its cost where rewards come late ({costs})")
    if _fits(question, critic, constants):
        why = "a critic tells early tokens of a long episode from late ones, and it fits"
        return Choice(critic, why), Choice(
            group, f"all tokens of an answer get one advantage, though cheaply ({costs})"
        )
    why = f"a critic would help in long episodes, but does not fit {question.cluster.gpus} GPUs beside the rest"
    return Choice(group, why), Choice(critic, f"it does not fit ({costs})")


def case_of(question: Question, method: str, constants: Calibration) -> Case:
    """One iteration of a stage, as the planner's search takes it."""
    graph, size = method_graph(method), _group_size(method)
    shapes = assign_shapes(graph, {trunk(method): question.model})
    workload = Workload(
        prompts=max(1, BATCH_ROWS // size),
        group_size=size,
        prompt_tokens=Lengths.fixed(question.prompt_tokens),
        generated_tokens=Lengths.fixed(question.row_tokens - question.prompt_tokens),
    )
    space = default_space(question.cluster, shapes)
    return Case(method, method, graph, shapes, question.cluster, workload, constants.name, space)


def batch_works(question: Question, method: str, constants: Calibration) -> tuple[CallWork, ...]:
    """The calls of one iteration of a stage."""
    case = case_of(question, method, constants)
    return works(case.graph, case.shapes, case.workload)


def _stage(question: Question, method: str, constants: Calibration) -> Stage:
    cluster = question.cluster
    where = place(cluster, 0, cluster.gpus)
    calls = batch_works(question, method, constants)
    cost = _price(question, method)
    trained = [call for call in calls if call.kind == "train"]
    return Stage(
        method=method,
        recipe=RECIPES[method],
        price=cost,
        placement=colocate(calls, where, constants),
        iterations=_rows(question, method) / BATCH_ROWS,
        ladders={call.name: ladder(call, where, constants) for call in trained},
        needs=_memory_needs(question, method, calls, constants),
    )


def _price(question: Question, method: str) -> Price:
    """One pass of a stage; the rows of an iteration are shared by all engines, which limits the batch of each."""
    cluster = question.cluster
    amount = Amount(
        prompts=_rows(question, method) / _group_size(method),
        row_tokens=question.row_tokens,
        prompt_tokens=question.prompt_tokens,
    )
    gpu = place(cluster, 0, cluster.gpus).gpu
    done = job(method, {trunk(method): question.model}, amount)
    engine = replica(question.model, gpu, batch=1, longest=question.row_tokens)
    waiting = max(1, BATCH_ROWS * engine.gpus // cluster.gpus)
    given = replace(question.assumptions, batch=min(question.assumptions.batch, waiting))
    return price(done, gpu, gpus=cluster.gpus, assumptions=given)


def _rows(question: Question, method: str) -> float:
    """Of one pass: both halves of every pair, or the samples of every prompt."""
    on_pairs = any(call.unit == "pair" for call in method_graph(method).calls)
    return (question.pairs if on_pairs else question.prompts) * _group_size(method)


def _memory_needs(
    question: Question, method: str, calls: tuple[CallWork, ...], constants: Calibration
) -> tuple[Need, ...]:
    """Of the whole stage, of each trained model alone, and of one engine."""
    cluster = question.cluster
    roles = sorted({call.role for call in calls})
    needs = []
    if len(calls) > 1:
        together = f"{', '.join(roles)} share the GPUs, with activations and the cache"
        needs.append(Need(f"{method}, all models", "memory", fewest_gpus(calls, cluster, constants), together))
    for call in calls:
        if call.kind == "train":
            because = f"16 bytes for each of {call.shape.parameters / 1e9:.3g} B parameters, and activations"
            needs.append(
                Need(
                    f"{method}, training the {_named(call.role)}",
                    "memory",
                    fewest_gpus([call], cluster, constants),
                    because,
                )
            )
        if call.kind == "generate":
            engine = replica(call.shape, place(cluster, 0, 1).gpu, batch=1, longest=question.row_tokens)
            because = f"2 bytes a parameter, and the cache of at least one answer; {engine.batch_that_fits} fit at once"
            needs.append(Need(f"{method}, one rollout engine", "memory", engine.gpus, because))
    return tuple(needs)


def _time_need(question: Question, stages: tuple[Stage, ...], total: Figure) -> Need:
    assert question.days is not None
    parts = ", ".join(f"{stage.method} {stage.price.gpu_hours.high:,.0f}" for stage in stages)
    because = f"at the slow end {total.high:,.0f} GPU-hours ({parts}) in {question.days:g} days"
    return Need("all stages in time", "time", ceil(total.high / (question.days * DAY_HOURS)), because)


def _without_reward() -> tuple[tuple[Choice, ...], tuple[Choice, ...]]:
    because = "there is neither a check of answers nor pairs, so only demonstrations can teach"
    against = (
        Choice("grpo+rule-reward", "nothing says which answer is right: write a check first"),
        Choice("reward-model", "there are no pairs to learn a reward from: collect some first"),
    )
    return (Choice("sft", because),), against


def _reward_model(question: Question) -> Choice:
    return Choice("reward-model", f"no program can check answers, and {question.pairs:,.0f} pairs can teach a reward")


def _a_learned_reward() -> Choice:
    return Choice("reward-model", "a check has no learned blind spot, and takes no GPU")


def _pairs_alone(question: Question) -> Choice:
    cost = _price(question, "dpo").gpu_hours
    because = (
        f"{cost.low:,.0f} to {cost.high:,.0f} GPU-hours (estimated) for one pass over the same pairs, no rollout; but "
        "the policy never sees its own answers, and no recipe is built in"
    )
    return Choice("dpo", because)


def _fits(question: Question, method: str, constants: Calibration) -> bool:
    where = place(question.cluster, 0, question.cluster.gpus)
    return colocate(batch_works(question, method, constants), where, constants) is not None


def _group_size(method: str) -> int:
    return split_name(method)[0].group_size


def _cost(method: str) -> str:
    return f"{relative_cost(method_graph(method)):.2f}"


def _states(method: str) -> str:
    graph = method_graph(method)
    trained = {call.role for call in graph.of_kind("train")}
    each = sum(16 if role in trained else 2 for role in graph.roles)
    return str(each)


def _named(role: str) -> str:
    return {"reward": "reward model"}.get(role, role)
