"""Collectives on real ranks, and a world of one that needs none."""

from pathlib import Path

import torch
import torch.distributed as dist

from ropewalk.parallel.groups import Group, open_group
from tests.parallel.jobs import collectives, leave_early
from tests.parallel.ranks import run_ranks


def test_a_world_of_one_has_no_process_group(tmp_path: Path) -> None:
    group = open_group(0, 1, tmp_path / "meet")
    assert group == Group() and not dist.is_initialized()
    tensor = torch.ones(2)
    group.all_reduce_flat([tensor])
    group.barrier()
    group.close()
    assert tensor.tolist() == [1, 1]
    assert group.sum_counts({"a": 1.5}) == {"a": 1.5}
    assert not list(tmp_path.iterdir())


def test_tensors_and_counts_are_summed_over_the_ranks(tmp_path: Path) -> None:
    """Every shape, stride and dtype in place; counts in float64, whatever the order of their names."""
    answers = run_ranks(collectives, tmp_path)
    assert answers[0] == answers[1]
    assert answers[0] == {
        "whole": [[3.0] * 3] * 2,
        "half": [3.0] * 4,
        "turned": [[1.0] * 3] * 2,
        "counts": {"a": 2.0**41 + 2, "b": 1.5},
    }


def test_a_rank_that_leaves_is_noticed(tmp_path: Path) -> None:
    """A missing rank raises on the others instead of hanging them."""
    assert [answer["heard"] for answer in run_ranks(leave_early, tmp_path)] == [True, True]
