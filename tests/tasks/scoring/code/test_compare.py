"""Output and values are compared outside, exactly but for what is stated."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.prompt import Json
from ropewalk.tasks.scoring.code.compare import passed, same_output, same_value
from ropewalk.tasks.scoring.code.suite import Output, Test, Value
from ropewalk.tasks.scoring.sandbox.inside.wire import decode, encode
from ropewalk.tasks.scoring.sandbox.program import Finding, Script

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def over(value: object) -> object:
    """The value as it arrives from the sandbox."""
    return decode(encode(value), plain=False)


VALUES: list[tuple[object, Json, bool]] = [
    (1, 1, True), (1, 1.0, True), (1.0, 1, True), (True, 1, False), (1, True, False), (True, True, True),
    (None, None, True), (None, False, False), (0, False, False), (0, None, False), ("1", 1, False), (1, "1", False),
    (0.1 + 0.2, 0.3, True), (0.3001, 0.3, False), (10**20 + 1, 10**20, False), (10**400, 1.5, False),
    (float("nan"), 0.5, False), (float("inf"), 1e308, False), (-0.0, 0, True), (complex(1, 0), 1, False),
    ((1, 2), [1, 2], True), ([1, 2], [1, 2], True), ([2, 1], [1, 2], False), ([1], [1, 1], False),
    ([], {}, False),
    ({1, 2}, [1, 2], False), ({"a": 1}, {"a": 1}, True), ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    ({"a": 1}, {"a": 2}, False),
    ({1: 1}, {"1": 1}, False), ({}, {}, True), ({}, [], False), ([("a", 1)], {"a": 1}, False),
    (b"a", "a", False), ("é", "é", True), ([[1, (2,)], {"k": [3]}], [[1, [2]], {"k": [3]}], True),
]  # fmt: skip


@pytest.mark.parametrize(("got", "expected", "same"), VALUES)
def test_values(got: object, expected: Json, same: bool) -> None:
    assert same_value(over(got), Value(expected)) is same


@given(JSON)
def test_every_json_value_equals_itself(value: Json) -> None:
    assert same_value(over(value), Value(value))


@given(JSON, JSON)
def test_what_is_equal_here_is_nearly_equal_to_python(a: Json, b: Json) -> None:
    if same_value(over(a), Value(b, tolerance=0.0)):
        assert a == b


@given(st.lists(st.integers(-3, 3) | st.text(max_size=1), max_size=6), st.randoms(use_true_random=False))
def test_any_order_means_any_order(items: list[Json], random: object) -> None:
    mixed = list(items)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert same_value(over(mixed), Value(items, unordered=True))
    assert not same_value(over([*mixed, "more"]), Value(items, unordered=True))
    assert not items or not same_value(over([*mixed[1:], "other"]), Value(items, unordered=True))


def test_a_set_answers_a_list_in_any_order() -> None:
    assert same_value(over({3, 1, 2}), Value([1, 2, 3], unordered=True))
    assert not same_value(over({1, 2}), Value([1, 2, 2], unordered=True))


OUTPUTS = [
    ("5\n", Output("5"), True), ("5", Output("5\n"), True), ("5  \n\n", Output("5"), True), (" 5", Output("5"), False),
    ("5\n6", Output("5 6"), False), ("", Output(""), True), ("\n", Output(""), True),
    ("5\n", Output("5", exact=True), False),
    ("5\n", Output("5\n", exact=True), True), ("0.33333", Output("0.3333", tolerance=1e-3), True),
    ("0.34", Output("0.3333", tolerance=1e-3), False), ("x 1.0", Output("x 1", tolerance=1e-6), True),
    ("y 1.0", Output("x 1", tolerance=1e-6), False), ("nan", Output("1", tolerance=1e9), False),
    ("nan", Output("nan", tolerance=1e-6), True), ("1 2", Output("1", tolerance=1), False),
    ("1\n2", Output("1", tolerance=1), False), ("9" * 1000, Output("1", tolerance=1), False),
]  # fmt: skip


@pytest.mark.parametrize(("got", "expected", "same"), OUTPUTS)
def test_outputs(got: str, expected: Output, same: bool) -> None:
    assert same_output(got, expected) is same


def test_only_a_program_that_was_done_passes() -> None:
    test = Test(Script(""), Output("5"))
    assert passed(test, Finding("done", stdout="5\n"))
    for status in ("raised", "timeout", "crashed", "output", "memory", "files", "not_reached", "refused", "broken"):
        assert not passed(test, Finding(status, stdout="5\n"))  # type: ignore[arg-type]


def test_a_tolerance_is_absolute_or_relative() -> None:
    assert same_value(1e12 + 1, Value(1e12, tolerance=1e-9))
    assert same_value(1e-12, Value(0.0, tolerance=1e-9))
    assert not same_value(math.pi, Value(3.14, tolerance=1e-4))
