"""The conformance table, in both directions and wherever code can run."""

import asyncio
import multiprocessing
import threading
from collections import Counter
from pathlib import Path

import pytest

from ropewalk.tasks.scoring.maths.policy import Policy
from ropewalk.tasks.scoring.maths.scorer import compare, grade
from tests.tasks.scoring.maths.rows import Row, disagreements, rows

ROWS = rows()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.first} | {row.second}"[:60])
def test_the_verdict_is_the_same_from_both_sides(row: Row) -> None:
    assert compare(row.first, row.second, row.policy) == row.verdict
    assert compare(row.second, row.first, row.policy) == row.verdict


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.first} | {row.second}"[:60])
def test_a_box_is_read_like_the_bare_answer(row: Row) -> None:
    """Faults G2, G6, G7: one grammar wherever an answer stands."""
    if compare(row.second, row.second, row.policy) == "unparsed" or row.second.count("{") != row.second.count("}"):
        return
    boxed = f"So \\boxed{{{row.first}}} it is."
    balanced = row.first.count("{") == row.first.count("}")
    assert grade(boxed, row.second, row.policy) == (row.verdict if balanced else "unparsed")


def test_every_answer_equals_itself_or_is_unparsed() -> None:
    texts = {(text, row.policy) for row in ROWS for text in (row.first, row.second)}
    found = {(text, policy): compare(text, text, policy) for text, policy in texts}
    assert "different" not in found.values()
    parsed = {(text, row.policy) for row in ROWS if row.verdict != "unparsed" for text in row[:2]}
    assert {found[text] for text in parsed} == {"equal"}


def test_the_table_is_large_and_has_all_three_verdicts() -> None:
    counts = Counter(row.verdict for row in ROWS)
    assert len({row[:2] for row in ROWS}) >= 400
    assert counts["equal"] >= 200
    assert counts["different"] >= 100
    assert counts["unparsed"] >= 40


def _in_thread() -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = [("not", "run", "")]
    thread = threading.Thread(target=lambda: found.__setitem__(slice(None), disagreements()))
    thread.start()
    thread.join()
    return found


def _in_small_thread() -> list[tuple[str, str, str]]:
    """A thread with the smallest stack there can be."""
    before = threading.stack_size(256 * 1024)
    try:
        return _in_thread()
    finally:
        threading.stack_size(before)


def _in_task() -> list[tuple[str, str, str]]:
    async def run() -> list[tuple[str, str, str]]:
        return await asyncio.create_task(asyncio.to_thread(disagreements)) + await asyncio.create_task(plainly())

    async def plainly() -> list[tuple[str, str, str]]:
        return disagreements()

    return asyncio.run(run())


def _in_process() -> list[tuple[str, str, str]]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(disagreements)


@pytest.mark.parametrize("where", [disagreements, _in_thread, _in_small_thread, _in_task, _in_process])
def test_the_table_holds_wherever_it_is_asked(where: object) -> None:
    """Fault G4: the same in the main thread, a worker thread, an asyncio task and a child process."""
    assert where() == []  # type: ignore[operator]


def test_hostile_rows_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault G6: nothing is evaluated, and honest rows after it have their verdicts."""
    monkeypatch.chdir(tmp_path)
    for row in ROWS:
        if row.verdict == "unparsed":
            for frame in ("{}", "#### {}", "The answer is {}", "\\boxed{{{}}}"):
                grade(frame.format(row.first), "18", Policy())
    assert list(tmp_path.iterdir()) == []
    assert disagreements() == []
