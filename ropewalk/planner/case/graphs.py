"""Call graphs by the name of a method, and which model each role is.

A name is a method and its options: `ppo`, `ppo+old-logprobs`, `grpo+rule-reward`, `distillation+fixed-set`. The graphs
are those that the methods of `algorithms/` give, call by call; they are written again because the planner may not
import these, and a test holds the two together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from ropewalk.plan.graph import Call, CallGraph
from ropewalk.plan.shape import ModelShape
from ropewalk.plan.sizes import shape_of
from ropewalk.records.errors import InputError

SAMPLED = ("tokens", "rollout_logprobs")
REFERENCE = Call("reference", "reference", "forward", ("tokens",), ("reference_logprobs",))
REWARD = Call("reward_model", "reward", "forward", ("tokens",), ("scores",))
GENERATE = Call("generate", "actor", "generate", ("prompts",), SAMPLED)
PAIR_COLUMNS = ("tokens", "unit", "chosen")
STEP_COLUMNS = ("tokens", "step_end", "step_label")


def _ppo(options: frozenset[str]) -> CallGraph:
    shared = "shared-critic" in options
    old = ("old_logprobs",) if "old-logprobs" in options else ()
    calls = [GENERATE]
    if old:
        calls.append(Call("old_logprobs", "actor", "forward", ("tokens",), (*old, "values") if shared else old))
    calls += _judges(options)
    if not (shared and old):
        calls.append(Call("values", "actor" if shared else "critic", "forward", ("tokens",), ("values",)))
    sources = (*SAMPLED, *old, *_judged(options), "values", "rewards", "advantages")
    calls.append(Call("actor_train", "actor", "train", (*sources, "returns") if shared else sources, ()))
    if not shared:
        calls.append(Call("critic_train", "critic", "train", (*sources, "returns"), ()))
    return CallGraph(tuple(calls), given=("prompts", "rewards", "advantages", "returns"))


def _grpo(options: frozenset[str]) -> CallGraph:
    old = ("old_logprobs",) if "old-logprobs" in options else ()
    calls = [GENERATE]
    if old:
        calls.append(Call("old_logprobs", "actor", "forward", ("tokens",), old))
    sources = (*SAMPLED, *old, *_judged(options), "rewards", "advantages")
    calls += [*_judges(options), Call("actor_train", "actor", "train", sources, ())]
    return CallGraph(tuple(calls), given=("prompts", "rewards", "advantages"))


def _dpo(options: frozenset[str]) -> CallGraph:
    reference = () if "no-reference" in options else (REFERENCE,)
    reads = (*PAIR_COLUMNS, *(name for call in reference for name in call.writes))
    train = Call("actor_train", "actor", "train", reads, (), unit="pair")
    return CallGraph((*reference, train), given=PAIR_COLUMNS)


def _reward_model(_: frozenset[str]) -> CallGraph:
    return CallGraph((Call("reward_train", "reward", "train", PAIR_COLUMNS, (), unit="pair"),), given=PAIR_COLUMNS)


def _process_reward_model(_: frozenset[str]) -> CallGraph:
    return CallGraph((Call("reward_train", "reward", "train", STEP_COLUMNS, ()),), given=STEP_COLUMNS)


def _sft(_: frozenset[str]) -> CallGraph:
    return CallGraph((Call("actor_train", "actor", "train", ("tokens",), ()),), given=("tokens",))


def _distillation(options: frozenset[str]) -> CallGraph:
    """The actor is the student; from a fixed set the teacher scores what is there."""
    fixed = "fixed-set" in options
    teacher = Call("teacher", "teacher", "forward", ("tokens",), ("teacher_logprobs",))
    read = (*(("tokens",) if fixed else SAMPLED), "teacher_logprobs")
    calls = (teacher, Call("actor_train", "actor", "train", read, ()))
    return CallGraph(calls, given=("tokens",)) if fixed else CallGraph((GENERATE, *calls), given=("prompts",))


def _judges(options: frozenset[str]) -> list[Call]:
    calls = [] if "no-reference" in options else [REFERENCE]
    return calls if "rule-reward" in options else [*calls, REWARD]


def _judged(options: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for call in _judges(options) for name in call.writes)


@dataclass(frozen=True, slots=True)
class Method:
    """A method whose iterations can be planned."""

    build: Callable[[frozenset[str]], CallGraph]
    options: tuple[str, ...] = ()
    group_size: int = 1
    """Sequences of a prompt unless the workload says otherwise; 2 and fixed where a pair is the unit."""


METHODS: Mapping[str, Method] = {
    "ppo": Method(_ppo, ("old-logprobs", "shared-critic", "rule-reward", "no-reference")),
    "grpo": Method(_grpo, ("old-logprobs", "rule-reward", "no-reference"), group_size=8),
    "dpo": Method(_dpo, ("no-reference",), group_size=2),
    "reward-model": Method(_reward_model, group_size=2),
    "process-reward-model": Method(_process_reward_model),
    "sft": Method(_sft),
    "distillation": Method(_distillation, ("fixed-set",)),
}
SIZED_AS = {"reference": "actor", "critic": "actor", "reward": "critic"}
"""Whose size a role has that was given none; the reward is sized as the actor where there is no critic."""


def split_name(name: str) -> tuple[Method, frozenset[str]]:
    """`method+option+option` → the method and its options. Raises InputError with the nearest valid name."""
    base, *options = name.strip().lower().replace("_", "-").split("+")
    if base not in METHODS:
        near = get_close_matches(base, METHODS, n=1, cutoff=0.0)[0]
        raise InputError(f"unknown method {name!r}: did you mean {near!r}? (known: {', '.join(METHODS)})")
    known = METHODS[base].options
    for option in options:
        if option not in known:
            close = get_close_matches(option, known, n=1, cutoff=0.0)
            mend = f"did you mean {close[0]!r}? (known: {', '.join(known)})" if close else "it has none"
            raise InputError(f"method {base!r} has no option {option!r}: {mend}")
    return METHODS[base], frozenset(options)


def method_graph(name: str) -> CallGraph:
    """The calls of one iteration of a method with its options."""
    method, options = split_name(name)
    return method.build(options)


def trained_roles(graph: CallGraph) -> frozenset[str]:
    return frozenset(call.role for call in graph.of_kind("train"))


def freeze(graph: CallGraph, roles: Sequence[str]) -> CallGraph:
    """The graph without the train calls of some roles: warm-ups that train the critic alone, or the actor alone."""
    for role in roles:
        check_role(role, graph.roles)
        if role not in trained_roles(graph):
            raise InputError(f"role {role!r} is frozen in any case: leave it out of `frozen`")
    if not trained_roles(graph) - set(roles):
        raise InputError(f"with {', '.join(roles)} frozen nothing is trained: leave at least one role to train")
    calls = tuple(call for call in graph.calls if call.kind != "train" or call.role not in roles)
    return CallGraph(calls, graph.given)


def assign_shapes(
    graph: CallGraph, models: Mapping[str, str | ModelShape], *, beside: Path | None = None
) -> dict[str, ModelShape]:
    """The shape of every role from those given: the reference is sized as the actor, the reward as the critic.
    Models are shapes, size names, or paths from `beside`.

    A critic and a reward model have one number per position for a head, an actor with the critic on it has both heads.
    """
    for role in models:
        check_role(role, graph.roles)
    named = {role: shape_of(m, beside=beside) if isinstance(m, str) else m for role, m in models.items()}
    return {role: _with_heads(graph, role, _given(graph, role, named)) for role in graph.roles}


def doubts(shapes: Mapping[str, ModelShape]) -> tuple[str, ...]:
    """What the sizes of models rest on that are not known exactly: a sentence for each, with its roles."""
    told: dict[str, list[str]] = {}
    for role, shape in shapes.items():
        if shape.doubt:
            told.setdefault(shape.doubt, []).append(role)
    return tuple(f"{', '.join(roles)}: {doubt}" for doubt, roles in told.items())


def check_role(role: str, roles: Sequence[str]) -> None:
    if role not in roles:
        near = get_close_matches(role, roles, n=1, cutoff=0.0)[0]
        raise InputError(f"this method has no role {role!r}: did you mean {near!r}? (it has {', '.join(roles)})")


def _given(graph: CallGraph, role: str, models: Mapping[str, ModelShape]) -> ModelShape:
    if role in models:
        return models[role]
    like = SIZED_AS.get(role.partition("/")[0], "")
    if like == "critic" and "critic" not in graph.roles:
        like = "actor"
    if like not in graph.roles:
        raise InputError(f"role {role!r} has no model: give it a size such as '7b', or a folder with a config.json")
    return _given(graph, like, models)


def _with_heads(graph: CallGraph, role: str, shape: ModelShape) -> ModelShape:
    if role.partition("/")[0] in ("critic", "reward"):
        return replace(shape.with_scalar_head(), scalar_heads=max(shape.scalar_heads, 1))
    shared = any("values" in call.writes for call in graph.calls if call.role == role)
    return replace(shape, scalar_heads=1) if shared else replace(shape, vocabulary_head=True, scalar_heads=0)
