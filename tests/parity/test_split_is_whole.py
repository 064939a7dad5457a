"""However a batch is cut, packed or shared, its loss, gradient and metrics are the same."""

import random

import numpy as np
import pytest
import torch

from ropewalk.records.packed import PackedBatch, concatenate
from ropewalk.training.forward import forward
from ropewalk.training.packing import micro_batches
from ropewalk.training.step import gradients, optimiser_step
from tests.parity.beds import NAMES, SAMPLING, Bed, assert_close, bed, network, policy_batch, state

GRID = [(name, architecture) for name in NAMES for architecture in ("llama", "gpt2")]


def budgets(batch: PackedBatch) -> list[int]:
    """Token budgets that make micro-batches of one unit, of about two rows, of about half."""
    return [1, int(2.2 * batch.tokens / batch.rows), batch.tokens // 2 + 1]


def check_any_split(name: str, architecture: str) -> None:
    made = bed(name)
    whole = state(architecture, made.heads)
    expected = gradients(whole, made.batch, made.objective, sampling=made.sampling)
    assert max(float(g.abs().max()) for g in expected.values()) > 1e-3
    step = optimiser_step(whole, made.batch, made.objective, sampling=made.sampling)
    for budget in budgets(made.batch):
        cut = state(architecture, made.heads, token_budget=budget)
        assert len(micro_batches(made.batch, budget)) > 1
        assert_close(gradients(cut, made.batch, made.objective, sampling=made.sampling), expected, 1e-5)
        result = optimiser_step(cut, made.batch, made.objective, sampling=made.sampling)
        assert result.metrics.keys() == step.metrics.keys()
        for metric, value in result.metrics.items():
            assert value.value == pytest.approx(step.metrics[metric].value, rel=1e-4, abs=1e-5), metric
        if result.logprobs_T is not None:
            assert result.logprobs_T == pytest.approx(step.logprobs_T, abs=1e-5)


def test_split_batch_is_whole_batch_sampled(grid_seed: int) -> None:
    """Fault A1: micro-batches of one row, two, or all give one gradient, in a sample of the grid."""
    for name, architecture in random.Random(grid_seed).sample(GRID, 8):
        check_any_split(name, architecture)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "architecture"), GRID)
def test_split_batch_is_whole_batch(name: str, architecture: str) -> None:
    """Fault A1: micro-batches of one row, two, or all give one gradient, for every loss and every reduction."""
    check_any_split(name, architecture)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_packed_is_separate(architecture: str) -> None:
    """Fault N4: log-probs, entropy, values and scores of a pack are those of its rows alone."""
    batch = policy_batch()
    both = network(architecture, frozenset({"policy", "value", "reward"}))
    outputs = frozenset({"logprobs", "entropy", "values", "scores", "head_scores", "token_scores"})
    packed = forward(both, batch, outputs=outputs, sampling=SAMPLING)
    for row in range(batch.rows):
        alone = forward(both, batch.select([row]), outputs=outputs, sampling=SAMPLING)
        places = batch.positions_of([row])
        for name in ("logprobs", "entropy", "values", "token_scores"):
            assert packed[name][places] == pytest.approx(alone[name], abs=1e-5)
        assert packed["scores"][row] == pytest.approx(alone["scores"][0], abs=1e-5)
        assert packed["head_scores"][row].tolist() == [packed["scores"][row]] == [packed["token_scores"][places[-1]]]


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_a_packed_row_does_not_see_its_neighbour(architecture: str) -> None:
    """Fault N4: change row A, row B's outputs stay."""
    batch = policy_batch()
    other = concatenate([policy_batch(seed=5).select([0]), batch.select(range(1, batch.rows))])
    both = network(architecture, frozenset({"policy", "value"}))
    mine, theirs = (
        forward(both, part, outputs=frozenset({"logprobs", "values"}), sampling=SAMPLING) for part in (batch, other)
    )
    for name in ("logprobs", "values"):
        after = len(batch.positions_of(range(1, batch.rows)))
        assert mine[name][-after:] == pytest.approx(theirs[name][-after:], abs=1e-6)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
@pytest.mark.parametrize("name", ["grpo-sequence", "joint-token", "process"])
@pytest.mark.parametrize("budget", [1, 25, 10_000])
def test_a_shared_prompt_is_a_repeated_prompt(architecture: str, name: str, budget: int) -> None:
    """Storing the prompt of a group once changes no log-prob, value or gradient, in any micro-batches."""
    repeated, shared = bed(name), bed(name, shared=True)
    assert shared.batch.tokens < repeated.batch.tokens
    state_of = state(architecture, shared.heads, token_budget=budget)
    expected = gradients(state_of, repeated.batch, repeated.objective, sampling=SAMPLING)
    assert_close(gradients(state_of, shared.batch, shared.objective, sampling=SAMPLING), expected, 1e-5)
    of_head = {"policy": {"logprobs", "entropy"}, "value": {"values"}, "reward": {"token_scores"}}
    outputs = frozenset().union(*(of_head[head] for head in shared.heads))
    columns = [
        forward(state_of.network, made.batch, outputs=outputs, sampling=SAMPLING, token_budget=budget)
        for made in (repeated, shared)
    ]
    for output in outputs:
        by_policy = [
            column[output][made.batch.token_columns["policy_mask"]]
            for column, made in zip(columns, (repeated, shared), strict=True)
        ]
        assert by_policy[0] == pytest.approx(by_policy[1], abs=1e-5)


def garbage(made: Bed, value: float) -> PackedBatch:
    """The batch with `value` wherever nothing trains."""
    batch = made.batch
    trains = batch.token_columns["policy_mask"] & (batch.row_T >= 0) & batch.row_columns["valid"][batch.row_T]
    tokens = {
        name: np.where(trains, column, np.float32(value))
        for name, column in batch.token_columns.items()
        if column.dtype == np.float32
    }
    return batch.with_columns(tokens=tokens)


@pytest.mark.parametrize("name", ["ppo-token", "grpo-sequence", "critic-token", "joint-constant", "process"])
def test_garbage_where_nothing_trains_changes_nothing(name: str) -> None:
    """Fault C4: NaN, infinities and huge numbers at masked positions touch no gradient and no metric."""
    made = bed(name)
    expected = gradients(state("llama", made.heads), garbage(made, 0.0), made.objective, sampling=made.sampling)
    metrics = optimiser_step(state("llama", made.heads), garbage(made, 0.0), made.objective, sampling=made.sampling)
    for value in (float("nan"), float("inf"), float("-inf"), 1e30):
        dirty = garbage(made, value)
        found = gradients(state("llama", made.heads), dirty, made.objective, sampling=made.sampling)
        assert all(torch.equal(found[tensor], expected[tensor]) for tensor in expected)
        again = optimiser_step(state("llama", made.heads), dirty, made.objective, sampling=made.sampling)
        assert again.metrics == metrics.metrics


@pytest.mark.parametrize("name", ["ppo-token", "ppo-sequence", "grpo-token", "grpo-sequence", "grpo-constant"])
def test_a_row_without_outcome_is_as_if_it_were_not_there(name: str) -> None:
    """Fault A3: masked rows leave numerator and denominator alike."""
    made = bed(name)
    kept = np.flatnonzero(made.batch.row_columns["valid"])
    if name.startswith("grpo"):
        kept = kept[made.batch.row_columns["finished"][kept]]
    without = gradients(state("llama", made.heads), made.batch.select(kept), made.objective, sampling=SAMPLING)
    with_it = gradients(state("llama", made.heads), made.batch, made.objective, sampling=SAMPLING)
    assert_close(with_it, without, 1e-5)
