"""Plan files: they read back to the same, and a damaged one is refused in one sentence that names what is wrong."""

import json

import pytest

from ropewalk.plan.execution import CallPlan, ExecutionPlan
from ropewalk.plan.layout import Layout
from ropewalk.records.errors import InputError

PLAN = ExecutionPlan(
    calls={
        "generate": CallPlan(Layout((0, 1, 2, 3), dp=2, tp=2), micro_batch_tokens=4096),
        "actor_train": CallPlan(Layout((0, 1), dp=2, shard="full"), offload=True, recompute=True),
    },
    order=("generate", "actor_train"),
    late=("actor_train",),
    estimate_seconds=1.5,
    bound_seconds=1.25,
    provenance={"cluster": "4 GPUs", "mode": "one-step-off"},
)


def test_a_plan_reads_back_to_the_same() -> None:
    assert ExecutionPlan.from_json(PLAN.to_json()) == PLAN


def test_a_file_by_hand_may_leave_out_what_has_a_default() -> None:
    text = json.dumps({"format": 1, "calls": {"train": {"layout": {"ranks": [0]}}}})
    plan = ExecutionPlan.from_json(text)
    assert plan == ExecutionPlan({"train": CallPlan(Layout((0,)))}, ("train",))


def damaged(**changes: object) -> str:
    raw = json.loads(PLAN.to_json())
    for path, value in changes.items():
        *way, last = path.split("__")
        at = raw
        for key in way:
            at = at[key]
        at[last] = value
    return json.dumps(raw)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[1]", "is not of format 1"),
        (damaged(format=2), "is not of format 1"),
        (damaged(calls={}), "places no call"),
        (damaged(ordr=[]), "a key 'ordr', which means nothing: did you mean 'order'"),
        (damaged(order="generate"), "order = 'generate': give a list"),
        (damaged(late=[1]), "late = [1]"),
        (damaged(provenance={"seed": 1}), "a table of texts"),
        (damaged(estimate_seconds="fast"), "estimate_seconds = 'fast': give a number"),
        (damaged(calls__generate=[]), "call 'generate' of this plan file has no layout"),
        (damaged(calls__generate__layout__ranks="0-3"), "'generate' of this plan file has ranks '0-3'"),
        (damaged(calls__generate__layout__tp=0), "'generate' of this plan file has tp = 0"),
        (damaged(calls__generate__layout__tp=3), "'generate' of this plan file: a layout 2·3·1 needs"),
        (damaged(calls__generate__layout__tpp=3), "a key 'tpp', which means nothing: did you mean 'tp'"),
        (damaged(calls__generate__layout__shard="all"), "shard = 'all': give one of none, optimizer, full"),
        (damaged(calls__generate__offload=1), "offload = 1: give true or false"),
        (damaged(calls__generate__micro_batch_tokens=1.5), "micro_batch_tokens = 1.5"),
        (damaged(calls__generate__micro_batch=1), "did you mean 'micro_batch_tokens'"),
    ],
)
def test_a_damaged_file_is_refused_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        ExecutionPlan.from_json(text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
