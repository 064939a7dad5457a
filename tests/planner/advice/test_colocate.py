"""What is placed fits, and what is called the fewest GPUs fits where one mesh size less does not."""

import pytest

from ropewalk.plan.cluster import Cluster
from ropewalk.planner.advice.colocate import Rung, colocate, fewest_gpus, fits, ladder, mesh_sizes, resized
from ropewalk.planner.case.hardware import cluster
from ropewalk.planner.estimate.calibration import REFERENCE
from ropewalk.planner.estimate.place import Place, place
from ropewalk.planner.estimate.work import CallWork
from tests.planner.price.pricing import calls_of

CASES = [("ppo", "7b", "8xa100"), ("grpo", "70b", "64xh100"), ("reward-model", "34b", "16xa100"), ("sft", "8b", "8xl4")]


def whole(machines: Cluster) -> Place:
    return place(machines, 0, machines.gpus)


@pytest.mark.parametrize(("method", "size", "name"), CASES)
def test_a_placement_fits_every_gpu(method: str, size: str, name: str) -> None:
    calls, where = calls_of(method, size), whole(cluster(name))
    found = colocate(calls, where, REFERENCE)
    assert found is not None
    assert list(found.choices) == [call.name for call in calls]
    assert found.bytes <= REFERENCE.usable_share * where.gpu.memory_bytes
    assert all(choice.strategy.gpus == where.gpus for choice in found.choices.values())
    assert found.seconds == pytest.approx(sum(choice.seconds for choice in found.choices.values()))


@pytest.mark.parametrize(("method", "size", "name"), CASES)
def test_fewest_is_fewest(method: str, size: str, name: str) -> None:
    calls, machines = calls_of(method, size), cluster(name)
    fewest = fewest_gpus(calls, machines, REFERENCE)
    assert fewest is not None
    sizes = [size for size in mesh_sizes(machines.groups[0].gpus_per_node) if size <= fewest]
    assert sizes[-1] == fewest
    assert colocate(calls, place(resized(machines, fewest), 0, fewest), REFERENCE) is not None
    for less in sizes[:-1]:
        where = place(resized(machines, less), 0, less)
        assert not fits(calls, where, REFERENCE) and colocate(calls, where, REFERENCE) is None


def test_states_are_a_floor_of_the_fewest_gpus() -> None:
    for method, size, name in CASES:
        calls, machines = calls_of(method, size), cluster(name)
        trained = sum(16 * call.shape.parameters for call in calls if call.kind == "train")
        usable = REFERENCE.usable_share * whole(machines).gpu.memory_bytes
        assert (fewest_gpus(calls, machines, REFERENCE) or 0) >= trained / usable


@pytest.mark.parametrize("size", ["7b", "70b"])
def test_each_rung_holds_what_its_rule_says(size: str) -> None:
    (call,) = (call for call in calls_of("sft", size) if call.kind == "train")
    where = whole(cluster("64xh100"))
    rungs = {rung.name: rung for rung in ladder(call, where, REFERENCE)}
    count = call.shape.parameters

    def states(each: float) -> float:
        return pytest.approx(each * count, rel=0.12, abs=12e9)  # type: ignore[no-any-return]

    assert rungs["data parallel, nothing sharded"].bytes == states(16)
    assert rungs["ZeRO-1"].bytes == states(4 + 12 / 64)
    assert rungs["tp 8, ZeRO-1"].bytes == states(4 / 8 + 12 / 64)
    order = [rungs[name].bytes for name in ("data parallel, nothing sharded", "ZeRO-1", "ZeRO-3")]
    assert order == sorted(order, reverse=True)
    assert all(rung.fits == (rung.seconds is not None) for rung in rungs.values())


def test_zero1_is_enough_for_7b_and_not_for_70b() -> None:
    def simplest(size: str) -> Rung:
        call: CallWork = calls_of("sft", size)[-1]
        return next(rung for rung in ladder(call, whole(cluster("64xh100")), REFERENCE) if rung.fits)

    assert simplest("7b").name == "ZeRO-1"
    assert simplest("70b").name == "ZeRO-3"


def test_what_fits_nowhere_is_none() -> None:
    assert colocate(calls_of("ppo", "70b"), whole(cluster("8xa100")), REFERENCE) is None
