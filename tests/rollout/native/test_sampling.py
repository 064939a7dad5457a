"""Inverse-distribution sampling against a plain reference, and its edges."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.errors import RunStopped
from ropewalk.rollout.native.sampling import draw, inverse_cdf
from ropewalk.rollout.native.uniforms import UNIFORM_BLOCK, uniforms

ALMOST_ONE = float(np.nextafter(1.0, 0.0))


def plain(probs: np.ndarray, number: float) -> int:
    cumulative = np.cumsum(probs.astype(np.float64))
    return int(np.searchsorted(cumulative, number * cumulative[-1], side="right"))


@pytest.mark.parametrize("size", [1, 2, 127, 128, 129, 256, 1000])
def test_two_levels_are_the_plain_inverse(size: int) -> None:
    rng = np.random.default_rng(size)
    probs = rng.dirichlet(np.full(size, 0.3), 200).astype(np.float32)
    numbers = rng.random(200)
    ids = inverse_cdf(torch.from_numpy(probs), torch.from_numpy(numbers))
    expected = [plain(row, number) for row, number in zip(probs, numbers, strict=True)]
    assert ids.tolist() == expected


@given(
    weights=st.lists(st.sampled_from([0.0, 0.0, 1e-30, 1e-7, 0.3, 1.0]), min_size=1, max_size=300).filter(any),
    number=st.sampled_from([0.0, 1e-300, 0.5, 1 - 1e-9, ALMOST_ONE]),
)
def test_an_impossible_id_is_never_drawn(weights: list[float], number: float) -> None:
    probs = torch.tensor([weights]) / sum(weights)
    chosen = int(inverse_cdf(probs, torch.tensor([number], dtype=torch.float64))[0])
    assert probs[0, chosen] > 0


@given(seed=st.integers(0, 2**32), number=st.sampled_from([0.0, 0.3, ALMOST_ONE]))
def test_a_banned_id_is_never_drawn_at_any_temperature(seed: int, number: float) -> None:
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(rng.normal(0, 20, (1, 150)))
    banned = torch.from_numpy(rng.permutation(150)[: rng.integers(0, 150)])
    for temperature in (0.0, 0.01, 1.0, 50.0):
        ids, logprobs = draw(logits, torch.tensor([number]), temperature=temperature, banned=banned)
        assert int(ids[0]) not in banned.tolist()
        assert torch.isfinite(logprobs).all()


def test_draws_follow_the_distribution() -> None:
    """Evenly spread numbers hit every id in proportion to its probability, to one count."""
    logits = torch.tensor([[0.3, -1.0, 2.0, 0.0, -4.0]])
    count = 10_000
    numbers = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    ids, logprobs = draw(logits.expand(count, -1), numbers, temperature=0.7)
    probs = torch.softmax(logits[0] / 0.7, -1)
    assert (torch.bincount(ids, minlength=5) - probs * count).abs().max() <= 1
    assert torch.allclose(logprobs, probs.log()[ids], atol=1e-6)


@pytest.mark.parametrize(("temperature", "expected"), [(0.5, -0.01815), (1.0, -0.12693), (0.0, -0.12693)])
def test_the_logprob_is_of_the_tempered_distribution(temperature: float, expected: float) -> None:
    """Fault B1: logits [2, 0], token 0. Greedy choice reports the un-tempered log-prob."""
    ids, logprobs = draw(torch.tensor([[2.0, 0.0]]), torch.tensor([0.2]), temperature=temperature)
    assert int(ids[0]) == 0
    assert float(logprobs[0]) == pytest.approx(expected, abs=5e-6)


def test_greedy_choice_obeys_bans() -> None:
    """Fault B1: the log-prob is that of temperature 1 over what is not banned."""
    logits = torch.tensor([[5.0, 2.0, 1.0]])
    ids, logprobs = draw(logits, torch.zeros(1), temperature=0.0, banned=torch.tensor([0]))
    assert int(ids[0]) == 1
    assert float(logprobs[0]) == pytest.approx(float(torch.log_softmax(logits[0, 1:], -1)[0]), abs=1e-6)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_stop_the_run(bad: float) -> None:
    with pytest.raises(RunStopped, match="not finite"):
        draw(torch.tensor([[1.0, bad, 0.0]]), torch.tensor([0.9]), temperature=1.0)


def test_blocks_of_numbers_join_to_one_stream() -> None:
    whole = np.random.Generator(np.random.Philox(key=7)).random(3 * UNIFORM_BLOCK)
    assert np.array_equal(np.concatenate([uniforms(7, block) for block in range(3)]), whole)


def test_streams_differ_by_seed() -> None:
    """Fault B6: neighbouring seeds share no number."""
    numbers = np.concatenate([uniforms(seed, 0) for seed in [*range(50), 2**62, 2**63 - 1]])
    assert len(np.unique(numbers)) == len(numbers)
    assert ((numbers >= 0) & (numbers < 1)).all()
