"""From a recipe's judges to calls of the graph: a judge that is a model of the run is a role with a call of its own.

Its call is made while samples are gathered, with questions in place of the batch, so it writes no column of the batch
but `judged/NAME`, which stands for the outcomes on the samples. A judge that writes generates; one that only chooses
between A and B is a forward call. A judge behind a server is no call: it holds nothing of this machine. Pure, and
without torch.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeGuard

from ropewalk.plan.graph import Call
from ropewalk.records.errors import InputError
from ropewalk.rollout.config import NativeEngineConfig
from ropewalk.runtime.roles import FromPolicy, RoleSetup, Setup
from ropewalk.runtime.run import local_model
from ropewalk.tasks.judging.config import ModelJudge, NoReasoning, PairwiseJudge, RubricJudge

JUDGED = "judged"
"""The output that a judge's call writes."""
ROLE = "judge"

Judges = Mapping[str, PairwiseJudge | RubricJudge]


def role_of(name: str) -> str:
    """The role of a judge."""
    return f"{ROLE}/{name}"


def writes(judge: PairwiseJudge | RubricJudge) -> bool:
    """Whether it says more than one letter."""
    return isinstance(judge, RubricJudge) or not isinstance(judge.reasoning, NoReasoning)


def of_models(judges: Judges) -> dict[str, tuple[PairwiseJudge | RubricJudge, ModelJudge]]:
    """The judges that are models of the run, and which."""
    return {name: (judge, judge.by) for name, judge in judges.items() if _is_model(judge.by)}


def judge_calls(judges: Judges) -> tuple[Call, ...]:
    """A call for each judge that is a model of the run."""
    return tuple(
        Call(
            role_of(name), role_of(name), "generate" if writes(judge) else "forward", ("tokens",), (f"{JUDGED}/{name}",)
        )
        for name, (judge, _) in of_models(judges).items()
    )


def judge_roles(judges: Judges) -> dict[str, RoleSetup]:
    """Their roles: weights that are only read."""
    return {
        role_of(name): RoleSetup(FromPolicy(str(local_model(by.path)), by.dtype), frozenset({"policy"}))
        for name, (_, by) in of_models(judges).items()
    }


def judge_engines(judges: Judges) -> dict[str, NativeEngineConfig]:
    """Engines of the roles that write."""
    return {
        role_of(name): NativeEngineConfig(slots=by.slots, cache_tokens=by.cache_tokens)
        for name, (judge, by) in of_models(judges).items()
        if writes(judge)
    }


def with_judges(setup: Setup, judges: Judges) -> Setup:
    """A setup with the judges' roles and engines."""
    roles = {**setup.roles, **judge_roles(judges)}
    return replace(setup, roles=roles, writers={**setup.writers, **judge_engines(judges)})


def without_judges(setup: Setup) -> Setup:
    """The setup of a run whose samples have been judged."""
    roles = {name: role for name, role in setup.roles.items() if not name.startswith(f"{ROLE}/")}
    return replace(setup, roles=roles, writers={})


def check_judge_names(judges: Mapping[str, object], scorers: Mapping[str, object]) -> None:
    """A judge may not be called as a scorer of the task: one of the two would be lost."""
    for name in judges:
        if name in scorers:
            raise InputError(f"the task has a scorer called {name!r}: call the judge something else")


def _is_model(by: object) -> TypeGuard[ModelJudge]:
    return isinstance(by, ModelJudge)
