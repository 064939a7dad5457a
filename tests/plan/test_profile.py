"""Profiles: exact where measured, between its neighbours elsewhere, honest about how far; files that are checked."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.plan.profile import FORMAT, REACH, Entry, Grid, ProfileTable, entry, fingerprint
from ropewalk.plan.sizes import shape_of
from ropewalk.records.errors import InputError

TOKENS, CONTEXT = (1, 8, 64, 512), (128, 1024, 4096)


def time(tokens: float, context: float) -> float:
    return 0.01 + 0.001 * tokens + 1e-6 * tokens * context + 2e-6 * context


ROWS = [(t, c, time(t, c)) for t in TOKENS for c in CONTEXT]
ENTRY = entry(shape_of("7b"), "A100", "bf16", "generate", rows=ROWS)
GRID = ENTRY.grid()


@pytest.mark.parametrize(("tokens", "context", "seconds"), ROWS)
def test_exact_at_what_was_measured(tokens: int, context: int, seconds: float) -> None:
    reading = GRID.at(tokens, context)
    assert (reading.seconds, reading.basis) == (seconds, "measured")


@given(st.floats(1, 512), st.floats(128, 4096))
def test_between_the_measurements_around(tokens: float, context: float) -> None:
    """Within the bounds of the four neighbours; exact for what is linear in each of the two."""
    around = [
        seconds for t, c, seconds in ROWS if t in neighbours(TOKENS, tokens) and c in neighbours(CONTEXT, context)
    ]
    found = GRID.at(tokens, context).seconds
    assert min(around) * (1 - 1e-12) <= found <= max(around) * (1 + 1e-12)
    assert found == pytest.approx(time(tokens, context))


def neighbours(sizes: tuple[int, ...], size: float) -> set[int]:
    return {max(s for s in sizes if s <= size), min(s for s in sizes if s >= size)}


@given(st.floats(0, 5000), st.floats(0, 5000), st.floats(0, 20_000), st.floats(0, 20_000))
def test_never_faster_for_more(a: float, b: float, c: float, d: float) -> None:
    low, high = GRID.at(min(a, b), min(c, d)), GRID.at(max(a, b), max(c, d))
    assert low.seconds <= high.seconds * (1 + 1e-12)


@pytest.mark.parametrize(
    ("tokens", "context", "basis"),
    [
        (10, 128, "interpolated"),
        (512 * REACH, 4096, "interpolated"),
        (512 * REACH + 1, 4096, "extrapolated"),
        (64, 4096 * REACH + 1, "extrapolated"),
        (64, 128 / REACH, "interpolated"),
        (64, 128 / REACH - 1, "extrapolated"),
        (0.2, 1024, "extrapolated"),
    ],
)
def test_far_readings_are_extrapolated(tokens: float, context: float, basis: str) -> None:
    assert GRID.at(tokens, context).basis == basis


def test_beyond_the_ends() -> None:
    """Above the last slope goes on; below the smallest measurement stands; a single one scales with the tokens."""
    assert GRID.at(1024, 1024).seconds == pytest.approx(time(1024, 1024))
    assert GRID.at(0.5, 1).seconds == time(1, 128)
    one = Grid((100,), (10,), ((2.0,),))
    assert [one.at(t, c).seconds for t, c in ((50, 10), (100, 99), (300, 10))] == [2.0, 2.0, 6.0]


def test_a_file_comes_back_as_it_was() -> None:
    table = ProfileTable((ENTRY, entry(shape_of("7b"), "A100", "bf16", "train", tp=2, rows=ROWS)), "a bench")
    back = ProfileTable.from_json(table.to_json())
    assert (back.entries, back.source) == (table.entries, table.source)
    assert json.loads(table.to_json())["format"] == FORMAT
    name = fingerprint(shape_of("7b"), "A100", "bf16")
    assert back.grid(name, "generate", 1) == GRID
    assert back.grid(name, "generate", 2) is None and back.grid(name, "forward", 1) is None


def test_fingerprints_tell_models_devices_and_dtypes_apart() -> None:
    shape = shape_of("7b")
    names = {
        fingerprint(shape, "A100", "bf16"),
        fingerprint(shape, "H100", "bf16"),
        fingerprint(shape, "A100", "fp32"),
        fingerprint(shape.with_scalar_head(), "A100", "bf16"),
    }
    assert len(names) == 4
    assert fingerprint(shape_of("7b"), "A100", "bf16") in names


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ((), "at least one measurement"),
        (((1, 1, 0.0),), "seconds > 0"),
        (((0, 1, 1.0),), "tokens >= 1"),
        (((1, 1, float("nan")),), "seconds > 0"),
        (((1, 1, 1.0), (1, 1, 2.0)), "twice"),
        (((1, 1, 1.0), (1, 2, 1.0), (2, 1, 1.0)), r"lacks \(tokens, context\) = \(2, 2\)"),
    ],
)
def test_measurements_that_cannot_be_are_refused(rows: tuple[tuple[int, int, float], ...], fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        Entry("x", "generate", 1, rows)


def test_kinds_and_sizes_are_checked() -> None:
    with pytest.raises(InputError, match="generate, forward, train"):
        Entry("x", "copy", 1, ((1, 1, 1.0),))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="tp of at least 1"):
        Entry("x", "train", 0, ((1, 1, 1.0),))
    with pytest.raises(InputError, match="two entries"):
        ProfileTable((ENTRY, ENTRY))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "not JSON"),
        ("[]", "not of format"),
        ('{"format": 99, "entries": []}', "not of format"),
        ('{"format": 1}', "no list of entries"),
        ('{"format": 1, "entries": [{"kind": "train"}]}', "needs fingerprint"),
        ('{"format": 1, "entries": [3]}', "needs fingerprint"),
    ],
)
def test_files_that_are_no_profile_are_refused(text: str, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        ProfileTable.from_json(text)
