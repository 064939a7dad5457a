from itertools import combinations

import pytest

from ropewalk.data.passk import mean_pass_at_k, pass_at_k
from ropewalk.records.errors import InputError


@pytest.mark.parametrize("samples", range(1, 7))
def test_pass_at_k_is_the_share_of_draws_with_a_pass(samples: int) -> None:
    """Over all subsets of size k: the definition, counted out."""
    for passed in range(samples + 1):
        for k in range(1, samples + 1):
            draws = list(combinations(range(samples), k))
            share = sum(any(sample < passed for sample in draw) for draw in draws) / len(draws)
            assert pass_at_k(samples, passed, k) == pytest.approx(share, abs=1e-12)


def test_the_mean_runs_over_prompts_and_its_interval_holds_it() -> None:
    counts = [(4, 0), (4, 1), (4, 4), (8, 2)]
    found = mean_pass_at_k(counts, 2)
    assert found.value == pytest.approx((0 + 0.5 + 1 + (1 - 15 / 28)) / 4)
    assert found.low <= found.value <= found.high and found.count == 4
    assert mean_pass_at_k(counts, 2) == found, "the same numbers give the same interval"


@pytest.mark.parametrize(("samples", "passed", "k"), [(3, 1, 4), (3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_what_cannot_be_estimated_is_refused(samples: int, passed: int, k: int) -> None:
    with pytest.raises(InputError, match=f"pass@{k}"):
        pass_at_k(samples, passed, k)
