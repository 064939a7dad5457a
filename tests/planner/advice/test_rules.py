"""Rules of thumb are judged by the planner's figures: no rule beats the best way, and the best way is the plan's."""

from dataclasses import replace

import pytest

from ropewalk.plan.graph import CallGraph
from ropewalk.plan.sizes import shape_of
from ropewalk.planner.advice.advise import Question, case_of, rules_of_thumb
from ropewalk.planner.advice.rules import HOLDS_WITHIN, SIZES, WAYS, Check, Row, by_rules, rule
from ropewalk.planner.case.describe import Case
from ropewalk.planner.case.graphs import GENERATE, method_graph
from ropewalk.planner.case.hardware import cluster
from ropewalk.planner.estimate.calibration import CALIBRATIONS
from ropewalk.planner.planning import Asked, plan_case

CONSTANTS = CALIBRATIONS["default"]


def case(machines: str, size: str) -> Case:
    return case_of(Question(cluster(machines), shape_of(size), verifiable=True), "grpo+rule-reward", CONSTANTS)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    machines = [cluster("8xh100"), cluster("16xh100")]
    return list(rules_of_thumb(machines, [(size, shape_of(size)) for size in SIZES], CONSTANTS))


def test_every_size_stands_on_every_cluster_with_every_rule(rows: list[Row]) -> None:
    assert [(row.size, row.gpus) for row in rows] == [(size, gpus) for size in SIZES for gpus in (8, 16)]
    assert all(tuple(check.way for check in row.checks) == WAYS for row in rows)


def test_no_rule_beats_the_best_way(rows: list[Row]) -> None:
    for row in rows:
        for check in row.checks:
            if check.slower is not None:
                assert check.slower >= 0
            assert check.holds == (check.slower is not None and check.slower <= HOLDS_WITHIN)
            assert check.rule_seconds is None or check.best_seconds is not None


@pytest.mark.parametrize(("machines", "size"), [("8xh100", "7b"), ("16xh100", "14b")])
def test_the_best_way_of_a_call_is_the_plan_of_that_call(machines: str, size: str, rows: list[Row]) -> None:
    one = case(machines, size)
    (row,) = (row for row in rows if (row.size, row.gpus) == (size, one.cluster.gpus))
    space = replace(one.space, shard=("none", "optimizer", "full"))
    graphs = {"training by ZeRO": method_graph("sft"), "rollout by tp": CallGraph((GENERATE,), given=("prompts",))}
    for check in row.checks:
        if check.way in graphs:
            alone = replace(one, graph=graphs[check.way], shapes={"actor": one.shapes["actor"]}, space=space)
            plan = plan_case(alone, Asked(budget_seconds=0.2, baselines=False))
            assert plan.optimal
            assert check.best_seconds == pytest.approx(plan.judged.period_seconds)


@pytest.mark.parametrize("way", [way for way in WAYS if way.startswith("training")])
def test_an_iteration_by_rules_is_no_faster_than_the_bound(way: str) -> None:
    one = case("8xh100", "7b")
    ruled = by_rules(one, way)  # type: ignore[arg-type]
    wide = replace(one, space=replace(one.space, shard=("none", "optimizer", "full")))
    assert ruled is not None
    assert ruled >= plan_case(wide, Asked(budget_seconds=0.5, baselines=False)).bound_seconds * (1 - 1e-9)
    assert by_rules(case("8xh100", "70b"), way) is None  # type: ignore[arg-type]


def test_rules_grow_with_the_model() -> None:
    found = {way: [rule(way, shape_of(size), 80e9, 8) for size in SIZES] for way in WAYS}
    for way in WAYS:
        assert [said.tp * said.pp for said in found[way]] == sorted(said.tp * said.pp for said in found[way])
    order = {"none": 0, "optimizer": 1, "full": 2}
    stages = [order[said.shard or "none"] for said in found["training by ZeRO"]]
    assert stages == sorted(stages) and {0, 2} <= set(stages)
    assert all(rule(way, shape_of("70b"), 80e9, 2).tp <= 2 for way in WAYS)


def test_a_rule_that_does_not_fit_is_neither_slower_nor_holds() -> None:
    check = Check("training by ZeRO", rule("training by ZeRO", shape_of("7b"), 80e9, 8), None, None, 1.0)
    assert check.slower is None and not check.holds
