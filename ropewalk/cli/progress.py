"""Progress on a terminal: rate and time left; where there is no terminal, plain lines, ever fewer of them.

All of it goes to stderr: stdout carries results only, so that a closed pipe never ends a run.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

FIRST_LINE_SECONDS = 10.0
LINES_GROW = 1.5
LONGEST_SILENCE_SECONDS = 300.0


class Shown(Protocol):
    """What a command tells of its work, and closes at the end."""

    def __enter__(self) -> "Shown": ...
    def __exit__(self, *_: object) -> None: ...
    def begin(self, what: str, total: int, done: int = 0) -> None: ...
    def advance(self, done: int, note: str = "") -> None: ...
    def say(self, line: str) -> None: ...


def progress() -> Shown:
    """The bar on a terminal, else lines."""
    console = Console(stderr=True)
    return Bar(console) if console.is_terminal else Lines(console)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of work, measured from where it began."""

    what: str
    total: int
    first: int
    started: float

    def rate(self, done: int, now: float) -> str:
        """Units a second, or seconds a unit where those are long."""
        seconds, units = now - self.started, done - self.first
        if seconds <= 0 or units <= 0:
            return ""
        return f"{units / seconds:.1f}/s" if units >= seconds else f"{seconds / units:.1f} s each"

    def left(self, done: int, now: float) -> str:
        """Time left at the rate so far."""
        units = done - self.first
        if units <= 0:
            return ""
        seconds = round((now - self.started) / units * max(self.total - done, 0))
        hours, rest = divmod(seconds, 3600)
        return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


class Bar:
    """One bar that later stretches reuse."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.console, self.clock = console, clock
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
        )
        self._task: Any = None
        self._stretch = Stretch("", 0, 0, 0.0)

    def __enter__(self) -> "Bar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, what: str, total: int, done: int = 0) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(what, total=total, completed=done, note="", rate="")
        self._stretch = Stretch(what, total, done, self.clock())

    def advance(self, done: int, note: str = "") -> None:
        if self._task is not None:
            rate = self._stretch.rate(done, self.clock())
            self._bar.update(self._task, completed=done, note=note, rate=rate)

    def say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


class Lines:
    """No control characters: a line after 10 seconds of a stretch, then after ever longer whiles."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.console, self.clock = console, clock
        self._stretch = Stretch("", 0, 0, clock())
        self._due, self._wait = 0.0, FIRST_LINE_SECONDS

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def begin(self, what: str, total: int, done: int = 0) -> None:
        now = self.clock()
        self._stretch = Stretch(what, total, done, now)
        self._wait = FIRST_LINE_SECONDS
        self._due = now + self._wait

    def advance(self, done: int, note: str = "") -> None:
        now, stretch = self.clock(), self._stretch
        if now < self._due or done >= stretch.total:
            return
        self._wait = min(self._wait * LINES_GROW, LONGEST_SILENCE_SECONDS)
        self._due = now + self._wait
        left = stretch.left(done, now)
        parts = (stretch.rate(done, now), f"{left} left" if left else "", note)
        self.say(", ".join([f"{stretch.what} {done}/{stretch.total}", *filter(None, parts)]))

    def say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)
