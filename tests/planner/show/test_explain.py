"""What binds makes up the bound; a second-best choice is another one, and judged to what is said of it."""

import pytest

from ropewalk.planner.placed import judge
from ropewalk.planner.planning import Asked
from ropewalk.planner.show.explain import binding, busy_share, certificate, operation_seconds, second_best, why
from ropewalk.planner.show.judgement import checked
from ropewalk.planner.written import written
from tests.planner.show.planned import small_plan


def test_what_binds_adds_up_to_the_bound_of_the_plan() -> None:
    judged = small_plan().judged
    chain = binding(judged)
    assert chain and sum(part.seconds for part in chain) == pytest.approx(judged.plan_bound_seconds, rel=1e-9)
    assert all(part.share == part.seconds / judged.period_seconds for part in chain)
    assert set(operation_seconds(judged)) == set(judged.order)


def test_reasons_name_the_chain_and_the_idle_time() -> None:
    planned = small_plan()
    said = why(planned.judged, 8)
    assert all(part.name in said[0] for part in binding(planned.judged))
    assert f"{1 - busy_share(planned.judged, 8):.0%}" in said[1]
    assert 0 < busy_share(planned.judged, 8) <= 1 + 1e-9


def test_the_certificate_says_the_gap_in_words() -> None:
    assert "more than 1.50% faster, under any order" in certificate(0.015, 10.0, optimal=False)
    assert "is the best of the space" in certificate(0.0, 10.0, optimal=True)
    assert "in the listed orders" in certificate(0.01, 10.0, optimal=True)


def test_a_second_best_choice_is_another_and_no_better_than_the_bound() -> None:
    planned = small_plan()
    told: list[str] = []
    found = second_best(planned, budget_seconds=0.05, told=told.append)
    assert [second.call for second in found] == told == list(planned.judged.calls)
    for second in found:
        assert second.other is not None and second.period_seconds is not None and second.ratio is not None
        here, there = second.chosen.strategy, second.other.strategy
        assert (here.dp, here.tp, here.pp, here.shard) != (there.dp, there.tp, there.pp, there.shard) or (
            second.chosen.gpus != second.other.gpus
        )
        assert second.period_seconds >= planned.bound_seconds * (1 - 1e-9)
        assert second.ratio == pytest.approx(second.period_seconds / planned.judged.period_seconds)


def test_on_one_gpu_nothing_else_is_there_to_choose() -> None:
    planned = small_plan(cluster="1xa100", method="sft")
    shards = {c.placement.strategy.shard for c in planned.judged.calls.values()}
    (second,) = second_best(planned, budget_seconds=0.02)
    assert second.chosen.strategy.shard in shards
    assert second.ratio is None or second.ratio >= 1 - 1e-9


def test_a_given_plan_is_held_against_the_best_and_the_bound() -> None:
    planned = small_plan()
    found = checked(planned.case, written(planned), Asked(budget_seconds=0.2, gap=0.01, baselines=False))
    assert found.best_seconds is not None and found.bound_seconds is not None and found.gap is not None
    assert found.gap == pytest.approx(found.judged.period_seconds / found.bound_seconds - 1)
    assert found.gap >= -1e-9 and not found.mends
    again = judge(planned.case, {name: call.placement for name, call in planned.judged.calls.items()})
    assert found.judged.period_seconds == pytest.approx(again.period_seconds, rel=1e-9)


def test_a_certificate_gives_the_gap_over_the_bound() -> None:
    """The gap is period / bound - 1: of the bound, not of the period."""
    said = certificate(0.25, 10.0, optimal=True)
    assert "none takes less than 10 s, which this one is 25.00% above" in said


def test_the_best_plan_that_is_known_is_never_longer_than_a_given_one_that_fits() -> None:
    planned = small_plan()
    for seed in range(3):
        asked = Asked(budget_seconds=1e-3, seed=seed, gap=0.5, baselines=False)
        found = checked(planned.case, written(planned), asked)
        assert found.judged.fits and found.best_seconds is not None
        assert found.best_seconds <= found.judged.period_seconds
