"""Rules of thumb on sharding by size, held against the planner: what is said, what the best plan does, and the price of
the difference.

    parameters      training, by ZeRO     training, by tp and pp     rollout
    up to 4 B       nothing sharded       tp 1                       the smallest tp whose weights
    up to 10 B      ZeRO-1                tp 2                       take half of a GPU
    up to 20 B      ZeRO-1                tp 4
    up to 40 B      ZeRO-3                tp 8
    beyond          ZeRO-3                tp 8, pp 2

A rule holds where following it takes at most 5 % more time than the best plan. These are common forms of the rules, not
anybody's in particular.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ropewalk.plan.cluster import Cluster
from ropewalk.plan.graph import CallGraph
from ropewalk.plan.shape import ModelShape
from ropewalk.planner.case.describe import Case
from ropewalk.planner.case.graphs import GENERATE, method_graph
from ropewalk.planner.case.space import Space
from ropewalk.planner.estimate.work import Shard, Strategy
from ropewalk.planner.planning import Asked, solve
from ropewalk.planner.search.candidates import problem_of
from ropewalk.planner.search.problem import Candidate, Problem
from ropewalk.records.errors import InputError

Way: TypeAlias = Literal["training by ZeRO", "training by tp and pp", "rollout by tp"]
WAYS: tuple[Way, ...] = ("training by ZeRO", "training by tp and pp", "rollout by tp")
HOLDS_WITHIN = 0.05
SIZES = ("1b", "7b", "14b", "32b", "70b")
GPUS = (8, 16, 64, 128)
BY_SIZE: tuple[tuple[float, Shard, int, int], ...] = (
    (4e9, "none", 1, 1),
    (10e9, "optimizer", 2, 1),
    (20e9, "optimizer", 4, 1),
    (40e9, "full", 8, 1),
    (float("inf"), "full", 8, 2),
)
"""(most parameters, what ZeRO shards, tp, pp)."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a rule says of one size."""

    tp: int
    pp: int = 1
    shard: Shard | None = None
    """None: says nothing."""

    def follows(self, strategy: Strategy) -> bool:
        return (strategy.tp, strategy.pp) == (self.tp, self.pp) and self.shard in (None, strategy.shard)


@dataclass(frozen=True, slots=True)
class Check:
    """A rule against the best way to run the call."""

    way: Way
    rule: Rule
    rule_seconds: float | None
    """None where following the rule does not fit in memory."""
    best: Strategy | None
    """None where nothing fits."""
    best_seconds: float | None

    @property
    def slower(self) -> float | None:
        """By what share, following the rule."""
        if self.rule_seconds is None or self.best_seconds is None:
            return None
        return self.rule_seconds / self.best_seconds - 1

    @property
    def holds(self) -> bool:
        return self.slower is not None and self.slower <= HOLDS_WITHIN


@dataclass(frozen=True, slots=True)
class Row:
    """One size on one number of GPUs."""

    size: str
    gpus: int
    checks: tuple[Check, ...]


def rule(way: Way, shape: ModelShape, memory_bytes: float, gpus_per_node: int) -> Rule:
    """What is said of a model of this shape on GPUs of this memory."""
    _, shard, tp, pp = next(row for row in BY_SIZE if shape.parameters <= row[0])
    if way == "training by ZeRO":
        return Rule(1, 1, shard)
    if way == "training by tp and pp":
        return Rule(min(tp, gpus_per_node), pp, "optimizer")
    tp = 1
    while tp < gpus_per_node and 2 * shape.parameters > tp * memory_bytes / 2:
        tp *= 2
    return Rule(tp)


def check(case: Case) -> tuple[Check, ...]:
    """The rules for the actor of a case, its training and its rollout each alone on the case's cluster."""
    alone = {
        "actor_train": replace(case, graph=method_graph("sft")),
        "generate": replace(case, graph=CallGraph((GENERATE,), given=("prompts",))),
    }
    found = {call: _candidates(replace(one, shapes={"actor": case.shapes["actor"]})) for call, one in alone.items()}
    checks = []
    for way in WAYS:
        candidates = found["generate" if way == "rollout by tp" else "actor_train"]
        said = _rule_of(way, case)
        best = min(((c.seconds, c.strategy) for c in candidates), key=lambda row: row[0], default=(None, None))
        following = [c.seconds for c in candidates if c.strategy.gpus == case.cluster.gpus and said.follows(c.strategy)]
        seconds = min(following, default=None)
        checks.append(Check(way, said, seconds, best[1], best[0]))
    return tuple(checks)


def table(
    case: Callable[[Cluster, ModelShape], Case], clusters: Sequence[Cluster], sizes: Sequence[tuple[str, ModelShape]]
) -> Iterator[Row]:
    """Every size on every cluster."""
    for name, shape in sizes:
        for cluster in clusters:
            yield Row(name, cluster.gpus, check(case(cluster, shape)))


def by_rules(case: Case, way: Way, *, budget_seconds: float = 0.3) -> float | None:
    """Seconds of an iteration on all GPUs by the rules (for training one of the two), what they leave open being chosen
    well; None where that does not fit."""
    training, rollout = _rule_of(way, case), _rule_of("rollout by tp", case)
    gpus = case.cluster.gpus
    everything = replace(case, space=_wide(case))
    try:
        problem = problem_of(everything, only=lambda mesh: mesh.gpus == gpus, prune=False)
        narrowed = replace(problem, candidates=tuple(_narrowed(problem, training, rollout)))
        return solve(narrowed, Asked(budget_seconds=budget_seconds))[0].period_seconds
    except InputError:
        return None


def _narrowed(problem: Problem, training: Rule, rollout: Rule) -> Iterator[tuple[Candidate, ...]]:
    for kind, options in zip(problem.schedule.kinds, problem.candidates, strict=False):
        said = {"train": training, "generate": rollout}.get(kind)
        yield tuple(option for option in options if said is None or said.follows(option.strategy))


def _rule_of(way: Way, case: Case) -> Rule:
    gpu = min((group.gpu for group in case.cluster.groups), key=lambda gpu: gpu.memory_bytes)
    trained = next((call.role for call in case.graph.of_kind("train")), "actor")
    shape = case.shapes["actor" if "actor" in case.shapes else trained]
    return rule(way, shape, gpu.memory_bytes, min(group.gpus_per_node for group in case.cluster.groups))


def _candidates(case: Case) -> Sequence[Candidate]:
    """Every way to run a case's only call; none where it fits nowhere."""
    try:
        return problem_of(replace(case, space=_wide(case)), prune=False).candidates[0]
    except InputError:
        return ()


def _wide(case: Case) -> Space:
    return replace(case.space, shard=("none", "optimizer", "full"))
