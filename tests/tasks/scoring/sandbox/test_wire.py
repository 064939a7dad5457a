"""Plain data come over as they are; anything else is a WireError, and never more than that."""

import math
from collections import Counter, OrderedDict, defaultdict, namedtuple
from contextlib import suppress
from enum import IntEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.tasks.scoring.sandbox.inside.wire import (
    MAX_DEPTH,
    Handle,
    Items,
    Keeper,
    Pairs,
    WireError,
    decode,
    encode,
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text(alphabet=st.characters(exclude_categories=()))
    | st.binary()
)
HASHABLE = st.recursive(SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(HASHABLE, inner, max_size=3)
        | st.sets(HASHABLE, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_decoding_gives_back_what_was_encoded_with_its_types(value: object) -> None:
    """repr, not ==: it tells -0.0 from 0.0, True from 1, and NaN from other numbers."""
    found = decode(encode(value))
    if not _has_set(value):
        assert repr(found) == repr(value)
    assert encode(found) == encode(value) or _has_set(value)


def _has_set(value: object) -> bool:
    if isinstance(value, set | frozenset):
        return True
    if isinstance(value, dict):
        return any(map(_has_set, [*value, *value.values()]))
    return isinstance(value, list | tuple) and any(map(_has_set, value))


@given(st.sets(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.tuples(inner, inner)), max_size=5))
def test_sets_keep_their_items(items: set[object]) -> None:
    assert decode(encode(items)) == items
    assert decode(encode(frozenset(items))) == frozenset(items)


@given(st.binary(max_size=60))
def test_any_bytes_decode_or_raise_a_wire_error(data: bytes) -> None:
    for plain in (True, False):
        with suppress(WireError):
            decode(data, plain=plain)


@given(VALUES, st.data())
def test_broken_bytes_decode_or_raise_a_wire_error(value: object, data: st.DataObject) -> None:
    whole = bytearray(encode(value))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    for text in (bytes(whole), bytes(whole[:place]), bytes(whole) + b"N"):
        with suppress(WireError):
            decode(text, plain=False)


class Colour(IntEnum):
    RED = 3


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class Shuffling(list):  # type: ignore[type-arg]
    def __iter__(self) -> object:  # type: ignore[override]
        return iter([99])


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Colour.RED, 3),
        (Liar(4), 4),
        (Shuffling([1]), [1]),
        (Point(1, 2), (1, 2)),
        (OrderedDict(a=1), {"a": 1}),
        (Counter("aab"), {"a": 2, "b": 1}),
        (defaultdict(list, {"k": [1]}), {"k": [1]}),
        (bytearray(b"ab"), b"ab"),
    ],
)
def test_subclasses_lose_what_they_add(value: object, plain: object) -> None:
    found = decode(encode(value))
    assert type(found) is type(plain) and repr(found) == repr(plain)


@pytest.mark.parametrize("value", [object(), iter([]), range(3), print, int, {1: object()}, [[lambda: 0]]])
def test_what_is_not_plain_is_refused_or_kept(value: object) -> None:
    with pytest.raises(WireError, match="no plain data"):
        encode(value)
    keeper = Keeper()
    decode(encode(value, keeper))
    assert len(keeper.objects) == 1


def test_a_handle_is_a_number_and_a_name() -> None:
    keeper = Keeper()
    (found,) = decode(encode([print], keeper))
    assert isinstance(found, Handle) and keeper.objects[found.number] is print
    assert found.type_name == "builtin_function_or_method"


def test_depth_is_bounded_both_ways() -> None:
    nested: list[object] = []
    for _ in range(MAX_DEPTH - 1):
        nested = [nested]
    assert decode(encode(nested)) == nested
    for _ in range(5):
        nested = [nested]
    with pytest.raises(WireError, match="nested"):
        encode(nested)
    with pytest.raises(WireError, match="nested"):
        decode(b"l" * 10_000)
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(WireError, match="nested"):
        encode(circle)


def test_dicts_and_sets_can_stay_lists_so_that_colliding_keys_cost_nothing() -> None:
    step = 2**61 - 1
    data = encode({step * n: None for n in range(2)})
    pairs = decode(data, plain=False)
    assert isinstance(pairs, Pairs) and pairs == [(0, None), (step, None)]
    assert isinstance(decode(encode({1}), plain=False), Items)
    many = b"d" + b"".join(b"i%x;N" % (step * n) for n in range(50_000)) + b"e"
    assert len(decode(many, plain=False)) == 50_000


def test_large_numbers_and_texts_are_quick() -> None:
    assert decode(encode(7**400_000)) == 7**400_000
    assert math.isinf(decode(encode(float("inf"))))
    text = "é\ud800" * 100_000
    assert decode(encode(text)) == text
