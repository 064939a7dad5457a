"""The pool of sandboxes: bounded, asynchronous, usable from any thread.

    callers ── submit ──▶ queue (bounded: then submit waits) ──▶ `workers` threads, each with one box at a time
            ◀── Future ──

A worker consumes a piece of work, opens a box for it, and closes the box whatever happens; it waits for nothing but its
own sandbox, which has a deadline. So every piece of work ends, and what it started has ended before its future is done.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import TypeVar

from ropewalk.records.errors import InputError
from ropewalk.tasks.scoring.sandbox.box import Box
from ropewalk.tasks.scoring.sandbox.jail import Isolation, make_jail
from ropewalk.tasks.scoring.sandbox.limits import Limits
from ropewalk.tasks.scoring.sandbox.program import Finding, Request

Result = TypeVar("Result")
_BACKLOG_PER_WORKER = 8


class SandboxPool:
    """Runs work in sandboxes. A context; also closed by `close`.

    Raises InputError when isolation is not to be had here: bubblewrap is missing (then "process" must be asked for by
    name), or not allowed to work.
    """

    def __init__(
        self,
        workers: int = 2,
        limits: Limits | None = None,
        *,
        isolation: Isolation = "bubblewrap",
        packages: Sequence[str] = (),
    ) -> None:
        if workers < 1:
            raise InputError(f"a sandbox pool needs at least one worker, got {workers}")
        self._jail = make_jail(isolation, limits or Limits(), packages)
        self.workers = workers
        self._slots: SimpleQueue[int] = SimpleQueue()
        for slot in range(workers):
            self._slots.put(slot)
        self._room = threading.BoundedSemaphore(workers * (1 + _BACKLOG_PER_WORKER))
        self._threads = ThreadPoolExecutor(workers, "sandbox")

    @property
    def isolation(self) -> Isolation:
        """What programs are shut in by."""
        return self._jail.isolation

    @property
    def limits(self) -> Limits:
        """Of every program."""
        return self._jail.limits

    def submit(self, work: Callable[[Box], Result]) -> "Future[Result]":
        """`work(box)` on a worker; waits while the backlog is full. Do not call it from within `work`."""
        self._room.acquire()
        try:
            future = self._threads.submit(self._do, work)
        except BaseException:
            self._room.release()
            raise
        future.add_done_callback(lambda _: self._room.release())
        return future

    def run(self, work: Callable[[Box], Result]) -> Result:
        """`work(box)`, and wait for it."""
        return self.submit(work).result()

    def test(self, source: str, requests: Sequence[Request]) -> list[Finding]:
        """Findings of one program: one per request."""
        return self.run(lambda box: box.run(source, requests))

    def stop(self) -> None:
        """End what runs within a moment, drop what waits, let go of everything."""
        self._jail.stopping.set()
        self.close()

    def close(self) -> None:
        """Finish what runs, drop what waits, let go of everything."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._jail.close()

    def __enter__(self) -> "SandboxPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _do(self, work: Callable[[Box], Result]) -> Result:
        slot = self._slots.get()
        try:
            with Box(self._jail, slot) as box:
                return work(box)
        finally:
            self._slots.put(slot)
