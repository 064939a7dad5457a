"""Answers on disk: the same with and without them, whatever befell the file, for any number of processes."""

import contextlib
import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.prompt import Message
from ropewalk.records.score import Failed
from ropewalk.tasks.judging.config import PairwiseJudge
from ropewalk.tasks.judging.desk import CHUNK_QUESTIONS, Desk
from ropewalk.tasks.judging.memory import FILE, LOCK, AnswerFile
from ropewalk.tasks.judging.question import Answer, Question
from tests.cli.disks import small_disk
from tests.tasks.judging.askers import BY, Ruled, judge, prefers
from tests.tasks.judging.test_judge import PROMPTS, everybody, group, length, scores

LOGPROBS = st.dictionaries(st.sampled_from(["A", " A", "B"]), st.floats(max_value=0, allow_nan=False))


def question(text: str, **settings: object) -> Question:
    return Question((Message("user", text),), **settings)  # type: ignore[arg-type]


def key(number: int) -> str:
    return question(str(number)).key("x")


@given(st.text(max_size=50), LOGPROBS, st.booleans())
def test_an_answer_comes_back_as_it_went_in(text: str, logprobs: Mapping[str, float], whole: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        AnswerFile(Path(folder), 1).put({key(1): Answer(text, logprobs, whole)})
        assert AnswerFile(Path(folder), 1).get([key(1), key(2)]) == {key(1): Answer(text, logprobs, whole)}


def test_outcomes_are_the_same_with_and_without_memory(tmp_path: Path) -> None:
    texts, config = group(["a", "bb", "ccc", "a"]), PairwiseJudge(by=BY)
    plain = judge(config, Ruled(prefers(length, place=1.0))).judge(PROMPTS, texts, everybody)
    first = judge(config, Ruled(prefers(length, place=1.0)), AnswerFile(tmp_path, 1))
    assert scores(first.judge(PROMPTS, texts, everybody)) == scores(plain)
    later = Ruled(prefers(length, place=1.0))
    assert scores(judge(config, later, AnswerFile(tmp_path, 1)).judge(PROMPTS, texts, everybody)) == scores(plain)
    assert later.asked == [], "all is remembered, by another object too"


@pytest.mark.parametrize("remembered", [False, True])
def test_a_question_is_asked_once_a_batch(tmp_path: Path, remembered: bool) -> None:
    asker = Ruled(lambda q: Answer(q.messages[0].content))
    replies = Desk(asker, AnswerFile(tmp_path, 1) if remembered else None).ask([question(t) for t in "abab"])
    assert [reply.answer for reply in replies] == [Answer(t) for t in "abab"]
    assert [reply.remembered for reply in replies] == [False, False, True, True]
    assert len(asker.asked) == 2 and asker.batches == 1


def test_everything_that_is_asked_is_in_the_key() -> None:
    asked = [
        question("a"),
        question("b"),
        question("a", max_new_tokens=1),
        question("a", candidates=("A",)),
        question("a", cue="V"),
        question("a", temperature=0.5),
        Question((Message("system", "a"),)),
        Question((Message("user", "a"), Message("user", ""))),
    ]
    assert len({one.key("x") for one in asked}) == len(asked)
    assert question("a").key("x") != question("a").key("y"), "another judge"
    assert question("a").seed == question("a").seed != question("b").seed


def test_another_judge_is_asked_anew(tmp_path: Path) -> None:
    memory = AnswerFile(tmp_path, 1)
    Desk(Ruled(lambda _: Answer("one"), "first"), memory).ask([question("a")])
    assert Desk(Ruled(lambda _: Answer("two"), "second"), memory).ask([question("a")])[0].answer == Answer("two")


def test_failures_are_not_remembered(tmp_path: Path) -> None:
    memory = AnswerFile(tmp_path, 1)
    assert Desk(Ruled(lambda _: Failed("timeout")), memory).ask([question("a")])[0].answer == Failed("timeout")
    assert Desk(Ruled(lambda _: Answer("now")), memory).ask([question("a")])[0].answer == Answer("now")


def test_a_damaged_line_is_not_there_and_harms_no_other(tmp_path: Path) -> None:
    memory = AnswerFile(tmp_path, 1)
    memory.put({key(n): Answer(f"answer {n}") for n in range(3)})
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes().replace(b"answer 1", b"Answer 1"))
    known = AnswerFile(tmp_path, 1).get([key(n) for n in range(3)])
    assert known == {key(0): Answer("answer 0"), key(2): Answer("answer 2")}


@pytest.mark.parametrize("cut", [2, 7, 40])
def test_a_torn_end_costs_its_own_line_only(tmp_path: Path, cut: int) -> None:
    memory = AnswerFile(tmp_path, 1)
    memory.put({key(1): Answer("one")})
    memory.put({key(2): Answer("two")})
    path = tmp_path / FILE
    os.truncate(path, path.stat().st_size - cut)
    again = AnswerFile(tmp_path, 1)
    assert again.get([key(1), key(2)]) == {key(1): Answer("one")}
    again.put({key(3): Answer("three")})
    assert AnswerFile(tmp_path, 1).get([key(1), key(2), key(3)]) == {key(1): Answer("one"), key(3): Answer("three")}
    assert again.get([key(3)]) == {key(3): Answer("three")}


@given(st.binary(max_size=300))
def test_any_bytes_in_the_file_are_no_answer(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / FILE).write_bytes(content)
        memory = AnswerFile(Path(folder), 1)
        assert memory.get([key(1)]) == {}
        memory.put({key(1): Answer("one")})
        assert memory.get([key(1)]) == {key(1): Answer("one")}


def test_the_file_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    """Fault O2."""
    memory, other = AnswerFile(tmp_path, 1), AnswerFile(tmp_path, 1)
    for n in range(60):
        memory.put({key(n): Answer("x" * 40_000)})
        assert (tmp_path / FILE).stat().st_size <= 2**20
        assert set(other.get([key(n)])) == {key(n)}, "a reader follows the file that took the place of the old one"
    assert key(0) not in memory.get([key(0), key(59)]) and key(59) in memory.get([key(0), key(59)])


def test_an_answer_too_long_to_keep_is_left_out(tmp_path: Path) -> None:
    memory = AnswerFile(tmp_path, 1)
    memory.put({key(1): Answer("x" * 2**21), key(2): Answer("two")})
    assert memory.get([key(1), key(2)]) == {key(2): Answer("two")}


def test_a_place_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    memory = AnswerFile(tmp_path / "taken" / "inside", 1)
    memory.put({key(1): Answer("one")})
    assert memory.get([key(1)]) == {}
    (tmp_path / FILE).mkdir()
    AnswerFile(tmp_path, 1).put({key(1): Answer("one")})
    assert AnswerFile(tmp_path, 1).get([key(1)]) == {}


@pytest.mark.parametrize("harm", ["taken", "locked", "full", "unreadable"])
def test_a_memory_that_keeps_nothing_is_told_of_once(tmp_path: Path, harm: str) -> None:
    """Fault Q3: the setting is on and without effect; the answers are the same, and only one line says so."""
    told: list[str] = []
    said = Answer("yes" * 3000)
    with harmed(tmp_path / "memory", harm) as folder:
        for _ in range(3):
            memory = AnswerFile(folder, 1, told.append)
            replies = [Desk(Ruled(lambda _: said), memory).ask([question("a")]) for _ in range(3)]
            assert [reply.answer for (reply,) in replies] == [said] * 3
            (line,) = told
            assert str(folder) in line and line.startswith("warning: ") and "memory.kind = 'none'" in line
            told.clear()


def test_a_memory_that_keeps_says_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    for _ in range(2):
        memory = AnswerFile(tmp_path / "not there yet", 1, told.append)
        memory.get([key(1)])
        memory.put({key(1): Answer("x" * 600_000), key(2): Answer("y" * 600_000), key(3): Answer("z" * 2**21)})
    assert told == []


@contextmanager
def harmed(folder: Path, harm: str) -> Iterator[Path]:
    """A folder in which no answer can be kept, or found again."""
    with small_disk(folder, 8) as disk:
        if harm == "taken":
            (folder / "inside").write_text("a file")
            yield folder / "inside"
        elif harm == "unreadable":
            (folder / FILE).mkdir()
            yield folder
        elif harm == "full":
            _fill(folder / "filling")
            yield folder
        else:
            (folder / LOCK).mkdir()  # what opening for writing refuses, to root as well
            yield folder
        disk.grow()


def _fill(place: Path) -> None:
    with contextlib.suppress(OSError), place.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 512)


def _write(folder: Path, first: int) -> None:
    memory = AnswerFile(folder, 1)
    for n in range(first, first + 50):
        memory.put({key(n): Answer(f"{n}" * 200)})
        assert memory.get([key(n)])


def test_two_processes_write_at_the_same_time(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    writers = [context.Process(target=_write, args=(tmp_path, 1000 * n)) for n in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    wanted = [key(1000 * n + i) for n in range(2) for i in range(50)]
    assert len(AnswerFile(tmp_path, 1).get(wanted)) == 100


def test_a_chunk_that_failed_whole_ends_the_batch_and_what_came_before_is_kept(tmp_path: Path) -> None:
    """A server that dies in the middle: the rest is not tried one by one, and no answer is lost."""
    asked = [question(str(n)) for n in range(3 * CHUNK_QUESTIONS)]
    dead = {one.messages[0].content for one in asked[CHUNK_QUESTIONS:]}

    def rule(one: Question) -> Answer | Failed:
        text = one.messages[0].content
        return Failed("crashed", "no connection") if text in dead else Answer(text)

    asker = Ruled(rule)
    replies = Desk(asker, AnswerFile(tmp_path, 1)).ask(asked)
    assert len(asker.asked) == 2 * CHUNK_QUESTIONS and len(replies) == 3 * CHUNK_QUESTIONS
    assert all(isinstance(reply.answer, Answer) for reply in replies[:CHUNK_QUESTIONS])
    assert {reply.answer for reply in replies[CHUNK_QUESTIONS:]} == {Failed("crashed", "no connection")}
    again = Ruled(lambda one: Answer(one.messages[0].content))
    assert [reply.answer for reply in Desk(again, AnswerFile(tmp_path, 1)).ask(asked)] == [
        Answer(str(n)) for n in range(3 * CHUNK_QUESTIONS)
    ]
    assert len(again.asked) == 2 * CHUNK_QUESTIONS
