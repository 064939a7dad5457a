"""Progress on a terminal: rate and time left; plain lines, few of them, where there is no terminal."""

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class Bar:
    """One bar that later stretches reuse; drawn only on a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task: Any = None
        self._first = (0, 0.0)

    def __enter__(self) -> "Bar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, what: str, total: int, done: int = 0) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(what, total=total, completed=done, note="", rate="")
        self._first = (done, time.monotonic())

    def advance(self, done: int, note: str = "") -> None:
        since, start = self._first
        seconds = time.monotonic() - start
        rate = f"{(done - since) / seconds:.2f}/s" if seconds > 0 and done > since else ""
        self._bar.update(self._task, completed=done, note=note, rate=rate)

    def say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False)
