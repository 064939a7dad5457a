"""Requests on their way to an engine.

    any thread ── put ──▶ waiting ── take ──▶ the one thread that generates
                  close: no more will come           abandon: it stops at its next token

Every request that is put in is taken out exactly once, in the order it came; nothing is put in after `close`.
"""

import threading
from collections.abc import Callable, Sequence

from ropewalk.records.sample import Request


class Abandoned(Exception):
    """Nobody waits for the answers any more."""


class Inbox:
    """A line of requests that is open until it is closed."""

    def __init__(self, requests: Sequence[Request] = ()) -> None:
        self._changed = threading.Condition()
        self._waiting: list[Request] = list(requests)
        self._closed = False
        self._abandoned = False
        self._bell: Callable[[], None] | None = None

    def put(self, requests: Sequence[Request]) -> None:
        """Put requests in line. Raises `Abandoned` if nobody generates any more."""
        with self._changed:
            if self._abandoned:
                raise Abandoned
            if self._closed:
                raise RuntimeError("the inbox is closed")
            self._waiting.extend(requests)
            self._tell()

    def close(self) -> None:
        """No more will come: whoever generates ends once all is answered."""
        with self._changed:
            self._closed = True
            self._tell()

    def abandon(self) -> None:
        """The answers are not wanted any more: whoever generates ends at its next token."""
        with self._changed:
            self._abandoned = True
            self._tell()

    def take(self, *, wait: bool) -> list[Request] | None:
        """What has come since the last time; None once no more will. With `wait`, there is something, or no more.

        Raises `Abandoned`.
        """
        with self._changed:
            while wait and not (self._waiting or self._closed or self._abandoned):
                self._changed.wait()
            if self._abandoned:
                raise Abandoned
            taken, self._waiting = self._waiting, []
            return taken if taken or not self._closed else None

    def ring(self, bell: Callable[[], None]) -> None:
        """Have `bell` called after every change, for one who waits for other things too; once now."""
        with self._changed:
            self._bell = bell
            bell()

    def _tell(self) -> None:
        self._changed.notify_all()
        if self._bell is not None:
            self._bell()
