"""The process reward model's loss: what it starts at, where it is lowest, and what it ignores."""

import math

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from ropewalk.algorithms.config import ProcessRewardModel
from ropewalk.algorithms.objectives import process_objective
from ropewalk.algorithms.process_loss import step_metrics, step_terms

LABELS = torch.tensor([0.0, 0.25, 0.5, 1.0], dtype=torch.float64)


def test_a_zero_head_gives_ln_2_whatever_the_label_and_a_gradient() -> None:
    """Fault L6: the gradient is σ(z) − y."""
    z = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    terms = step_terms(z, LABELS)
    assert terms.tolist() == pytest.approx([math.log(2)] * 4)
    terms.sum().backward()  # type: ignore[no-untyped-call]
    assert z.grad is not None and z.grad.tolist() == pytest.approx([0.5, 0.25, 0.0, -0.5])


def test_it_is_the_cross_entropy_and_lowest_where_the_value_is_the_label() -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(4, 50, generator=generator, dtype=torch.float64) * 4
    labels = LABELS[:, None].expand_as(z)
    torch.testing.assert_close(step_terms(z, labels), binary_cross_entropy_with_logits(z, labels, reduction="none"))
    best = torch.logit(LABELS[1:3])
    for shift in (-0.1, 0.1):
        assert (step_terms(best, LABELS[1:3]) < step_terms(best + shift, LABELS[1:3])).all()


def test_large_scores_stay_finite() -> None:
    z = torch.tensor([1e4, -1e4, 1e4], requires_grad=True)
    terms = step_terms(z, torch.tensor([0.0, 1.0, 1.0]))
    assert terms.tolist() == [1e4, 1e4, 0.0]
    terms.sum().backward()  # type: ignore[no-untyped-call]
    assert z.grad is not None and z.grad.isfinite().all()


def test_a_step_in_the_middle_is_on_no_side() -> None:
    """Fault M2: as a tie of a pair is."""
    metrics = step_metrics(torch.tensor([2.0, -2.0, 2.0, 0.0]), torch.tensor([0.9, 0.9, 0.5, 1.0]), torch.ones(4) > 0)
    assert (metrics["step_accuracy"].total, metrics["step_accuracy"].count) == (1, 2)
    assert metrics["step_label"].value == pytest.approx(0.825)


def test_only_ends_of_steps_count() -> None:
    """Fault C4, A1: NaN at other tokens, and in a row without an outcome; each step weighs the same."""
    nan = float("nan")
    columns = {
        "row_T": torch.tensor([0, 0, 0, 1, 1]),
        "policy_mask": torch.tensor([False, True, True, True, True]),
        "step_end": torch.tensor([False, False, True, True, True]),
        "step_label": torch.tensor([nan, nan, 1.0, 0.0, 0.5]),
        "valid": torch.tensor([True, True]),
    }
    objective = process_objective(ProcessRewardModel())
    scores = torch.tensor([nan, nan, 0.0, 0.0, 0.0], requires_grad=True)
    terms, _ = objective.terms({"token_scores": scores}, columns)
    assert objective.counts(columns) == {"steps": 3.0}
    assert float(terms["steps"].detach()) / 3 == pytest.approx(math.log(2))
    terms["steps"].backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None and scores.grad.tolist() == [0.0, 0.0, -0.5, 0.5, 0.0]
    without = {**columns, "valid": torch.tensor([True, False])}
    assert objective.counts(without) == {"steps": 1.0}
