"""Two ranks train exactly what one process trains."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ropewalk.parallel.groups import Group
from ropewalk.records.metric import merge
from tests.parallel.jobs import Answer, stop_on_one_rank, train
from tests.parallel.ranks import run_ranks
from tests.parity.beds import NAMES, assert_close


def tensors(arrays: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}


def check(answers: list[Answer], alone: Answer) -> None:
    for answer in answers:
        assert_close(tensors(answer["gradients"]), tensors(alone["gradients"]), 1e-6)
        assert answer["empty"] == alone["empty"]
    assert all(np.array_equal(answers[0]["weights"][name], answers[1]["weights"][name]) for name in alone["weights"])
    for part in ("metrics", "later", "dealt"):
        merged = merge(answer[part] for answer in answers)
        assert merged.keys() == alone[part].keys()
        for name, metric in merged.items():
            expected = alone[part][name]
            assert metric.value == pytest.approx(expected.value, rel=1e-4, abs=1e-5), name
            if name.startswith("loss_"):
                assert metric.count == pytest.approx(expected.count)
    if alone["logprobs"] is not None:
        assert sum(answer["logprobs"] for answer in answers) == pytest.approx(alone["logprobs"], abs=1e-5)
    assert answers[0]["collectives"] == answers[1]["collectives"]


@pytest.mark.parametrize(
    ("name", "architecture", "rows", "budget"),
    [
        ("grpo-sequence", "llama", None, 25),
        ("sft-token", "gpt2", 5, 1),
        ("joint-token", "llama", 7, 10_000),
        ("sft-token", "llama", 1, 10_000),
        ("pairs", "llama", 6, 12),
    ],
)
def test_two_ranks_are_one_process(tmp_path: Path, name: str, architecture: str, rows: int | None, budget: int) -> None:
    """Faults A1, J2, P1: ragged shares, unequal numbers of micro-batches, a rank without rows: the same gradient to
    1e-6, the same merged metrics, the same collectives on both ranks."""
    answers = run_ranks(train, tmp_path, name, architecture, rows, budget)
    check(answers, train(Group(), name, architecture, rows, budget))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 4, None])
@pytest.mark.parametrize("name", NAMES)
def test_two_ranks_are_one_process_for_every_loss(tmp_path: Path, name: str, rows: int | None) -> None:
    """Faults A1, J2, P1 for every loss and reduction."""
    rows = 2 if name == "pairs" and rows == 1 else rows
    check(run_ranks(train, tmp_path, name, "llama", rows, 20), train(Group(), name, "llama", rows, 20))


def test_all_ranks_stop_together(tmp_path: Path) -> None:
    """A loss that is not finite on one rank stops every rank before the update, with one message."""
    answers = run_ranks(stop_on_one_rank, tmp_path)
    assert answers[0] == answers[1]
    assert answers[0]["step"] == 0 and "loss term 'policy' is nan" in answers[0]["message"]
