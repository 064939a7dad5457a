"""The reward model's loss: what it starts at, what it ignores, and what a pair is."""

import math

import pytest
import torch

from ropewalk.algorithms.preference_loss import bradley_terry_terms, pair_metrics, pairs_of
from ropewalk.records.errors import InputError

EVERY = torch.ones(4, dtype=torch.bool)
UNIT = torch.tensor([3, 9, 3, 9])
CHOSEN = torch.tensor([False, True, True, False])


def test_equal_scores_give_ln_2_and_a_gradient() -> None:
    """Fault L6: the loss starts at ln 2 and moves both scores."""
    scores_R = torch.zeros(4, requires_grad=True)
    terms_N = bradley_terry_terms(scores_R, pairs_of(UNIT, CHOSEN, EVERY))
    assert terms_N.tolist() == pytest.approx([math.log(2)] * 2)
    terms_N.sum().backward()  # type: ignore[no-untyped-call]
    assert scores_R.grad is not None and scores_R.grad.tolist() == [0.5, -0.5, -0.5, 0.5]


def test_a_constant_on_all_scores_changes_nothing() -> None:
    scores_R = torch.tensor([0.3, -1.0, 2.0, 0.7], dtype=torch.float64)
    pairs = pairs_of(UNIT, CHOSEN, EVERY)
    assert torch.allclose(bradley_terry_terms(scores_R + 100, pairs), bradley_terry_terms(scores_R, pairs), atol=1e-12)


def test_large_margins_stay_finite() -> None:
    scores_R = torch.tensor([1e4, -1e4, -1e4, 1e4], requires_grad=True)
    terms_N = bradley_terry_terms(scores_R, pairs_of(UNIT, CHOSEN, EVERY))
    terms_N.sum().backward()  # type: ignore[no-untyped-call]
    assert terms_N.tolist() == [2e4, 2e4] and scores_R.grad is not None and scores_R.grad.isfinite().all()


def test_a_tie_is_neither_right_nor_wrong() -> None:
    """Fault M2: ties are counted apart."""
    scores_R = torch.tensor([1.0, 2.0, 1.0, 0.5])
    metrics = pair_metrics(scores_R, pairs_of(UNIT, CHOSEN, EVERY))
    assert (metrics["pair_accuracy"].total, metrics["pair_accuracy"].count) == (1, 1)
    assert metrics["pair_ties"].value == 0.5
    assert metrics["pair_margin"].value == 0.75


def test_a_pair_with_an_invalid_row_is_left_out_whole() -> None:
    """Fault M2: the gradient is that of the other pairs."""
    scores_R = torch.tensor([float("nan"), 2.0, 1.0, 0.5], requires_grad=True)
    pairs = pairs_of(UNIT, CHOSEN, torch.tensor([False, True, True, True]))
    bradley_terry_terms(scores_R, pairs).sum().backward()  # type: ignore[no-untyped-call]
    assert pairs.chosen_N.tolist() == [1] and pairs.rejected_N.tolist() == [3]
    assert scores_R.grad is not None and scores_R.grad[[0, 2]].tolist() == [0, 0] and scores_R.grad[1] != 0


@pytest.mark.parametrize("chosen", [[True] * 4, [False] * 4, [False, True, False, False]])
def test_what_is_not_a_pair_is_refused_by_its_unit(chosen: list[bool]) -> None:
    with pytest.raises(InputError, match=r"unit 3 .*one chosen and one rejected"):
        pairs_of(UNIT, torch.tensor(chosen), EVERY)
