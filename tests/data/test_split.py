import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.data.split import is_held_out, split, split_key
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Demonstration, Document, PreferencePair, Prompt

PROMPTS = [Prompt(f"p{i}", f"q{i}") for i in range(1000)]

PINNED = [2, 24, 32, 33, 36]


@given(st.integers(0, 2**32), st.integers(200, 1000))
def test_a_row_keeps_its_side_in_any_order_and_size(seed: int, size: int) -> None:
    train, held = split(PROMPTS, 0.2)
    some = random.Random(seed).sample(PROMPTS, size)
    some_train, some_held = split(some, 0.2)
    assert {p.id for p in some_train} <= {p.id for p in train}
    assert {p.id for p in some_held} <= {p.id for p in held}
    assert [p for p in some if p in some_train] == some_train, "the given order is kept"
    assert len(some_train) + len(some_held) == size


def test_a_larger_share_holds_out_a_superset() -> None:
    held = [{p.id for p in split(PROMPTS, share)[1]} for share in (0.05, 0.1, 0.5)]
    assert held[0] < held[1] < held[2]
    for share, chosen in zip((0.05, 0.1, 0.5), held, strict=True):
        assert abs(len(chosen) - 1000 * share) < 4 * math.sqrt(1000 * share * (1 - share))


def test_rows_that_ask_the_same_never_part() -> None:
    rows = [PreferencePair(f"{i}-{k}", f"q{i}", "a", f"b{k}") for i in range(50) for k in range(4)]
    train, held = split(rows, 0.3)
    assert not {r.dialogue for r in train} & {r.dialogue for r in held}
    demonstration = Demonstration("other", "q7", "x")
    assert split_key(demonstration) == split_key(rows[7 * 4])
    assert split_key(Document("d", "text")) == "d"


def test_the_split_stays_as_it_is() -> None:
    """Pinned: a change here would mix training rows of old runs into the held-out rows of new ones."""
    assert [i for i in range(40) if is_held_out(f"p{i}", 0.1)] == PINNED
    assert [i for i in range(40) if is_held_out(f"p{i}", 0.1, salt="x")] != PINNED


def test_an_empty_side_is_an_error() -> None:
    assert split(PROMPTS[:1], 0.0) == (PROMPTS[:1], [])
    with pytest.raises(InputError, match="none are left to hold out"):
        split([p for p in PROMPTS if not is_held_out(p.id, 0.1)], 0.1)
    with pytest.raises(InputError, match="none are left to train on"):
        split([p for p in PROMPTS if is_held_out(p.id, 0.1)], 0.1)
    with pytest.raises(InputError, match="at least 0 and below 1"):
        split(PROMPTS, 1.0)
