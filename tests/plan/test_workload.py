"""Workloads: what a histogram says of its sequences, and what no iteration can be."""

from dataclasses import replace

import numpy as np
import pytest

from ropewalk.plan.workload import Lengths, Workload
from ropewalk.records.errors import InputError

PLAIN = Workload(
    512, 2, prompt_tokens=Lengths.fixed(128), generated_tokens=Lengths((10, 900), (3.0, 1.0)), minibatches=4
)


def test_a_histogram_says_what_its_sample_says(grid_seed: int) -> None:
    drawn = np.random.default_rng(grid_seed).integers(0, 40, 500)
    lengths = Lengths.of(int(n) for n in drawn)
    assert sum(lengths.weights) == len(drawn)
    assert lengths.mean == pytest.approx(drawn.mean()) and lengths.longest == drawn.max()
    for token in range(42):
        assert lengths.alive(token) == pytest.approx((drawn > token).mean())
    assert sum(lengths.alive(token) for token in range(42)) == pytest.approx(drawn.mean())


def test_scaling_the_weights_changes_nothing() -> None:
    one, other = Lengths((3, 9), (1.0, 4.0)), Lengths((3, 9), (0.5, 2.0))
    assert one.mean == other.mean and [one.alive(t) for t in range(10)] == [other.alive(t) for t in range(10)]


def test_a_length_without_weight_is_not_the_longest() -> None:
    assert Lengths((5, 800), (1.0, 0.0)).longest == 5


def test_a_fixed_length_is_alive_until_its_end() -> None:
    assert [Lengths.fixed(3).alive(token) for token in range(5)] == [1, 1, 1, 0, 0]


def test_sums() -> None:
    assert (PLAIN.sequences, PLAIN.longest) == (1024, 1028)
    assert len({PLAIN, replace(PLAIN, lora_rank={"actor": 8})}) == 2


@pytest.mark.parametrize(
    ("tokens", "weights"),
    [
        ((), ()),
        ((1,), ()),
        ((1, 2), (1.0,)),
        ((-1,), (1.0,)),
        ((1,), (-1.0,)),
        ((1, 2), (0.0, 0.0)),
        ((1,), (float("nan"),)),
        ((1,), (float("inf"),)),
    ],
)
def test_a_histogram_that_cannot_be(tokens: tuple[int, ...], weights: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="a length histogram needs"):
        Lengths(tokens, weights)


def test_no_observed_lengths_are_no_histogram() -> None:
    with pytest.raises(InputError, match="at least one length"):
        Lengths.of([])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"prompts": 0}, "prompts = 0: give a whole number of at least 1"),
        ({"group_size": 0}, "group_size = 0: give"),
        ({"minibatches": 0}, "minibatches = 0: give"),
        ({"epochs": -1}, "epochs = -1: give"),
        ({"minibatches": 1025}, "1024 sequences into 1025 mini-batches: give more prompts or fewer"),
        ({"dtype": "bf61"}, "computes in 'bf61': choose one of bf16, fp16, fp32"),
        ({"lora_rank": {"actor": 0}}, "'actor' have rank 0: give at least 1"),
        (
            {"prompt_tokens": Lengths.fixed(0), "generated_tokens": Lengths.fixed(0)},
            "sequences of 0 tokens: give prompts or answers",
        ),
    ],
)
def test_a_workload_that_cannot_be(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        replace(PLAIN, **change)  # type: ignore[arg-type]
