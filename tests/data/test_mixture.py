import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.data.ledger import DataLedger
from ropewalk.data.mixture import Mixture
from ropewalk.records.errors import InputError

sized = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 7), min_size=1)
scales = st.integers(0, 9)


def mixed(sizes: dict[str, int]) -> Mixture:
    return Mixture.start({name: DataLedger(size, 3, name) for name, size in sizes.items()})


def taken(mixture: Mixture, chunks: list[int], weights: dict[str, float]) -> tuple[list[tuple[str, int]], Mixture]:
    rows: list[tuple[str, int]] = []
    for n in chunks:
        found, mixture = mixture.next(n, weights)
        rows += found
    return rows, mixture


@st.composite
def mixtures(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, float]]:
    sizes = draw(sized)
    weights = {name: float(draw(scales)) for name in sizes}
    if not sum(weights.values()):
        weights[next(iter(weights))] = 1.0
    return sizes, weights


@given(mixtures(), st.integers(0, 60))
def test_every_row_comes_once_an_epoch_of_its_source_in_its_ledgers_order(made: Any, n: int) -> None:
    """Fault E5, whatever the weights."""
    sizes, weights = made
    rows, after = mixed(sizes).next(n, weights)
    assert len(rows) == n
    for name, size in sizes.items():
        own = [number for source, number in rows if source == name]
        assert own == DataLedger(size, 3, name).next(len(own))[0].tolist()
        for epoch in range(len(own) // size):
            assert sorted(own[epoch * size : (epoch + 1) * size]) == list(range(size))
        assert after.epochs[name] == len(own) / size


@given(mixtures(), st.integers(1, 200))
def test_sources_come_as_often_as_their_weights_say_at_every_turn(made: Any, n: int) -> None:
    sizes, weights = made
    rows, _ = mixed(sizes).next(n, weights)
    total = sum(weights.values())
    for name in sizes:
        count = 0
        for turn, (source, _) in enumerate(rows, 1):
            count += source == name
            assert abs(count - turn * weights[name] / total) < len(sizes) + 1e-6
        assert weights[name] or not count


@given(mixtures(), st.lists(st.integers(0, 9), max_size=8))
def test_stopping_anywhere_and_asking_in_any_pieces_changes_nothing(made: Any, chunks: list[int]) -> None:
    """Fault I1: bit-equal through JSON."""
    sizes, weights = made
    whole, last = mixed(sizes).next(sum(chunks), weights)
    assert taken(mixed(sizes), chunks, weights) == (whole, last)
    for stop in range(len(chunks) + 1):
        before, mixture = taken(mixed(sizes), chunks[:stop], weights)
        state = json.loads(json.dumps(mixture.state()))
        resumed = Mixture.resume(state, {name: name for name in sizes})
        after, end = taken(resumed, chunks[stop:], weights)
        assert before + after == whole and end == last and end.state() == last.state()


@given(mixtures())
def test_only_the_ratio_of_weights_matters(made: Any) -> None:
    sizes, weights = made
    even = {name: 2.0 ** round(weight) for name, weight in weights.items()}
    larger = {name: 4 * weight for name, weight in even.items()}
    assert mixed(sizes).next(50, even)[0] == mixed(sizes).next(50, larger)[0]


def test_weights_may_change_on_the_way_and_credit_is_not_lost() -> None:
    mixture = mixed({"easy": 4, "hard": 3})
    first, mixture = mixture.next(6, {"easy": 2, "hard": 1})
    none, mixture = mixture.next(3, {"easy": 0, "hard": 1})
    last, mixture = mixture.next(6, {"easy": 1, "hard": 2})
    assert [sum(source == "hard" for source, _ in rows) for rows in (first, none, last)] == [2, 3, 4]
    easy = [number for source, number in first + last if source == "easy"]
    assert easy == DataLedger(4, 3, "easy").next(6)[0].tolist(), "the epoch goes on where it stood"
    assert mixture.epochs == {"easy": 1.5, "hard": 3.0}


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"a": 1}, "no other: look at b"),
        ({"a": 1, "b": 1, "c": 1}, "look at c"),
        ({"a": 0, "b": 0}, "all weights of a mixture are 0"),
        ({"a": -1, "b": 2}, "not below 0"),
        ({"a": float("nan"), "b": 2}, "finite"),
    ],
)
def test_weights_that_cannot_be(weights: dict[str, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        mixed({"a": 2, "b": 2}).next(1, weights)


def test_other_data_are_refused() -> None:
    """Fault I4."""
    _, mixture = mixed({"a": 2, "b": 3}).next(3, {"a": 1, "b": 1})
    with pytest.raises(InputError, match="mixed a, b and cannot resume on a: give it the same sources"):
        Mixture.resume(mixture.state(), {"a": "a"})
    with pytest.raises(InputError, match="cannot resume on data with fingerprint other"):
        Mixture.resume(mixture.state(), {"a": "a", "b": "other"})
    with pytest.raises(InputError, match="version 9"):
        Mixture.resume({**mixture.state(), "version": 9}, {"a": "a", "b": "b"})
    with pytest.raises(InputError, match="cannot take -1"):
        mixture.next(-1, {"a": 1, "b": 1})
    with pytest.raises(InputError, match="at least one source"):
        Mixture.start({})
