"""Text charts: lines as wide as asked, cells in proportion to seconds, few lines for large clusters."""

from collections import Counter
from itertools import pairwise

import pytest

from ropewalk.planner.case.describe import describe
from ropewalk.planner.estimate.work import Strategy
from ropewalk.planner.placed import Placement, judge
from ropewalk.planner.show.chart import IDLE, MOST_LINES, bar, gantt, memory_lines, pieces, steady
from ropewalk.planner.show.memory import devices
from tests.planner.show.planned import small_plan


@pytest.mark.parametrize("mode", ["synchronous", "one-step-off", "streaming"])
def test_what_runs_on_a_piece_takes_its_seconds_once_an_iteration(mode: str) -> None:
    judged = small_plan(mode).judged
    for piece in pieces(judged, small_plan(mode).case.cluster):
        shares: Counter[str] = Counter()
        for busy in steady(judged, piece):
            assert 0 <= busy.begin <= busy.end <= 1 + 1e-9
            shares[busy.name] += busy.end - busy.begin
        for name, placed in judged.calls.items():
            if piece.first_rank in placed.placement.ranks:
                assert shares[name] >= placed.estimate.seconds / judged.period_seconds - 1e-9
                if mode != "streaming":
                    assert shares[name] == pytest.approx(placed.estimate.seconds / judged.period_seconds)
            else:
                assert name not in shares


def test_nothing_overlaps_on_a_piece() -> None:
    judged = small_plan().judged
    for piece in pieces(judged, small_plan().case.cluster):
        found = steady(judged, piece)
        assert all(a.end <= b.begin + 1e-9 for a, b in pairwise(found))


def test_lines_are_as_wide_as_asked_and_name_the_calls() -> None:
    planned = small_plan()
    *lines, scale = gantt(planned.judged, planned.case.cluster, width=60)
    assert len({len(line) for line in [*lines, scale]}) == 1
    assert "actor_train"[:5] in "".join(lines) and "generate"[:5] in "".join(lines)
    assert scale.endswith(" s")
    assert sum(line[-60:].count(IDLE) for line in lines) < 0.5 * 60 * len(lines)


def test_a_large_cluster_is_drawn_in_few_lines() -> None:
    case = describe({"method": "sft", "models": {"actor": "7b"}, "cluster": "320xa100", "workload": "2048:128+128"})
    judged = judge(case, {"actor_train": Placement(0, 320, Strategy(dp=80, tp=4))})
    lines = pieces(judged, case.cluster)
    assert len(lines) <= MOST_LINES
    assert sum(line.gpus for line in lines) == 320


def test_bars_grow_with_the_share_and_mark_what_is_too_much() -> None:
    assert [bar(share, width=4).rstrip("· ") for share in (0.0, 0.5, 1.0)] == ["", "██", "████"]
    assert bar(1.01, width=4).endswith("!") and not bar(1.0, width=4).endswith("!")
    for line in memory_lines(devices(small_plan().judged)):
        assert " of " in line and "GB" in line
