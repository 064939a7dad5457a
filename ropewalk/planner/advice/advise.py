"""From GPUs, a model and a task to a method, a placement and a recipe, each with its reason; and what fails first.

The method is decided by what can be had: a check of answers, preference pairs, room for a critic. Everything else is
computed: the placement is the planner's with its certificate, memory by footprints of the calls, time by the price of
each stage. Stages use all GPUs one after another.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Literal, TypeAlias

from ropewalk.plan.cluster import Cluster
from ropewalk.plan.shape import ModelShape
from ropewalk.plan.workload import Lengths, Workload
from ropewalk.planner.advice.fewest import fewest_gpus, fits
from ropewalk.planner.advice.rules import WAYS, Row, Way, by_rules, table
from ropewalk.planner.case.describe import Case
from ropewalk.planner.case.graphs import assign_shapes, method_graph, split_name
from ropewalk.planner.case.space import default_space
from ropewalk.planner.estimate.calibration import CALIBRATIONS, REFERENCE, Calibration
from ropewalk.planner.estimate.place import place
from ropewalk.planner.estimate.work import works
from ropewalk.planner.planning import Asked, Planned, plan_case
from ropewalk.planner.price.decoding import Replica, replica
from ropewalk.planner.price.figure import Figure, positive
from ropewalk.planner.price.flops import relative_cost
from ropewalk.planner.price.job_price import DAY_HOURS, Assumptions, Price, price
from ropewalk.planner.price.jobs import Amount, job, trunk
from ropewalk.records.errors import InputError

Limit: TypeAlias = Literal["memory", "time"]
BATCH_ROWS = 512
"""Rows of one iteration, assumed."""
PLAN_SECONDS = 2.0
"""For the search and the proof of one placement."""
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
        if not 0 <= self.pairs < float("inf"):
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
    kind: str
    """Of GPU."""
    have: int
    """GPUs of that kind."""
    because: str
    planned: bool = False
    """A plan shows that it fits, on whatever GPUs."""

    @property
    def met(self) -> bool:
        return self.planned or (self.gpus is not None and self.gpus <= self.have)


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the advice."""

    method: str
    recipe: str
    price: Price
    plan: Planned | None
    """The placement; None where no plan fits."""
    refused: str
    """Why none does."""
    iterations: float
    by_rules: Mapping[Way, float | None]
    """Seconds of an iteration by rules of thumb, by how they cut the training; None where that does not fit."""
    needs: tuple[Need, ...]

    @property
    def planned_days(self) -> float | None:
        """By the planner's model of time, with no work repeated."""
        seconds = None if self.plan is None else self.plan.judged.period_seconds
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
        needs += _time_needs(question, stages, total)
    needs.sort(key=lambda need: -(need.gpus or float("inf")) / need.have)
    return Advice(
        methods=methods,
        against=against,
        stages=stages,
        needs=tuple(needs),
        days=total.times(1 / (question.cluster.gpus * DAY_HOURS)),
        enough=all(need.met for need in needs),
    )


def rules_of_thumb(
    clusters: Sequence[Cluster], sizes: Sequence[tuple[str, ModelShape]], constants: Calibration | None = None
) -> Iterator[Row]:
    """The rules on sharding by size, held against the planner on the rows of one iteration."""
    given = constants or CALIBRATIONS.get("default", REFERENCE)

    def case(cluster: Cluster, shape: ModelShape) -> Case:
        return case_of(Question(cluster, shape, verifiable=True), "grpo+rule-reward", given)

    return table(case, clusters, sizes)


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
        dtype=_dtype(question.cluster),
    )
    space = default_space(question.cluster, shapes)
    return Case(method, method, graph, shapes, question.cluster, workload, constants.name, space)


def _dtype(cluster: Cluster) -> str:
    """The first of 16 and 32 bits that all devices compute in."""
    return next((d for d in ("bf16", "fp16", "fp32") if all(d in group.gpu.flops for group in cluster.groups)), "bf16")


def _stage(question: Question, method: str, constants: Calibration) -> Stage:
    case = case_of(question, method, constants)
    plan, refused = None, ""
    try:
        plan = plan_case(case, Asked(budget_seconds=PLAN_SECONDS, baselines=False))
    except InputError as error:
        refused = str(error)
    return Stage(
        method=method,
        recipe=RECIPES[method],
        price=_price(question, method),
        plan=plan,
        refused=refused,
        iterations=_rows(question, method) / BATCH_ROWS,
        by_rules={way: by_rules(case, way) for way in WAYS if way.startswith("training")},
        needs=_memory_needs(question, case, planned=plan is not None),
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


def _memory_needs(question: Question, case: Case, *, planned: bool) -> tuple[Need, ...]:
    """Of the whole stage, of each trained model alone, and of one engine."""

    def need(what: str, because: str, calls: Sequence[str] = ()) -> Need:
        few = fewest_gpus(case, calls)
        return Need(f"{case.method}, {what}", "memory", few.gpus, few.kind, few.have, because, planned)

    needs = []
    if len(case.graph.calls) > 1:
        together = ", ".join(sorted(case.graph.roles))
        needs.append(need("all models", f"{together} share the GPUs, with activations and the cache"))
    for call in case.graph.calls:
        billions = f"{case.shapes[call.role].parameters / 1e9:.3g} B parameters"
        if call.kind == "train":
            because = f"16 bytes for each of {billions}, and activations"
            needs.append(need(f"training the {_named(call.role)}", because, [call.name]))
        if call.kind == "generate":
            needs.append(_engine_need(question, case, call.role, billions, planned=planned))
    return tuple(needs)


def _engine_need(question: Question, case: Case, role: str, billions: str, *, planned: bool) -> Need:
    """Of the kinds of GPU the one that needs the fewest."""
    cluster = question.cluster
    engines: list[tuple[Replica, str, int]] = []
    for group in cluster.groups:
        engine = replica(case.shapes[role], group.gpu, batch=1, longest=question.row_tokens)
        have = sum(other.gpus for other in cluster.groups if other.gpu.name == group.gpu.name)
        engines.append((engine, group.gpu.name, have))
    engine, kind, have = min(engines, key=lambda found: found[0].gpus / found[2])
    because = f"2 bytes for each of {billions}, and the cache; {engine.batch_that_fits} answers fit at once"
    return Need(f"{case.method}, one rollout engine", "memory", engine.gpus, kind, have, because, planned)


def _time_needs(question: Question, stages: tuple[Stage, ...], total: Figure) -> Iterator[Need]:
    """GPUs that all stages need to end in time, and how much of that each part of the work needs."""
    assert question.days is not None
    kind, have = place(question.cluster, 0, question.cluster.gpus).gpu.name, question.cluster.gpus
    hours = question.days * DAY_HOURS

    def need(what: str, gpu_hours: float, because: str) -> Need:
        return Need(what, "time", ceil(gpu_hours / hours), kind, have, because)

    yield need("all stages", total.high, f"{total.high:,.0f} GPU-hours at the slow end, in {question.days:g} days")
    for stage in stages:
        for part in stage.price.parts:
            if len(stages) + len(stage.price.parts) > 2 and part.gpu_hours.high:
                high = part.gpu_hours.high * (1 + stage.price.retry)
                yield need(f"{stage.method}, {part.part}", high, f"{high:,.0f} GPU-hours of these")


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
    case = case_of(question, method, constants)
    return fits(case, works(case.graph, case.shapes, case.workload))


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
