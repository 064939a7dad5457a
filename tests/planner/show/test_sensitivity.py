"""Changes are pure functions of a case; costs are periods times what GPUs cost."""

from dataclasses import replace

import pytest

from ropewalk.planner.case.describe import describe
from ropewalk.planner.case.hardware import cluster
from ropewalk.planner.placed import judge
from ropewalk.planner.show.sensitivity import (
    changes,
    cost,
    larger_batch,
    longer_answers,
    more_generation,
    sensitivity,
    slower_memory,
    slower_network,
    twice_the_gpus,
)
from tests.planner.show.planned import small_case, small_plan


def test_each_change_changes_one_thing() -> None:
    case = small_case()
    assert slower_network(case).cluster.between_bytes_per_second == case.cluster.between_bytes_per_second / 2
    assert replace(slower_network(case), cluster=case.cluster) == case
    halved = slower_memory(case).cluster.groups[0].gpu.memory_bytes_per_second
    assert halved == case.cluster.groups[0].gpu.memory_bytes_per_second / 2
    assert longer_answers(case).workload.generated_tokens.tokens == (128,)
    assert larger_batch(case).workload.sequences == 2 * case.workload.sequences
    assert twice_the_gpus(case).cluster.gpus == 2 * case.cluster.gpus
    assert replace(twice_the_gpus(case), cluster=case.cluster, space=case.space) == case


def test_generation_gets_as_many_gpus_more_and_the_other_calls_stay() -> None:
    planned = small_plan()
    places = {name: call.placement for name, call in planned.judged.calls.items()}
    found = more_generation(planned.case, places)
    assert found is not None
    bigger, ways = found
    assert bigger.cluster.gpus == 8 + -(-places["generate"].gpus // 4) * 4
    for way in ways[:-1]:
        assert way["generate"].gpus == 2 * places["generate"].gpus == way["generate"].strategy.gpus
        judge(bigger, way)
        assert {n: s for n, s in way.items() if n != "generate"} == {n: s for n, s in places.items() if n != "generate"}


def test_ranks_behind_the_new_gpus_move_up() -> None:
    case = describe({"models": {"actor": "0.5b"}, "cluster": "8xa100+8xh100", "workload": "64:64+64", "method": "ppo"})
    places = {name: replace(spot.placement) for name, spot in small_plan().judged.calls.items()}
    places = {name: replace(spot, first_rank=8, gpus=4, strategy=replace(spot.strategy, dp=4, tp=1, pp=1))
              for name, spot in places.items()}  # fmt: skip
    places["generate"] = replace(places["generate"], first_rank=0)
    found = more_generation(case, places)
    assert found is not None
    bigger, ways = found
    assert [group.gpus for group in bigger.cluster.groups] == [16, 8]
    assert all(way["actor_train"].first_rank == 16 for way in ways)


def test_costs_are_hours_times_prices() -> None:
    two = cluster("8xa100+8xh100")
    found = cost(3.6, two)
    assert found.gpu_hours == pytest.approx(16.0)
    prices = [group.gpu.dollars_per_hour or 0.0 for group in two.groups]
    assert found.dollars == pytest.approx(8 * sum(prices)) and found.dollars_how == "assumed"
    own = replace(two.groups[0].gpu, dollars_per_hour=2.0, dollars_source="given")
    given = replace(two, groups=(replace(two.groups[0], gpu=own),))
    assert (cost(3.6, given).dollars, cost(3.6, given).dollars_how) == (pytest.approx(16.0), "given")
    free = replace(two.groups[0], gpu=replace(own, dollars_per_hour=None))
    assert cost(1.0, replace(two, groups=(free,))).dollars is None


def test_slower_machines_take_longer_and_the_new_plan_is_no_worse_than_the_same() -> None:
    planned = small_plan()
    found = {change.name: change for change in sensitivity(planned, budget_seconds=0.1)}
    assert list(found) == [name for name, *_ in changes(planned)]
    for change in found.values():
        assert change.new is not None
        assert change.same is None or change.new.period_seconds <= change.same.period_seconds
    for name in ("network_half", "memory_half"):
        same = found[name].same
        assert same is not None and same.period_seconds >= planned.judged.period_seconds * (1 - 1e-12)
    faster = found["gpus_double"]
    assert faster.new is not None and faster.new.period_seconds <= planned.judged.period_seconds
    assert faster.gpus == 16


def test_a_method_that_generates_nothing_has_no_such_change() -> None:
    names = [name for name, *_ in changes(small_plan(cluster="1xa100", method="sft"))]
    assert names == ["gpus_double", "memory_half", "batch_double"]
