"""Moves of spread experts: never less than what a rank lacks, nothing where nothing changes, as before without ep."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import lcm
from typing import TypeAlias

import numpy as np
import pytest

from ropewalk.plan.cluster import Cluster
from ropewalk.plan.sizes import shape_of
from ropewalk.plan.transfer import LayerBytes
from ropewalk.planner.case.describe import describe
from ropewalk.planner.case.hardware import cluster
from ropewalk.planner.moving.experts import model_table
from ropewalk.planner.moving.kernels import Floats
from ropewalk.planner.moving.move import Geometries, move_table
from ropewalk.planner.planning import Asked, plan_case
from ropewalk.planner.written import judge_plan, written

SHAPE = shape_of("30b-a3b")
NODES: Cluster = cluster("16xa100")
Cut: TypeAlias = tuple[int, int, int, int, int]
"""First rank, dp, tp, pp, ep."""

CUTS: list[Cut] = [
    (first, dp, tp, pp, ep)
    for first in (0, 8)
    for dp, tp, pp in ((8, 1, 1), (4, 2, 1), (2, 2, 2), (1, 8, 1))
    for ep in (1, 2, 8)
    if dp * tp % ep == 0
]


def table(sources: Sequence[Cut], targets: Sequence[Cut]) -> Floats:
    sides = [Geometries.of((first, dp, tp, pp) for first, dp, tp, pp, _ in rows) for rows in (sources, targets)]
    ways = [np.array([row[-1] for row in rows], np.int64) for rows in (sources, targets)]
    return model_table(SHAPE, sides[0], sides[1], (ways[0], ways[1]), NODES)


def experts_of(cut: Cut, rank: int) -> set[tuple[int, int, int]]:
    """(layer, expert, slice of a grid of 8) that a rank holds: ep splits the list of experts, what is left of tp cuts
    each of them; counted here one by one."""
    first, dp, tp, pp, ep = cut
    if not first <= rank < first + dp * tp * pp:
        return set()
    stage, inside = divmod(rank - first, dp * tp)
    parts = lcm(tp, ep)
    share = inside % parts
    layers = range(stage * SHAPE.layers // pp, (stage + 1) * SHAPE.layers // pp)
    assert SHAPE.experts is not None
    cells = SHAPE.experts.count * 8
    held = range(share * cells // parts, (share + 1) * cells // parts)
    return {(layer, *divmod(cell, 8)) for layer in layers for cell in held}


def test_a_move_takes_no_less_than_the_experts_that_a_rank_lacks() -> None:
    found = table(CUTS, CUTS)
    assert SHAPE.experts is not None
    cell = 2 * 3 * SHAPE.width * SHAPE.experts.ffn / 8
    held = {(cut, rank): experts_of(cut, rank) for cut in CUTS for rank in range(16)}
    for (i, source), (j, target) in product(enumerate(CUTS), repeat=2):
        lacks = max(len(held[target, rank] - held[source, rank]) for rank in range(16))
        fastest = 25e9 if source[0] != target[0] else NODES.groups[0].inside_bytes_per_second
        assert found[i, j] >= lacks * cell / fastest * (1 - 1e-9), (source, target)


def test_the_same_cut_moves_nothing_and_other_spreads_of_the_experts_do() -> None:
    found = table(CUTS, CUTS)
    assert not found.diagonal().any()
    for (i, source), (j, target) in product(enumerate(CUTS), repeat=2):
        if source[:4] == target[:4] and target[-1] < source[-1] and target[2] % source[-1]:
            assert found[i, j] > 0, (source, target)


def test_without_spread_experts_the_price_is_that_of_the_whole_model() -> None:
    rows = [i for i, cut in enumerate(CUTS) if cut[-1] == 1]
    plain = Geometries.of(CUTS[i][:4] for i in rows)
    whole = move_table(LayerBytes.of(SHAPE), plain, plain, NODES)
    np.testing.assert_array_equal(table(CUTS, CUTS)[np.ix_(rows, rows)], whole)


@pytest.mark.parametrize("size", ["30b-a3b", "8x7b", "deepseek-v3", "7b"])
def test_the_parts_of_a_model_are_the_whole_of_it(size: str) -> None:
    whole, (rest, experts) = LayerBytes.of(shape_of(size)), LayerBytes.parts(shape_of(size))
    assert rest.total_bytes + experts.total_bytes == whole.total_bytes
    assert (experts.total_bytes > 0) == (shape_of(size).experts is not None)


def test_a_plan_with_experts_is_judged_to_the_period_that_was_found() -> None:
    case = describe(
        {"method": "grpo+rule-reward", "models": {"actor": "30b-a3b"}, "cluster": "16xh200", "workload": "64:64+64"}
    )
    case = replace(case, space=replace(case.space, ep=(8,)))
    planned = plan_case(case, Asked(budget_seconds=0.2, gap=0.05, baselines=False))
    assert {call.placement.strategy.ep for call in planned.judged.calls.values()} == {8}
    assert judge_plan(case, written(planned)).period_seconds == pytest.approx(planned.judged.period_seconds, rel=1e-12)
