"""Plans written and read: the same places, the same period; and every problem of a plan for another case."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies

from ropewalk.plan.execution import CallPlan, ExecutionPlan
from ropewalk.plan.layout import Layout
from ropewalk.planner.case.describe import describe, read_case
from ropewalk.planner.case.hardware import cluster
from ropewalk.planner.planning import Asked, plan_case
from ropewalk.planner.written import (
    _count_of,
    _tokens_of,
    as_mapping,
    differences,
    fingerprint,
    judge_plan,
    misjudged,
    mode_of,
    placements_in,
    problems,
    read_plan,
    written,
)
from ropewalk.records.errors import InputError
from tests.planner.described import CASES, case_file
from tests.planner.show.planned import small_case, small_plan


@pytest.mark.parametrize("gpus", CASES)
def test_reference_plans_survive_the_file(gpus: int) -> None:
    case = read_case(case_file(gpus))
    planned = plan_case(case, Asked(budget_seconds=0.2, gap=0.2, baselines=False))
    back = ExecutionPlan.from_json(written(planned).to_json())
    assert problems(case, back) == []
    assert placements_in(case, back) == {name: call.placement for name, call in planned.judged.calls.items()}
    judged = judge_plan(case, back)
    assert judged.period_seconds == pytest.approx(planned.judged.period_seconds, rel=1e-9)
    assert judged.cell_bytes == planned.judged.cell_bytes


@pytest.mark.parametrize("mode", ["one-step-off", "streaming"])
def test_late_calls_and_modes_survive_the_file(mode: str) -> None:
    planned = small_plan(mode)
    back = ExecutionPlan.from_json(written(planned).to_json())
    assert mode_of(back) == mode
    assert set(back.late) == set(planned.judged.late) & set(back.order)
    judged = judge_plan(planned.case, back, mode=mode_of(back))
    assert judged.period_seconds == pytest.approx(planned.judged.period_seconds, rel=1e-9)


@given(
    rows=strategies.integers(1, 5000),
    length=strategies.floats(1, 5000),
    power=strategies.integers(0, 12),
)
def test_a_power_of_two_of_micro_batches_survives_its_token_budget(rows: int, length: float, power: int) -> None:
    count = min(2**power, 1 << (rows.bit_length() - 1))
    total = rows * length
    assert _count_of(total, _tokens_of(total, count)) == count


def test_a_fingerprint_is_of_figures_and_not_of_names_or_prices() -> None:
    one = cluster("16xa100")
    gpu = replace(one.groups[0].gpu, dollars_per_hour=9.0, name="mine")
    same = replace(one, name="other", groups=(replace(one.groups[0], gpu=gpu),))
    slower = replace(one, between_bytes_per_second=one.between_bytes_per_second / 2)
    assert fingerprint(one) == fingerprint(same)
    assert len({fingerprint(c) for c in (one, slower, cluster("8xa100"), cluster("16xh100"))}) == 4


def changed(call: str, **layout: object) -> ExecutionPlan:
    plan = written(small_plan())
    at = plan.calls[call]
    now = {"ranks": at.layout.ranks, "dp": at.layout.dp, "tp": at.layout.tp, "pp": at.layout.pp} | layout
    ranks = now.pop("ranks")
    return replace(plan, calls={**plan.calls, call: replace(at, layout=Layout(ranks, **now))})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (changed("generate", ranks=(0, 2), dp=2, tp=1, pp=1), "'generate' has ranks that are not consecutive"),
        (changed("generate", ranks=(1, 0), dp=2, tp=1, pp=1), "'generate' has ranks that are not consecutive"),
        (changed("generate", ranks=(7, 8), dp=2, tp=1, pp=1), "has 0 to 7"),
        (changed("values", ranks=(0, 1, 2, 3, 4), dp=1, tp=5, pp=1), "'values' has tp 5, which does not divide 12"),
        (changed("values", ranks=(0, 1), dp=1, tp=1, pp=2, ep=2), "'values' has ep 2, and its model has no experts"),
        (replace(written(small_plan()), order=("generate",)), "the plan orders no call 'reference'"),
        (replace(written(small_plan()), late=("generate",)), "lets a call run before what it waits for"),
    ],
)
def test_each_problem_of_a_plan_is_a_sentence(plan: ExecutionPlan, said: str) -> None:
    (problem,) = [p for p in problems(small_case(), plan) if said in p] or [""]
    assert said in problem and "\n" not in problem


def test_all_problems_are_told_at_once() -> None:
    plan = written(small_plan())
    calls = {("rewards" if name == "reward_model" else name): call for name, call in plan.calls.items()}
    found = problems(small_case(), replace(plan, calls=calls, order=(*plan.order, "generate")))
    assert any("places no call 'reward_model'" in problem for problem in found)
    assert any("'rewards', which this method does not have: did you mean 'reward_model'" in p for p in found)
    assert any("orders call 'generate' twice" in problem for problem in found)


def test_too_many_replicas_and_stages_are_problems() -> None:
    case = describe({"models": {"actor": "0.5b"}, "cluster": "64xa100", "workload": "16:8+8"})
    plan = ExecutionPlan(
        {call.name: CallPlan(Layout(tuple(range(64)), dp=64)) for call in case.graph.calls},
        tuple(call.name for call in case.graph.calls),
    )
    assert all("has dp 64 for 16 sequences" in problem for problem in problems(case, plan))
    deep = {name: CallPlan(Layout(tuple(range(64)), pp=64)) for name in plan.calls}
    assert all("has pp 64 for 24 layers" in problem for problem in problems(case, replace(plan, calls=deep)))


def test_a_plan_for_another_cluster_is_one_problem() -> None:
    other = describe({"models": {"actor": "1.5b"}, "cluster": "4xa100", "workload": "64:64+64"})
    (problem,) = problems(other, written(small_plan()))
    assert "was made for cluster '2x4xa100'" in problem and "here is '4xa100'" in problem


def test_an_unknown_mode_is_told() -> None:
    with pytest.raises(InputError, match="made for mode 'asynchronous'"):
        mode_of(replace(written(small_plan()), provenance={"mode": "asynchronous"}))


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.json cannot be read"):
        read_plan(tmp_path / "gone.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a plan file"):
        read_plan(tmp_path / "binary.json")
    (tmp_path / "cut.json").write_text(json.dumps({"format": 1}))
    with pytest.raises(InputError, match=r"cut\.json: .*places no call"):
        read_plan(tmp_path / "cut.json")


def test_names_that_come_twice_are_numbered() -> None:
    plan = written(small_plan())
    assert list(as_mapping([("a", plan), ("b", plan), ("a", plan), ("a", plan)])) == ["a", "b", "a (2)", "a (3)"]


def with_call(name: str, **now: object) -> ExecutionPlan:
    plan = written(small_plan())
    return replace(plan, calls={**plan.calls, name: replace(plan.calls[name], **now)})  # type: ignore[arg-type]


def test_only_a_call_that_trains_shares_states_or_computes_again() -> None:
    at = written(small_plan()).calls["values"].layout
    for plan, what in (
        (with_call("values", recompute=True), "recompute"),
        (with_call("values", layout=replace(at, shard="full")), "shard 'full'"),
    ):
        (problem,) = problems(small_case(), plan)
        assert f"'values' has {what}, which is for a call that trains" in problem
    assert problems(small_case(), with_call("actor_train", recompute=False)) == []


@pytest.mark.parametrize("tokens", [1, 10**30])
def test_there_are_no_more_micro_batches_than_rows_and_one_at_least(tokens: int) -> None:
    """A row above the budget runs alone."""
    plan = with_call("actor_train", micro_batch_tokens=tokens)
    assert problems(small_case(), plan) == []
    cut = placements_in(small_case(), plan)["actor_train"].strategy
    assert cut.micro_batches == (-(-64 // cut.dp) if tokens == 1 else 1)
    assert judge_plan(small_case(), plan).period_seconds > 0


def test_a_late_call_that_is_not_there_is_named() -> None:
    (problem,) = problems(small_case(), replace(written(small_plan()), late=("generat",)))
    assert problem == "the plan calls late a call 'generat', which this method does not have: did you mean 'generate'?"


@pytest.mark.parametrize("mode", ["synchronous", "one-step-off", "streaming"])
def test_the_order_that_a_wrong_one_is_told_of_is_right(mode: str) -> None:
    planned = small_plan(mode)
    plan = written(planned)
    (problem,) = problems(planned.case, replace(plan, order=plan.order[::-1]), mode=mode_of(plan))
    told = problem.partition("one that does not is ")[2]
    order, _, late = told.removesuffix(")").partition(" (late: ")
    mended = replace(plan, order=tuple(order.split(" → ")), late=tuple(late.split(", ")) if late else ())
    assert problems(planned.case, mended, mode=mode_of(plan)) == []


def test_what_a_plan_was_made_for_is_held_against_what_it_is_judged_for() -> None:
    plan = written(small_plan())
    assert differences(small_case(), plan) == []
    assert differences(small_case(), replace(plan, provenance={})) == []
    data = {"method": "ppo", "models": {"actor": "1.5b"}, "cluster": "2x4xa100", "workload": "64:64+64"}
    for what, change in (
        ("workload", {"workload": "64:64+65"}),
        ("models", {"models": {"actor": "0.5b"}}),
        ("calibration", {"calibration": "reference"}),
        ("method", {"method": "ppo+rule-reward"}),
    ):
        found = differences(describe({**data, **change}), plan)
        assert [f for f in found if f.startswith(f"the plan was made for {what} '")], found
        assert all(f.endswith(": plan again for that") for f in found)


def test_seconds_that_a_file_only_claims_are_told() -> None:
    plan = written(small_plan())
    judged = judge_plan(small_case(), plan)
    assert misjudged(plan, judged) == misjudged(replace(plan, estimate_seconds=None), judged) == []
    (told,) = misjudged(replace(plan, estimate_seconds=judged.period_seconds / 2), judged)
    assert told.startswith(f"the file says {judged.period_seconds / 2:.4g} s an iteration")
