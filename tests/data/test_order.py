"""Prompts by part and difficulty: each exactly once an epoch of its source, by the shares that were asked for."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.data.config import Curriculum, Phase
from ropewalk.data.ledger import DataLedger, fingerprint
from ropewalk.data.order import PromptOrder, prompt_order
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt

BUCKETS = ("easy", "medium", "hard")


def prompts(part: str, count: int) -> list[Prompt]:
    return [
        Prompt(f"{part}/{n}", f"{part} {n}", info={"task": part, "difficulty": BUCKETS[n % 3]}) for n in range(count)
    ]


def ledger(some: Any) -> DataLedger:
    return DataLedger(len(some), 3, fingerprint(some))


def order(sizes: dict[str, int], weights: dict[str, float], curriculum: Curriculum | None = None) -> PromptOrder:
    return prompt_order([p for part, n in sizes.items() for p in prompts(part, n)], weights, curriculum, ledger)


@given(
    sizes=st.dictionaries(st.sampled_from("abc"), st.integers(3, 9), min_size=1),
    asked=st.lists(st.integers(0, 7), max_size=30),
    stop=st.integers(0, 30),
)
def test_every_prompt_comes_once_an_epoch_of_its_source_through_any_stop(
    sizes: dict[str, int], asked: list[int], stop: int
) -> None:
    """Fault I1: under weights that change, however much is asked for, and resumed from JSON at any place."""
    made = order(sizes, dict.fromkeys(sizes, 1.0), Curriculum())
    place, drawn = made.start, []
    for number, count in enumerate(asked):
        if number == stop:
            place = made.at(place.state())
        taken, place = made.next(place, count, number / len(asked))
        drawn += taken
    for members in made.members.values():
        times = Counter(n for n in drawn if n in members)
        assert max((times[n] for n in members), default=0) - min(times[n] for n in members) <= 1


def test_shares_follow_weights_and_the_curriculum() -> None:
    """A part's weight is its share whatever its size; within it a bucket has size × factor."""
    curriculum = Curriculum(phases=(Phase(at=0, hard=0), Phase(at=1, easy=0, medium=1, hard=2)))
    made = order({"a": 3, "b": 30}, {"a": 3.0, "b": 1.0}, curriculum)
    assert made.weights.at(0) == {
        "a/easy": 0.375,
        "a/medium": 0.375,
        "a/hard": 0,
        "b/easy": 0.125,
        "b/medium": 0.125,
        "b/hard": 0,
    }
    assert made.weights.at(1) == pytest.approx(
        {"a/easy": 0, "a/medium": 0.25, "a/hard": 0.5, "b/easy": 0, "b/medium": 1 / 12, "b/hard": 1 / 6}
    )
    taken, _ = made.next(made.start, 40, 0.0)
    assert Counter("a" if n < 3 else "b" for n in taken) == {"a": 30, "b": 10}


def test_one_source_is_the_order_of_its_ledger() -> None:
    """Without parts and without a curriculum nothing is changed."""
    plain = [Prompt(str(n), str(n)) for n in range(5)]
    made = prompt_order(plain, {}, None, ledger)
    assert list(made.members) == ["all"]
    expected, _ = ledger(plain).next(13)
    assert made.next(made.start, 13, 0.5)[0] == expected.tolist()
    assert made.first(7) == [0, 1, 2, 3, 4, 0, 1]


def test_what_is_measured_first_is_of_every_source() -> None:
    made = order({"a": 2, "b": 3}, {"a": 1.0, "b": 1.0})
    assert made.first(3) == [0, 1, 0, 2, 3, 4]
    split = order({"a": 4, "b": 3}, {"a": 1.0, "b": 1.0}, Curriculum())
    assert split.first(5) == [0, 1, 2, 3, 1, 4, 5, 6, 4, 5], "of each difficulty in turn, each by itself"


def test_other_prompts_or_parts_are_refused_on_resume() -> None:
    """Fault I4."""
    saved = order({"a": 3, "b": 3}, {"a": 1.0, "b": 1.0}).start.state()
    with pytest.raises(InputError, match="fingerprint"):
        order({"a": 3, "b": 4}, {"a": 1.0, "b": 1.0}).at(saved)
    with pytest.raises(InputError, match="mixed a, b"):
        order({"a": 3}, {"a": 1.0}).at(saved)


def test_a_curriculum_needs_to_know_every_difficulty() -> None:
    some = [*prompts("a", 3), Prompt("x", "x", info={"difficulty": "harder"}), Prompt("y", "y")]
    with pytest.raises(InputError, match="2 of 5 have none, the first is x"):
        prompt_order(some, {}, Curriculum(), ledger)


def test_a_part_that_would_never_come_is_refused() -> None:
    with pytest.raises(InputError, match="part 'b' has no prompt left"):
        order({"a": 3}, {"a": 1.0, "b": 1.0})
    only_easy = Curriculum(phases=(Phase(at=0), Phase(at=0.5, easy=0, medium=0), Phase(at=1)))
    with pytest.raises(
        InputError, match="part 'b': at 50% of the run no prompt has a factor above 0: there are 1 easy"
    ):
        order({"a": 3, "b": 1}, {"a": 1.0, "b": 1.0}, only_easy)
