"""Decoding is priced by bytes: the reached share of the peak follows from the batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ropewalk.plan.memory import MIXED, kv_bytes
from ropewalk.planner.price.decoding import (
    Reach,
    balance,
    checked_batch,
    decode_mfu,
    replica,
    step_bytes,
    step_seconds,
)
from ropewalk.records.errors import InputError
from tests.planner.price.pricing import A100, LLAMA_7B, MIXTURE, SMALL

CONTEXT = 128 + 896 / 2


@pytest.mark.parametrize(("batch", "percent"), [(1, 0.64), (8, 5.04), (32, 19.2), (128, 64.2)])
def test_the_known_shares_of_7_6_b_on_an_a100(batch: int, percent: float) -> None:
    assert 100 * decode_mfu(SMALL, A100, batch=batch, context=CONTEXT) == pytest.approx(percent, rel=0.01)


def test_the_balance_of_an_a100() -> None:
    assert balance(A100) == 156


@given(some.integers(1, 512), some.floats(1, 8192))
def test_a_larger_batch_never_costs_more_per_token_and_a_longer_context_never_less(batch: int, context: float) -> None:
    for shape in (SMALL, MIXTURE):
        now = step_seconds(shape, A100, batch=batch, context=context)
        assert step_seconds(shape, A100, batch=2 * batch, context=context) <= 2 * now * (1 + 1e-12)
        assert step_seconds(shape, A100, batch=batch, context=2 * context) >= now


@given(some.integers(1, 512), some.floats(0.1, 1.0))
def test_a_dense_step_reads_weights_once_and_every_cache(batch: int, reach: float) -> None:
    expected = 2 * LLAMA_7B.parameters + batch * 100 * kv_bytes(LLAMA_7B, 1, MIXED)
    assert step_bytes(LLAMA_7B, batch=batch, context=100) == expected
    ideal = step_seconds(LLAMA_7B, A100, batch=batch, context=100)
    assert step_seconds(LLAMA_7B, A100, batch=batch, context=100, reach=Reach(reach, reach)) == pytest.approx(
        ideal / reach
    )
    assert step_seconds(LLAMA_7B, A100, batch=batch, context=100, gpus=4) == pytest.approx(ideal / 4)


def test_a_mixture_reads_its_active_experts_for_one_token_and_all_for_many() -> None:
    alone = step_bytes(MIXTURE, batch=1, context=0)
    assert alone == pytest.approx(2 * MIXTURE.active_parameters)
    assert step_bytes(MIXTURE, batch=10_000, context=0) == pytest.approx(2 * MIXTURE.parameters)


def test_a_replica_takes_what_fits() -> None:
    found = replica(SMALL, A100, batch=128, longest=1024)
    assert (found.gpus, found.batch) == (1, 128)
    long = replica(LLAMA_7B, A100, batch=128, longest=4096)
    assert long.batch == long.batch_that_fits < 128
    cache = kv_bytes(LLAMA_7B, 4096, MIXED)
    usable = 0.92 * 80e9 - 2 * LLAMA_7B.parameters
    assert long.batch * cache <= usable < (long.batch + 1) * cache


def test_no_sequence_is_no_batch() -> None:
    with pytest.raises(InputError, match="at least 1 sequence"):
        checked_batch(0)
