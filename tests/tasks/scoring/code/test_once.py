"""Each thing is made once; failures are told to all who wait, and tried again later."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ropewalk.tasks.scoring.code.once import Once


def test_all_who_ask_at_once_wait_for_one_making() -> None:
    once: Once[int] = Once(10)
    made, gate = [], threading.Event()

    def make() -> int:
        gate.wait(60)
        made.append(1)
        return 7

    with ThreadPoolExecutor(8) as threads:
        futures = [threads.submit(once.get, "key", make) for _ in range(8)]
        gate.set()
        assert [future.result() for future in futures] == [7] * 8
    assert made == [1]


def test_the_oldest_is_forgotten_first() -> None:
    once: Once[int] = Once(2)
    made: list[str] = []
    for key in ("a", "b", "c", "b", "a"):
        once.get(key, lambda key=key: made.append(key) or 0)  # type: ignore[misc]
    assert made == ["a", "b", "c", "a"]


def test_what_is_not_to_be_kept_and_exceptions_are_made_again() -> None:
    once: Once[int] = Once(2)
    answers = iter([1, 2])
    assert once.get("a", lambda: next(answers), keep=lambda value: value > 1) == 1
    assert once.get("a", lambda: next(answers), keep=lambda value: value > 1) == 2
    assert once.get("a", lambda: 3) == 2
    with pytest.raises(KeyError):
        once.get("b", lambda: {}["b"])
    assert once.get("b", lambda: 5) == 5
