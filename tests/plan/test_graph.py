"""Call graphs, layouts and plans refuse what cannot run, and a plan file reads back as it was."""

import pytest

from ropewalk.algorithms.config import PPO
from ropewalk.algorithms.methods import ppo
from ropewalk.plan.execution import CallPlan, ExecutionPlan, default_plan
from ropewalk.plan.graph import Call, CallGraph
from ropewalk.plan.layout import Layout
from ropewalk.records.errors import InputError

GENERATE = Call("generate", "actor", "generate", ("prompts",), ("tokens",))
TRAIN = Call("train", "actor", "train", ("tokens", "rewards"), ())


def test_edges_follow_from_the_names() -> None:
    again = Call("again", "actor", "forward", ("tokens",), ("tokens",))
    graph = CallGraph((GENERATE, again, TRAIN), given=("prompts", "rewards"))
    assert graph.edges() == (("generate", "again"), ("again", "train"))
    assert graph["train"] is TRAIN and graph.of_kind("train") == (TRAIN,) and graph.roles == ("actor",)


def test_a_call_that_reads_what_nobody_wrote_is_named() -> None:
    with pytest.raises(InputError, match=r"'train' reads \['tokens'\]"):
        CallGraph((TRAIN, GENERATE), given=("prompts", "rewards"))
    with pytest.raises(InputError, match="distinct"):
        CallGraph((GENERATE, GENERATE), given=("prompts",))
    with pytest.raises(KeyError):
        CallGraph((GENERATE,), given=("prompts",))["train"]


@pytest.mark.parametrize("wrong", [{"dp": 2}, {"dp": 0}, {"tp": 2, "pp": 2}])
def test_a_layout_uses_each_of_its_ranks_once(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError):
        Layout((0,), **wrong)
    with pytest.raises(InputError):
        Layout((0, 0), dp=2)
    assert str(Layout(tuple(range(8)), dp=2, tp=4)) == "2·4·1"


def test_a_plan_file_reads_back_as_it_was() -> None:
    graph = ppo.graph(PPO(), learned_reward=True)
    plan = default_plan(graph, CallPlan(Layout((0, 1), dp=2, shard="full"), micro_batch_tokens=77, recompute=True))
    assert ExecutionPlan.from_json(plan.to_json()) == plan
    assert plan.order == tuple(call.name for call in graph.calls)
    with pytest.raises(InputError, match="format"):
        ExecutionPlan.from_json(plan.to_json().replace('"format": 1', '"format": 0'))
