from itertools import product

import pytest

from ropewalk.data.fit import Fitted, fit_pair, fit_row
from ropewalk.data.forms import RefusedRow

GRID = list(product((1, 3, 20), (1, 3, 15), (1, 3, 15), (1, 2, 5, 10, 16, 40)))


def row(prompt: int, answer: int, token: int) -> tuple[list[int], list[bool]]:
    return [1] * prompt + [token] * answer, [False] * prompt + [True] * answer


def test_a_row_whose_targets_are_all_cut_off_is_refused() -> None:
    """Fault A8: 20 prompt tokens and 3 answer tokens in 16."""
    with pytest.raises(RefusedRow, match=r"no answer token is left within 16 tokens \(it has 23\)"):
        fit_row(*row(20, 3, 5), 16)
    assert fit_row(*row(4, 3, 5), 6) == Fitted((1, 1, 1, 1, 5, 5), (False,) * 4 + (True,) * 2, cut=True)
    assert not fit_row(*row(4, 3, 5), 7).cut
    with pytest.raises(RefusedRow):
        fit_row([5], [True], 10)


@pytest.mark.parametrize(("prompt", "chosen", "rejected", "budget"), GRID)
def test_both_sides_are_cut_by_their_own_length(prompt: int, chosen: int, rejected: int, budget: int) -> None:
    """Fault L2: no side is ever empty, and both follow one rule."""
    if prompt >= budget:
        with pytest.raises(RefusedRow):
            fit_pair(row(prompt, chosen, 5), row(prompt, rejected, 6), budget)
        return
    sides = fit_pair(row(prompt, chosen, 5), row(prompt, rejected, 6), budget)
    for side, answer in zip(sides, (chosen, rejected), strict=True):
        assert sum(side.mask) == min(answer, budget - prompt) >= 1
        assert len(side.ids) == len(side.mask) == min(prompt + answer, budget)
        assert side.cut == (prompt + answer > budget)


def test_a_pair_that_differs_only_after_the_cut_is_refused() -> None:
    """Fault M2."""
    same = [1, 5, 5, 5, 5]
    sides = [([*same, end], [False] + [True] * 5) for end in (7, 8)]
    with pytest.raises(RefusedRow, match="equal within 5 tokens"):
        fit_pair(*sides, 5)
    assert [side.ids[-1] for side in fit_pair(*sides, 6)] == [7, 8]
