"""Rate and time left on a terminal; few plain lines where there is none."""

import io

import pytest
from rich.console import Console

from ropewalk.cli.progress import Bar, Lines, Stretch
from tests.cli.commands import plain


class Clock:
    """Time that passes only when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lines_of(seconds_each: float, total: int) -> list[str]:
    clock, text = Clock(), io.StringIO()
    with Lines(Console(file=text), clock) as shown:
        shown.begin("training", total)
        for done in range(1, total + 1):
            clock.now += seconds_each
            shown.advance(done, "reward/mean 0.5")
    return text.getvalue().splitlines()


def test_short_work_is_silent_without_a_terminal() -> None:
    assert lines_of(0.1, 60) == []


def test_long_work_tells_rate_and_time_left_ever_less_often() -> None:
    said = lines_of(1.0, 3600)
    assert said[0] == "training 10/3600, 1.0/s, 59:50 left, reward/mean 0.5"
    assert 5 < len(said) < 25
    assert all(plain(line) for line in said)


def test_a_line_is_whole_however_long_and_is_no_markup() -> None:
    text = io.StringIO()
    line = "[bold]warning[/bold] " + "very " * 60 + "long"
    Lines(Console(file=text, width=40)).say(line)
    assert text.getvalue() == line + "\n"


@pytest.mark.parametrize(
    ("seconds", "done", "rate", "left"),
    [
        (10, 20, "2.0/s", "0:15"),
        (60, 3, "20.0 s each", "15:40"),
        (0, 0, "", ""),
        (3600, 1, "3600.0 s each", "49:00:00"),
    ],
)
def test_rate_and_time_left_are_those_since_the_stretch_began(seconds: int, done: int, rate: str, left: str) -> None:
    """A resumed run has `first` iterations behind it, which took none of this session's time."""
    stretch = Stretch("training", total=100, first=50, started=7.0)
    now, at = 7.0 + seconds, 50 + done
    assert stretch.rate(at, now) == rate
    assert stretch.left(at, now) == left


def test_the_bar_shows_what_how_far_and_a_note() -> None:
    text, clock = io.StringIO(), Clock()
    with Bar(Console(file=text, force_terminal=True, width=120), clock) as bar:
        bar.advance(1)
        bar.begin("training", 60, 10)
        clock.now += 2.0
        bar.advance(14, "reward/mean 0.5")
        bar.say("warning: [tag]")
    shown = text.getvalue()
    assert all(part in shown for part in ("training", "14/60", "2.0/s", "reward/mean 0.5", "warning: [tag]"))
