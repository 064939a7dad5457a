"""The bill adds up to what the plan needs, and what is said to make things fit does."""

from dataclasses import replace

import pytest

from ropewalk.plan.workload import Lengths
from ropewalk.planner.case.describe import describe
from ropewalk.planner.estimate.calibration import calibration
from ropewalk.planner.estimate.footprint import footprint
from ropewalk.planner.estimate.work import Strategy, works
from ropewalk.planner.placed import Placement, judge
from ropewalk.planner.planning import Asked, plan_case
from ropewalk.planner.show.memory import call_items, devices, needs
from ropewalk.planner.show.mend import fitting_period, grown, mends_of_case, mends_of_plan, scaled
from ropewalk.records.errors import InputError
from tests.planner.show.planned import small_case, small_plan


def test_the_items_of_a_device_add_up_to_what_the_plan_needs_there() -> None:
    judged = small_plan().judged
    for device, (first, gpus, need, usable) in zip(devices(judged), judged.cell_bytes, strict=True):
        assert (device.first_rank, device.gpus, device.usable_bytes) == (first, gpus, usable)
        assert device.need_bytes == pytest.approx(need, rel=1e-12)
        assert sum(device.by_role().values()) == pytest.approx(need, rel=1e-12)
        assert {item.call for item in device.items if not item.always} <= {device.fullest}


def test_the_items_of_a_call_are_its_footprint() -> None:
    for placed in small_plan().judged.calls.values():
        items = call_items(placed)
        assert sum(item.bytes for item in items if item.always) == pytest.approx(placed.footprint.static_bytes)
        assert sum(item.bytes for item in items if not item.always) == pytest.approx(placed.footprint.active_bytes)


def test_no_way_to_run_a_call_needs_less_than_its_least_need() -> None:
    case = small_case()
    least = {need.call: need.bytes for need in needs(case)}
    constants = calibration(case.calibration)
    assert set(least) == {call.name for call in case.graph.calls}
    for name, placed in small_plan().judged.calls.items():
        (work,) = [job for job in works(case.graph, case.shapes, case.workload) if job.name == name]
        bytes_ = footprint(work, placed.placement.strategy, constants)
        assert least[name] <= bytes_.static_bytes + bytes_.active_bytes


def test_what_is_said_to_make_a_plan_exist_does() -> None:
    case = describe({"method": "sft", "models": {"actor": "7b"}, "cluster": "1xa100", "workload": "8:256+256"})
    with pytest.raises(InputError, match="needs at least"):
        plan_case(case, Asked(budget_seconds=0.05))
    assert not all(need.fits for need in needs(case))
    found = {mend.what: mend.period_seconds for mend in mends_of_case(case, budget_seconds=0.05)}
    (lora,) = [period for what, period in found.items() if "LoRA" in what]
    assert lora is not None and found["half the prompts of an iteration"] is None
    adapted = replace(case, workload=replace(case.workload, lora_rank={"actor": 16}))
    assert fitting_period(adapted, budget_seconds=0.05) == pytest.approx(lora)
    more = [what for what, period in found.items() if "GPUs in place of" in what and period is not None]
    assert more and fitting_period(grown(case, int(more[0].split()[0])), budget_seconds=0.05) is not None


def test_what_is_said_to_make_this_plan_fit_does() -> None:
    case = describe({"method": "sft", "models": {"actor": "7b"}, "cluster": "8xa100", "workload": "64:256+256"})
    spot = Placement(0, 8, Strategy(dp=8, shard="none"))
    assert not judge(case, {"actor_train": spot}).fits
    mends = {mend.what: mend for mend in mends_of_plan(case, {"actor_train": spot})}
    helped = mends["actor_train: shard all states (ZeRO-3)"]
    full = judge(case, {"actor_train": replace(spot, strategy=replace(spot.strategy, shard="full"))})
    assert full.fits and helped.period_seconds == pytest.approx(full.period_seconds)
    wide = mends["actor_train: tp 2, dp 4 in place of tp 1, dp 8"]
    cut = judge(case, {"actor_train": replace(spot, strategy=replace(spot.strategy, tp=2, dp=4))})
    assert (wide.period_seconds is not None) == cut.fits
    still = [mend for mend in mends.values() if mend.period_seconds is None]
    assert all(mend.over_bytes > 0 for mend in still)
    listed = list(mends.values())
    assert [m.period_seconds is None for m in listed] == sorted(m.period_seconds is None for m in listed)


def test_lengths_are_scaled_and_never_vanish() -> None:
    assert scaled(Lengths((0, 1, 100), (1.0, 2.0, 3.0)), 0.5) == Lengths((0, 1, 50), (1.0, 2.0, 3.0))
