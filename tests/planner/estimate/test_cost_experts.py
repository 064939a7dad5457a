"""Mixtures of experts: one expert of one is dense; touched experts, active FLOPs, all-to-all."""

from dataclasses import replace

import pytest

from ropewalk.plan.cluster import Gpu
from ropewalk.plan.workload import Lengths
from ropewalk.planner.estimate.calibration import REFERENCE
from ropewalk.planner.estimate.footprint import footprint
from ropewalk.planner.estimate.layer import Layer, layer
from ropewalk.planner.estimate.split import split
from ropewalk.planner.estimate.work import Strategy
from tests.planner.estimate.estimating import A100, WORKLOAD, estimated, mixture, seconds, tiny, where, work

FREE = replace(REFERENCE, kernel_seconds=0.0, rows_half=0.0, width_half=0.0, elementwise_passes=0.0)


def one_layer(strategy: Strategy, count: int = 8, per_token: int = 2) -> Layer:
    return layer(work("forward", mixture(count, per_token)), strategy, where(16), REFERENCE)


@pytest.mark.parametrize("kind", ["generate", "forward", "train"])
@pytest.mark.parametrize("strategy", [Strategy(16), Strategy(4, 4), Strategy(2, 2, 4, micro_batches=4)], ids=str)
def test_one_expert_of_one_is_a_dense_model(kind: str, strategy: Strategy) -> None:
    """But for the router's column of weights in the optimizer and the bytes."""
    call, dense = work(kind, mixture(1, 1)), work(kind, tiny())  # type: ignore[arg-type]
    assert seconds(call, strategy) == pytest.approx(seconds(dense, strategy), rel=1e-3)
    assert footprint(call, strategy, REFERENCE).static_bytes == pytest.approx(
        footprint(dense, strategy, REFERENCE).static_bytes, rel=1e-3
    )


def test_touched_experts_are_those_that_a_random_choice_reaches() -> None:
    found = one_layer(Strategy(), 64, 4).mixture
    assert found is not None
    assert found.touched(1) == pytest.approx(4)
    assert found.touched(16) == pytest.approx(64 * (1 - (1 - 4 / 64) ** 16))
    assert found.touched(1e6) == pytest.approx(64)


def test_a_large_batch_costs_the_active_experts_only() -> None:
    """Without small-batch losses, as long as a dense part as wide as the experts of one token."""
    compute = Gpu("compute", {"bf16": 1e12}, 80e9, 1e15)
    at = where(1, compute)
    sparse = seconds(work("forward", mixture(8, 2)), Strategy(), at, FREE)
    dense = seconds(work("forward", tiny(ffn=2048)), Strategy(), at, FREE)
    assert sparse == pytest.approx(dense, rel=0.01)


def test_decoding_reads_the_experts_that_are_touched() -> None:
    one = replace(WORKLOAD, prompts=4, prompt_tokens=Lengths.fixed(1))
    few, many = (work("generate", mixture(64, 2), workload=replace(one, prompts=b)) for b in (4, 256))
    narrow = work("generate", tiny(ffn=2048), workload=one)
    assert seconds(few, Strategy(), where(1)) > seconds(narrow, Strategy(), where(1))
    assert seconds(few, Strategy(), where(1)) < seconds(many, Strategy(), where(1))


def test_spreading_experts_divides_their_bytes_and_adds_messages() -> None:
    """lcm(tp, ep) ranks share the experts, whichever of the two divides them."""
    shape = mixture(8, 2)
    for tp, ep, ranks in ((1, 1, 1), (1, 8, 8), (4, 1, 4), (4, 2, 4), (4, 4, 4), (2, 8, 8)):
        held = split(shape, Strategy(16 // tp, tp, 1, ep))
        routed = shape.layers * 3 * shape.width * 1024 * 8
        assert held.experts == pytest.approx(routed / ranks)
        assert held.dense == pytest.approx((shape.parameters - routed) / tp)
        assert held.expert_copies * ranks == 16
    spread = estimated(work("forward", shape), Strategy(8, 1, 1, 8), where(8)).parts
    whole = estimated(work("forward", shape), Strategy(8), where(8)).parts
    assert whole["communication"] == 0 < spread["communication"]


def test_spread_experts_see_the_tokens_of_all_groups() -> None:
    """The products of a rank are as many: 1/ep of the experts, each with ep times the tokens."""
    for tp, ep in ((1, 4), (2, 4), (4, 4), (4, 2)):
        found = one_layer(Strategy(16 // tp, tp, 1, ep)).mixture
        assert found is not None
        rows = 4096 * found.groups * 2 / (found.touched(4096) * ep)
        work_of_rank = found.touched(4096) * rows * sum(k * n for k, n in found.weights)
        assert work_of_rank * tp == pytest.approx(4096 * 2 * 3 * 512 * 1024)


def test_shared_experts_and_dense_layers_count() -> None:
    plain = seconds(work("forward", mixture(8, 2)), Strategy(16))
    assert seconds(work("forward", mixture(8, 2, shared=1)), Strategy(16)) > plain
    first = work("forward", tiny(ffn=8192, experts=mixture(8, 2, dense_layers=4).experts))
    assert seconds(first, Strategy(16)) > plain


def test_memory_counts_all_experts_and_time_the_active() -> None:
    call, at = work("forward", "30b-a3b", trained=False), where(8)
    assert footprint(call, Strategy(1, 8), REFERENCE).static_bytes == pytest.approx(
        2 * call.shape.parameters / 8, rel=1e-6
    )
    dense = work("forward", "32b", trained=False)
    assert seconds(call, Strategy(1, 4, 2, micro_batches=8), at) < seconds(
        dense, Strategy(1, 4, 2, micro_batches=8), at
    )
    assert A100.memory_bytes == 80e9
