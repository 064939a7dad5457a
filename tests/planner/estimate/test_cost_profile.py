"""Estimates with a profile: measured sizes come out as measured, provenance says what a figure rests on."""

from dataclasses import replace

import pytest

from ropewalk.plan.profile import Entry, Measured, ProfileTable, entry
from ropewalk.planner.estimate.calibration import REFERENCE
from ropewalk.planner.estimate.cost import estimate
from ropewalk.planner.estimate.work import Strategy
from tests.planner.estimate.estimating import A100, WORKLOAD, estimated, mixture, where, work

SHAPE = work("train").shape


def measured(kind: Measured, *rows: tuple[int, int, float], tp: int = 1) -> Entry:
    return entry(SHAPE, A100.name, "bf16", kind, tp=tp, rows=rows)


def test_a_measured_forward_is_itself() -> None:
    table = ProfileTable((measured("forward", (32 * 1024, 1024, 2.5)),))
    found = estimate(work("forward"), Strategy(16), where(16), REFERENCE, table)
    assert (found.seconds, found.source) == (2.5, "measured")


def test_a_pipeline_divides_what_was_measured() -> None:
    table = ProfileTable((measured("train", (16 * 1024, 1024, 4.0)),))
    found = estimate(work("train"), Strategy(2, 1, 8, micro_batches=4), where(16), REFERENCE, table)
    passes = found.parts["layers"] + found.parts["recomputation"]
    assert passes == pytest.approx(4 * 4 * 4.0 / 8)
    assert found.parts["bubble"] == pytest.approx((passes + found.parts["communication"]) * 7 / 4)
    assert found.source == "measured"
    assert found.parts["optimizer"] == estimated(work("train"), Strategy(2, 1, 8)).parts["optimizer"]


def test_measured_steps_hold_sampler_and_host() -> None:
    table = ProfileTable((measured("generate", (32, 128, 0.010), (32, 1024, 0.020)),))
    found = estimate(work("generate"), Strategy(16), where(16), REFERENCE, table)
    assert found.parts["decode"] == pytest.approx(896 * 0.015, rel=1e-9)
    assert found.parts["sampler"] == found.parts["host"] == 0
    assert found.source == "estimated + interpolated"


def test_prefill_is_read_from_forward_passes() -> None:
    table = ProfileTable((measured("generate", (32, 576, 0.015)), measured("forward", (32 * 128, 128, 0.3))))
    found = estimate(work("generate"), Strategy(16), where(16), REFERENCE, table)
    assert found.parts["prefill"] == 0.3
    assert found.source == "measured"


def test_far_beyond_what_was_measured_is_said() -> None:
    table = ProfileTable((measured("forward", (1024, 1024, 0.1), (2048, 1024, 0.2)),))
    far = estimate(work("forward"), Strategy(16), where(16), REFERENCE, table)
    near = estimate(work("forward"), Strategy(16, micro_batches=4), where(16), REFERENCE, table)
    assert (far.source, near.source) == ("extrapolated", "interpolated")


def test_what_was_not_measured_is_estimated() -> None:
    """Another tp, model, dtype, device; adapters, spread experts, passes without recomputation."""
    table = ProfileTable((measured("train", (8192, 1024, 4.0)), measured("forward", (8192, 1024, 1.0))))
    slow = replace(where(16), gpu=replace(A100, name="another"))
    half = replace(WORKLOAD, dtype="fp32")
    lora = replace(WORKLOAD, lora_rank={"actor": 8})
    cases = [
        (work("train"), Strategy(8, 2), where(16)),
        (work("train", "8b"), Strategy(16), where(16)),
        (work("train"), Strategy(16), slow),
        (work("train", workload=half), Strategy(16), where(16)),
        (work("train", workload=lora), Strategy(16), where(16)),
        (work("train"), Strategy(16, recompute=False), where(16)),
        (work("train", mixture(8, 2)), Strategy(16, ep=8), where(16)),
    ]
    for call, strategy, at in cases:
        found = estimate(call, strategy, at, REFERENCE, table)
        assert found.source == "estimated"
        assert found == estimate(call, strategy, at, REFERENCE)
