"""The memory bill: known figures, and what changes it."""

from dataclasses import replace

import pytest

from ropewalk.algorithms.config import GRPO, PPO, SFT, KLLoss, RewardModel, SharedCritic
from ropewalk.algorithms.methods import grpo, ppo, reward_model, sft
from ropewalk.plan.execution import CallPlan, ExecutionPlan, default_plan
from ropewalk.plan.graph import Call, CallGraph
from ropewalk.plan.layout import Layout
from ropewalk.plan.memory import (
    AUTOCAST,
    FP32,
    MIXED,
    Bill,
    Numbers,
    Workload,
    activation_bytes,
    fits,
    kv_bytes,
    logits_bytes,
    memory_bill,
    show,
    state_bytes,
    states,
)
from ropewalk.plan.shape import Experts, LatentAttention, ModelShape
from ropewalk.records.errors import InputError

SEVEN_BILLION = dict.fromkeys(("actor", "critic", "reference", "reward"), 7_000_000_000)
LLAMA_7B = ModelShape(32000, 4096, 32, 32, 32, 128, 11008, tied=False, max_positions=4096)
SMALL = ModelShape(1000, 64, 4, 4, 2, 16, 128, tied=False, max_positions=128)
WORKLOAD = Workload(slots=16, sequence_tokens=100)
PPO_GRAPH = ppo.graph(PPO(), learned_reward=True)
SHAPES = {
    "actor": SMALL,
    "reference": SMALL,
    "critic": SMALL.with_scalar_head(),
    "reward": SMALL.with_scalar_head(),
}


@pytest.mark.parametrize(
    ("graph", "gigabytes"),
    [
        (PPO_GRAPH, 252),
        (grpo.graph(GRPO(), learned_reward=True), 140),
        (grpo.graph(GRPO(kl=KLLoss()), learned_reward=False), 126),
        (ppo.graph(PPO(critic=SharedCritic()), learned_reward=True), 140),
        (sft.graph(SFT()), 112),
        (reward_model.graph(RewardModel()), 112),
    ],
)
def test_states_of_seven_billion_parameters(graph: CallGraph, gigabytes: int) -> None:
    """math-notes: PPO holds 112 + 112 + 14 + 14 GB, 2.25 times SFT; a critic on the actor's backbone about 140."""
    assert sum(states(graph, SEVEN_BILLION, MIXED).values()) == gigabytes * 10**9


@pytest.mark.parametrize("numbers", [MIXED, FP32, AUTOCAST])
def test_a_trained_parameter_costs_16_bytes(numbers: Numbers) -> None:
    assert state_bytes(1, trained=True, numbers=numbers) == 16
    assert state_bytes(1, trained=False, numbers=numbers) == numbers.weights


def plan_of(graph: CallGraph, **how: object) -> ExecutionPlan:
    return default_plan(graph, CallPlan(Layout((0,)), **how))  # type: ignore[arg-type]


def bill_of(plan: ExecutionPlan, numbers: Numbers = MIXED) -> Bill:
    return memory_bill(PPO_GRAPH, SHAPES, plan, workload=WORKLOAD, numbers=numbers)


def test_the_bill_holds_the_states_of_every_role() -> None:
    bill = bill_of(plan_of(PPO_GRAPH))
    assert bill.role_bytes() == states(PPO_GRAPH, {r: s.parameters for r, s in SHAPES.items()}, MIXED)
    assert bill.held_bytes(0) == sum(bill.role_bytes().values())
    assert bill.peak_bytes == bill.held_bytes(0) + max(bill.call_bytes(0).values())
    assert set(bill.call_bytes(0)) == {call.name for call in PPO_GRAPH.calls}


def test_kv_and_logits_are_counted_exactly() -> None:
    assert kv_bytes(LLAMA_7B, 1, MIXED) == 524_288
    assert kv_bytes(SMALL, 16 * 100, MIXED) == 2 * 4 * 2 * 16 * 1600 * 2
    assert logits_bytes(SMALL, 8, MIXED) == 8 * 1000 * 10
    assert logits_bytes(SMALL, 10**9, FP32) == 2**25 * 12
    assert logits_bytes(SMALL.with_scalar_head(), 8, MIXED) == 0
    generate = {i.what: i.bytes for i in bill_of(plan_of(PPO_GRAPH)).items if i.call == "generate"}
    assert generate == {"KV cache": kv_bytes(SMALL, 1600, MIXED), "logits": 16 * 1000 * 4}


def test_activations_grow_with_tokens_and_shrink_by_recomputation() -> None:
    full, light = (activation_bytes(LLAMA_7B, 1000, MIXED, recompute=r) for r in (False, True))
    assert activation_bytes(LLAMA_7B, 2000, MIXED, recompute=False) == 2 * full
    assert light < full / 10
    small, large = (bill_of(plan_of(PPO_GRAPH, micro_batch_tokens=n)).peak_bytes for n in (100, 100_000))
    assert small < large
    assert bill_of(plan_of(PPO_GRAPH, micro_batch_tokens=100_000, recompute=True)).peak_bytes < large


@pytest.mark.parametrize("shard", ["none", "optimizer", "full"])
def test_a_trained_roles_states_are_split_as_its_layout_says(shard: str) -> None:
    layout = Layout((0, 1, 2, 3), dp=2, tp=2, shard=shard)  # type: ignore[arg-type]
    bill = memory_bill(
        sft.graph(SFT()),
        {"actor": SMALL},
        default_plan(sft.graph(SFT()), CallPlan(layout)),
        workload=WORKLOAD,
    )
    parameters = SMALL.parameters
    each = {"none": 16 / 2, "optimizer": 4 / 2 + 12 / 4, "full": 16 / 4}[shard]
    assert bill.ranks == (0, 1, 2, 3)
    for rank in bill.ranks:
        assert bill.held_bytes(rank) == pytest.approx(each * parameters, abs=4)


def test_generating_on_another_layout_needs_a_copy_while_it_runs() -> None:
    plan = plan_of(PPO_GRAPH)
    moved = replace(plan, calls={**plan.calls, "generate": CallPlan(Layout((1, 2), tp=2))})
    bill = bill_of(moved)
    assert bill.held_bytes(1) == 0
    copy = [i for i in bill.items if i.what == "weights copy"]
    assert {i.rank for i in copy} == {1, 2} and {i.bytes for i in copy} == {SMALL.parameters}


def test_an_offloaded_reference_is_held_only_while_it_runs() -> None:
    plan = plan_of(PPO_GRAPH)
    away = replace(plan, calls={**plan.calls, "reference": CallPlan(Layout((0,)), offload=True)})
    saved = bill_of(plan).held_bytes(0) - bill_of(away).held_bytes(0)
    assert saved == 2 * SMALL.parameters
    assert bill_of(away).call_bytes(0)["reference"] == bill_of(plan).call_bytes(0)["reference"] + saved


def test_the_verdict_names_the_need_and_the_mend() -> None:
    bill = bill_of(plan_of(PPO_GRAPH))
    assert fits(bill, bill.peak_bytes / 0.92 + 1).ok
    short = fits(bill, bill.peak_bytes)
    assert not short.ok and show(bill.peak_bytes) in short.sentence and "micro-batch" in short.sentence
    seven = memory_bill(
        PPO_GRAPH,
        dict.fromkeys(SHAPES, LLAMA_7B),
        plan_of(PPO_GRAPH, micro_batch_tokens=256),
        workload=Workload(slots=1, sequence_tokens=256),
    )
    assert "smaller model" in fits(seven, 80e9).sentence
    assert any("actor optimizer" in line for line in seven.lines()) and "GB" in seven.lines()[0]


def test_a_role_without_a_shape_is_named() -> None:
    with pytest.raises(InputError, match="critic"):
        memory_bill(
            PPO_GRAPH, {"actor": SMALL, "reference": SMALL, "reward": SMALL}, plan_of(PPO_GRAPH), workload=WORKLOAD
        )


@pytest.mark.parametrize(
    ("size", "text"), [(12, "12 bytes"), (1500, "1.5 kB"), (252e9, "252 GB"), (2.5e6, "2.5 MB"), (5e12, "5000 GB")]
)
def test_sizes_read_well(size: float, text: str) -> None:
    assert show(size) == text


def test_a_mixture_of_experts_lies_in_memory_whole() -> None:
    """States are those of all parameters, activations those of the active ones; a latent cache is not split by tp."""
    sparse = replace(SMALL, experts=Experts(count=16, per_token=2, ffn=64))
    plan = default_plan(sft.graph(SFT()), CallPlan(Layout((0,))))
    bill = memory_bill(sft.graph(SFT()), {"actor": sparse}, plan, workload=WORKLOAD)
    assert bill.held_bytes(0) == 16 * sparse.parameters
    assert activation_bytes(sparse, 100, MIXED, recompute=False) == activation_bytes(SMALL, 100, MIXED, recompute=False)
    latent = replace(SMALL, latent=LatentAttention(kv_rank=12, query_rank=None, rope_dim=4, nope_dim=12, value_dim=16))
    assert kv_bytes(latent, 10, MIXED) == latent.layers * 10 * 16 * 2
    graph = CallGraph((Call("generate", "actor", "generate", ("prompts",), ("tokens",)),), given=("prompts",))

    def cache(shape: ModelShape, tp: int) -> int:
        at = default_plan(graph, CallPlan(Layout(tuple(range(tp)), tp=tp)))
        items = memory_bill(graph, {"actor": shape}, at, workload=WORKLOAD).items
        return next(item.bytes for item in items if item.what == "KV cache")

    assert cache(latent, 2) == cache(latent, 1) and cache(SMALL, 2) * 2 == cache(SMALL, 1)
