"""Advice: the decision follows from what can be had, and every number from memory and price."""

from dataclasses import replace
from math import ceil

import pytest

from ropewalk.plan.sizes import shape_of
from ropewalk.planner.advice.advise import RECIPES, Advice, Question, advise, decide
from ropewalk.planner.case.hardware import cluster
from ropewalk.planner.estimate.calibration import REFERENCE
from ropewalk.records.errors import InputError
from ropewalk.runtime.recipe import built_in, read_recipe

CLASSIC = Question(cluster("64xh100"), shape_of("70b"), pairs=10e6, days=14)
SMALL = Question(cluster("8xa100"), shape_of("7b"), verifiable=True)


def methods(question: Question) -> list[str]:
    taken, left = decide(question, REFERENCE)
    assert all(choice.because for choice in (*taken, *left))
    assert not {choice.what for choice in taken} & {choice.what for choice in left}
    return [choice.what for choice in taken]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["grpo+rule-reward"]),
        ({"pairs": 1e4}, ["grpo+rule-reward"]),
        ({"verifiable": False}, ["sft"]),
        ({"verifiable": False, "pairs": 1e4}, ["reward-model", "grpo"]),
        ({"long_episodes": True}, ["ppo+rule-reward"]),
        ({"verifiable": False, "pairs": 1e4, "long_episodes": True}, ["reward-model", "ppo"]),
        ({"long_episodes": True, "cluster": cluster("1xa100")}, ["grpo+rule-reward"]),
    ],
    ids=str,
)
def test_the_method_follows_from_what_can_be_had(changes: dict[str, object], expected: list[str]) -> None:
    assert methods(replace(SMALL, **changes)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(("method", "recipe"), RECIPES.items())
def test_a_recommended_recipe_is_built_in_and_of_the_method(method: str, recipe: str) -> None:
    assert recipe in built_in()
    assert read_recipe(recipe).method == method.partition("+")[0].replace("-", "_")


@pytest.fixture(scope="module")
def classic() -> Advice:
    return advise(CLASSIC, REFERENCE)


def test_the_classic_question_is_answered_with_numbers(classic: Advice) -> None:
    """70B, 10 M preference pairs, two weeks: the reward model, the actor, the rollout, by memory and by time."""
    needs = {need.what: need.gpus for need in classic.needs}
    states = 16 * shape_of("70b").parameters / (0.92 * 80e9)
    for what in ("reward-model, training the reward model", "grpo, training the actor", "grpo, all models"):
        assert needs[what] is not None and states <= (needs[what] or 0) <= 64
    assert needs["grpo, one rollout engine"] == 2
    hours = {stage.method: stage.price for stage in classic.stages}
    assert needs["all stages"] == ceil(sum(price.gpu_hours.high for price in hours.values()) / (14 * 24))
    by_part = [need.gpus or 0 for need in classic.needs if need.limit == "time" and need.what != "all stages"]
    assert (needs["all stages"] or 0) <= sum(by_part) <= (needs["all stages"] or 0) + len(by_part)
    assert needs["reward-model, update"] == ceil(hours["reward-model"].gpu_hours.high / (14 * 24))
    assert classic.enough and all(stage.plan for stage in classic.stages)


def test_the_placement_is_the_planners_with_its_certificate(classic: Advice) -> None:
    for stage in classic.stages:
        assert stage.plan is not None and stage.plan.judged.fits
        assert 0 <= stage.plan.gap < 0.05
        assert stage.plan.judged.period_seconds == pytest.approx((1 + stage.plan.gap) * stage.plan.bound_seconds)
        assert set(stage.plan.judged.calls) == {call.name for call in stage.plan.case.graph.calls}
        for seconds in stage.by_rules.values():
            assert seconds is None or seconds >= stage.plan.bound_seconds * (1 - 1e-9)


def test_the_largest_need_fails_first(classic: Advice) -> None:
    gpus = [need.gpus or 0 for need in classic.needs]
    assert gpus == sorted(gpus, reverse=True)
    assert all(need.met == ((need.gpus or 0) <= 64 or need.planned) for need in classic.needs)
    fewer = advise(replace(CLASSIC, cluster=cluster("8xh100")), REFERENCE)
    assert not fewer.enough
    assert fewer.needs[0].gpus is not None and fewer.needs[0].gpus > 8
    assert all(stage.plan is None and stage.refused for stage in fewer.stages)


def test_half_the_days_need_twice_the_gpus(classic: Advice) -> None:
    def in_time(found: Advice) -> int:
        return next(need.gpus or 0 for need in found.needs if need.what == "all stages")

    hurried = advise(replace(CLASSIC, days=1.4), REFERENCE)
    assert in_time(hurried) == pytest.approx(10 * in_time(classic), abs=10)
    assert hurried.needs[0].limit == "time"
    assert not any(need.limit == "time" for need in advise(replace(SMALL, days=None), REFERENCE).needs)


def test_the_priced_and_the_planned_time_agree_within_a_factor(classic: Advice) -> None:
    for stage in classic.stages:
        assert stage.planned_days is not None
        assert stage.price.days.low / 3 < stage.planned_days < stage.price.days.high * 3


def test_in_a_mixed_cluster_a_need_names_its_kind_and_a_plan_meets_it() -> None:
    mixed = advise(replace(SMALL, cluster=cluster("8xl4+8xa100")), REFERENCE)
    (stage,) = mixed.stages
    assert stage.plan is not None and mixed.enough
    found = {(need.kind, need.have) for need in mixed.needs if "engine" not in need.what}
    assert found == {("A100 80 GB SXM", 8)}


def test_a_cluster_without_16_bit_units_is_planned_in_32() -> None:
    gpu = replace(cluster("a100").groups[0].gpu, name="old", flops={"fp32": 19.5e12})
    old = cluster("8xa100")
    old = replace(old, groups=(replace(old.groups[0], gpu=gpu),))
    (stage,) = advise(replace(SMALL, cluster=old, model=shape_of("1b")), REFERENCE).stages
    assert stage.plan is not None and stage.plan.case.workload.dtype == "fp32"


def test_days_add_up_over_stages(classic: Advice) -> None:
    assert classic.days.high == pytest.approx(sum(stage.price.days.high for stage in classic.stages))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prompts": 0}, "number of prompts"),
        ({"pairs": -1}, "at least 0"),
        ({"pairs": float("nan")}, "at least 0"),
        ({"days": 0}, "number of days"),
        ({"prompt_tokens": 1024}, "leaves nothing to answer"),
        ({"prompt_tokens": 0}, "leaves nothing to answer"),
    ],
)
def test_an_impossible_question_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        replace(SMALL, **changes)  # type: ignore[arg-type]
