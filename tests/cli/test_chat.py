"""Conversations: pieces appear as they come, and a model's text never drives the terminal."""

import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ropewalk.cli.chat import _beside, _forgiving, converse, names_of, visible
from ropewalk.records.errors import InputError
from tests.cli.commands import Command, failed


@dataclass
class Scripted:
    """Says its pieces; an exception among them is raised."""

    pieces: tuple[str | BaseException, ...]
    forgotten: int = 0
    heard: list[str] = field(default_factory=list)
    ended: int = 0

    def say(self, text: str) -> Iterator[str]:
        self.heard.append(text)
        try:
            for piece in self.pieces:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            self.ended += 1

    def clear(self) -> None:
        self.heard.append("(clear)")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What comes in by the pipe."""
    stdin = io.StringIO()
    monkeypatch.setattr(sys, "stdin", stdin)
    yield stdin


def converse_with(typed: io.StringIO, text: str, **talkers: Scripted) -> None:
    typed.write(text)
    typed.seek(0)
    converse(talkers)


def test_every_line_is_answered_in_turn(typed: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    talker = Scripted(("Hel", "lo"))
    converse_with(typed, "hi\n\n/clear\nagain\n/quit\nunheard\n", a=talker)
    assert talker.heard == ["hi", "(clear)", "again"]
    assert capsys.readouterr().out == "Hello\nHello\n"


def test_two_are_told_apart_in_a_pipe(typed: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    converse_with(typed, "hi\n", a=Scripted(("one",)), b=Scripted(("two",), forgotten=2))
    said = capsys.readouterr()
    assert said.out == "[a] one\n[b] two\n"
    assert said.err == "b has no room for its oldest 2 turns and forgot them\n"


def test_two_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = Scripted(("one", " more")), Scripted(("two [x]",))
    _beside({"a": a, "b": b}, "hi")
    shown = capsys.readouterr().out
    assert any("one more" in line and "two [x]" in line for line in shown.splitlines())
    assert a.ended == b.ended == 1


def test_a_broken_off_answer_is_closed_on_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = Scripted(("one", "never")), Scripted(("two", KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        _beside({"a": a, "b": b}, "hi")
    assert a.ended == b.ended == 1


@pytest.mark.parametrize("end", [InputError("no room: say it shorter"), KeyboardInterrupt()], ids=["room", "Ctrl-C"])
def test_on_a_terminal_the_conversation_goes_on(end: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    _forgiving({"a": Scripted(("so", end))}, "hi")
    assert capsys.readouterr().err == ("no room: say it shorter\n" if isinstance(end, InputError) else "")


def test_control_characters_of_a_model_are_shown_not_obeyed() -> None:
    assert visible("a\x1b[2Jb\r\n\tü→\x07") == "a�[2Jb�\n\tü→�"


def test_one_model_beside_itself_has_two_names() -> None:
    assert names_of(["x", "y"]) == ["x", "y"]
    assert names_of(["x", "x"]) == ["x (1)", "x (2)"]


def test_a_model_answers(ropewalk: Command, tiny_policy: Path, typed: io.StringIO) -> None:
    typed.write("[ artists\n")
    typed.seek(0)
    told = ropewalk("chat", tiny_policy, tiny_policy, "--temperature", 0)
    assert told.code == 0
    first, second = told.out.splitlines()
    assert first.removeprefix(f"[{tiny_policy} (1)] ") == second.removeprefix(f"[{tiny_policy} (2)] ") != ""


@pytest.mark.parametrize(("line", "said"), [("[ Atlantis", "cannot spell"), ("[ artists" * 40, "cannot spell")])
def test_what_cannot_be_said_is_told(
    ropewalk: Command, tiny_policy: Path, typed: io.StringIO, line: str, said: str
) -> None:
    typed.write(line + "\n")
    typed.seek(0)
    failed(ropewalk("chat", tiny_policy), 2, said)


def test_there_must_be_a_model(ropewalk: Command) -> None:
    failed(ropewalk("chat", "nowhere"), 2, "no model folder nowhere")
