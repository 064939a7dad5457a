"""How long work tells of itself: a protocol the runtime reports to, and the silent one."""

from typing import Protocol


class Progress(Protocol):
    """Receives news of long work; the CLI draws it, a child process forwards it, nobody else needs it."""

    def begin(self, what: str, total: int, done: int = 0) -> None:
        """A stretch of work of `total` units starts (or goes on from `done`)."""

    def advance(self, done: int, note: str = "") -> None:
        """`done` units of the present stretch are finished."""

    def say(self, line: str) -> None:
        """A line worth reading now."""


class Silent:
    """Says nothing."""

    def begin(self, what: str, total: int, done: int = 0) -> None:
        return None

    def advance(self, done: int, note: str = "") -> None:
        return None

    def say(self, line: str) -> None:
        return None
