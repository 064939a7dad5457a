"""Losses over pairs of answers to one prompt, to be minimised. A pair is two rows of one `unit`, one of them chosen."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ropewalk.algorithms.masked import means
from ropewalk.records.errors import InputError
from ropewalk.records.metric import Metrics


class Pairs(NamedTuple):
    """Row numbers of the chosen and the rejected answer of each pair, (N,) each, in order of the unit."""

    chosen_N: Tensor
    rejected_N: Tensor


def pairs_of(unit_R: Tensor, chosen_R: Tensor, valid_R: Tensor) -> Pairs:
    """Pair the rows by `unit`; a pair with an invalid row is left out whole.

    Raises InputError naming a unit that is not one chosen and one rejected row.
    """
    chosen_R = chosen_R.bool()
    units, index_R = torch.unique(unit_R, return_inverse=True)
    for name, rows_R, wanted in (("chosen", chosen_R, 1), ("rejected", ~chosen_R, 1)):
        found = torch.bincount(index_R[rows_R], minlength=len(units))
        bad = torch.nonzero(found != wanted).flatten().tolist()
        if bad:
            raise InputError(
                f"unit {int(units[bad[0]])} has {int(found[bad[0]])} {name} rows: a pair is one chosen and one rejected"
            )
    by_unit = torch.argsort(index_R, stable=True)
    flags = chosen_R[by_unit]
    chosen_N, rejected_N = by_unit[flags], by_unit[~flags]
    kept = valid_R[chosen_N] & valid_R[rejected_N]
    return Pairs(chosen_N[kept], rejected_N[kept])


def bradley_terry_terms(scores_R: Tensor, pairs: Pairs) -> Tensor:
    """−log σ(s_chosen − s_rejected), (N,): ln 2 at equal scores, unchanged by a constant added to all scores.

    Bradley and Terry 1952; as a reward-model loss Ouyang et al. 2022 (InstructGPT), eq. 1 with K = 2.
    """
    return -logsigmoid(scores_R[pairs.chosen_N] - scores_R[pairs.rejected_N])


def pair_metrics(scores_R: Tensor, pairs: Pairs) -> Metrics:
    """Accuracy over pairs with unequal scores (a tie is neither right nor wrong), share of ties, margin, scores."""
    chosen_N, rejected_N = scores_R.detach()[pairs.chosen_N], scores_R.detach()[pairs.rejected_N]
    margin_N = chosen_N - rejected_N
    every_N = torch.ones_like(margin_N, dtype=torch.bool)
    right = means({"pair_accuracy": (margin_N > 0).to(margin_N.dtype)}, margin_N != 0)
    ties_N = (margin_N == 0).to(margin_N.dtype)
    shown = {"pair_ties": ties_N, "pair_margin": margin_N, "chosen_score": chosen_N, "rejected_score": rejected_N}
    return {**right, **means(shown, every_N)}
