import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.data.ledger import DataLedger, epoch_order, fingerprint
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt

GRID = list(product((1, 2, 3, 4, 7), (1, 2, 3, 4, 5, 6, 9, 20)))

PINNED = [0, 2, 1, 5, 4, 3]


def take(ledger: DataLedger, steps: int, n: int) -> tuple[list[int], DataLedger]:
    taken: list[int] = []
    for _ in range(steps):
        indices, ledger = ledger.next(n)
        assert len(indices) == n
        taken += indices.tolist()
    return taken, ledger


@pytest.mark.parametrize(("size", "n"), GRID)
def test_every_row_comes_exactly_once_an_epoch(size: int, n: int) -> None:
    """Fault E5: nothing over-used, nothing left out, no last chunk lost."""
    steps = -(-4 * size // n)
    taken, ledger = take(DataLedger(size, 5, "f"), steps, n)
    for epoch in range(len(taken) // size):
        assert sorted(taken[epoch * size : (epoch + 1) * size]) == list(range(size))
    rest = taken[len(taken) // size * size :]
    assert len(set(rest)) == len(rest)
    assert (ledger.consumed, ledger.epoch) == (steps * n, steps * n // size)


@pytest.mark.parametrize(("size", "n"), GRID)
def test_stopping_anywhere_and_resuming_changes_nothing(size: int, n: int) -> None:
    """Fault I1: also exactly at the end of an epoch."""
    steps = max(8, -(-3 * size // n))
    whole, last = take(DataLedger(size, 5, "f"), steps, n)
    for stop in range(steps + 1):
        before, ledger = take(DataLedger(size, 5, "f"), stop, n)
        state = json.loads(json.dumps(ledger.state()))
        after, resumed = take(DataLedger.resume(state, "f"), steps - stop, n)
        assert before + after == whole and resumed == last


@given(st.lists(st.integers(0, 12), max_size=10), st.integers(1, 6), st.integers(0, 2**63))
def test_the_order_does_not_depend_on_how_much_is_asked_at_a_time(chunks: list[int], size: int, seed: int) -> None:
    ledger, taken = DataLedger(size, seed, "f"), []
    for n in chunks:
        indices, ledger = ledger.next(n)
        taken += indices.tolist()
    assert taken == DataLedger(size, seed, "f").next(sum(chunks))[0].tolist()


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = {tuple(epoch_order(20, seed, epoch)) for seed in (0, 1, -1, 2**64 + 5) for epoch in range(4)}
    assert len(orders) == 16
    assert epoch_order(6, 0, 0).tolist() == PINNED, "pinned: runs resume in the order they began"
    np.random.seed(0)
    before = np.random.get_state()[1].tolist()
    epoch_order(6, 0, 1)
    assert np.random.get_state()[1].tolist() == before


@pytest.mark.parametrize("other", [3, 50])
def test_another_dataset_is_refused_with_both_fingerprints(other: int) -> None:
    """Fault I4."""
    rows = [Prompt(f"p{i}", f"q{i}") for i in range(20)]
    others = [Prompt(f"p{i}", f"r{i}") for i in range(other)]
    _, ledger = DataLedger(20, 0, fingerprint(rows)).next(5)
    with pytest.raises(InputError) as caught:
        DataLedger.resume(ledger.state(), fingerprint(others))
    assert fingerprint(rows) in str(caught.value) and fingerprint(others) in str(caught.value)
    assert DataLedger.resume(ledger.state(), fingerprint(rows)) == ledger


def test_the_fingerprint_hangs_on_content_order_filter_and_template() -> None:
    """Fault I4."""
    rows = [Prompt(f"p{i}", f"q{i}") for i in range(5)]
    variants = [
        fingerprint(rows),
        fingerprint(rows[::-1]),
        fingerprint(rows[:-1]),
        fingerprint(rows, "template"),
        fingerprint(rows, "temp", "late"),
        fingerprint([*rows[:-1], Prompt("p4", "q4", gold="1")]),
        fingerprint([1, 2, 3]),
        fingerprint([12, 3]),
    ]
    assert len(set(variants)) == len(variants)
    assert fingerprint(rows) == fingerprint(list(rows))


def test_a_ledger_that_cannot_be() -> None:
    for size, consumed in ((0, 0), (3, -1)):
        with pytest.raises(InputError):
            DataLedger(size, 0, "f", consumed)
    with pytest.raises(InputError, match="cannot take -1"):
        DataLedger(3, 0, "f").next(-1)
    with pytest.raises(InputError, match="version 9"):
        DataLedger.resume({**DataLedger(3, 0, "f").state(), "version": 9}, "f")
