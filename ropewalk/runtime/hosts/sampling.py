"""Sampling on many ranks: requests go out one by one, completions come back as they end.

    driver                                        rank
      any thread ── inbox ──▶ Sampling ── pipe ──▶ a thread that only reads ── inbox ──▶ Worker.answer
                     bell        │                                                            │
          heard ◀────────────────┘ ◀──────────────────── pipe ────────────────────────────────┘

A rank always reads, so the driver's sending never waits for a rank that waits for the driver to hear it. For each rank
the last words of a generation are: `CLOSE` (no more will come) or `RECALL` (nobody waits any more), the rank's
`Ended`, and `DONE`, after which the pipe is free for the next call.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from ropewalk.records.sample import Completion, Request
from ropewalk.rollout.inbox import Abandoned, Inbox
from ropewalk.runtime.worker import Worker

GENERATE = "generate"
CLOSE, RECALL, DONE = "close", "recall", "done"


@dataclass(frozen=True, slots=True)
class Ended:
    """A rank has answered all it was asked, or let go of it."""


# --- on a rank ------------------------------------------------------------------------------------


def generate(pipe: Connection, worker: Worker) -> None:
    """Answer what comes through the pipe until the driver wants no more."""
    inbox = Inbox()
    reader = threading.Thread(target=_read, args=(pipe, inbox), name="ropewalk-requests", daemon=True)
    reader.start()
    with suppress(Abandoned):
        worker.answer(inbox, pipe.send)
    pipe.send(Ended())
    reader.join()


def _read(pipe: Connection, inbox: Inbox) -> None:
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):  # the driver is gone
            inbox.abandon()
            return
        match message:
            case "done":
                return
            case "recall":
                inbox.abandon()
            case "close":
                inbox.close()
            case _:
                inbox.put(message)


# --- in the driver --------------------------------------------------------------------------------


class Sampling:
    """One generation over all ranks, driven by one thread."""

    def __init__(
        self, pipes: Sequence[Connection], send: Callable[[int, Any], None], hear: Callable[[int], Any]
    ) -> None:
        self._ranks = {pipe: rank for rank, pipe in enumerate(pipes)}
        self._send, self._hear = send, hear
        self._load = [0] * len(pipes)
        """Requests that each rank has yet to answer."""
        self._running: dict[Connection, int] = {}
        self._closed = False

    def run(self, inbox: Inbox, heard: Callable[[Completion], None]) -> None:
        """Until the inbox is closed and all is heard."""
        for pipe, rank in self._ranks.items():
            self._send(rank, (GENERATE, None))
            self._running[pipe] = rank
        bell = _Bell()
        try:
            inbox.ring(bell.ring)
            while self._running:
                ready = wait([bell.reader, *self._running])
                if bell.reader in ready:
                    bell.silence()
                    self._hand_out(inbox)
                for pipe in [pipe for pipe in self._running if pipe in ready]:
                    self._listen(pipe, heard)
        finally:
            bell.close()

    def recall(self) -> None:
        """Have every rank let go of what it runs, and hear it say so."""
        for rank in self._running.values():
            self._send(rank, RECALL)
        while self._running:
            ready = wait(list(self._running))
            for pipe in [pipe for pipe in self._running if pipe in ready]:
                self._listen(pipe, lambda _: None)

    def _hand_out(self, inbox: Inbox) -> None:
        """Each request to the rank with the least to do."""
        while asked := inbox.take(wait=False):
            shares: dict[int, list[Request]] = {}
            for request in asked:
                rank = min(self._running.values(), key=self._load.__getitem__)
                self._load[rank] += 1
                shares.setdefault(rank, []).append(request)
            for rank, share in shares.items():
                self._send(rank, share)
        if asked is None and not self._closed:
            self._closed = True
            for rank in self._running.values():
                self._send(rank, CLOSE)

    def _listen(self, pipe: Connection, heard: Callable[[Completion], None]) -> None:
        rank = self._ranks[pipe]
        said = self._hear(rank)
        if isinstance(said, Ended):
            del self._running[pipe]
            self._send(rank, DONE)
        else:
            self._load[rank] -= 1
            heard(said)


class _Bell:
    """Something to wait for beside pipes: readable once it has been rung, however often."""

    def __init__(self) -> None:
        self.reader, self._writer = Pipe(duplex=False)
        self._lock = threading.Lock()
        self._rung = self._closed = False

    def ring(self) -> None:
        with self._lock:
            if not (self._rung or self._closed):
                self._rung = True
                self._writer.send_bytes(b"!")

    def silence(self) -> None:
        with self._lock:
            self.reader.recv_bytes()
            self._rung = False

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self.reader.close()
            self._writer.close()
