"""The sandboxes of this process: one pool for each way to be shut in, opened when it is first needed, closed together.

    with sandboxes():          # around a whole command; blocks may be nested, also in several threads
        ... scorers run programs through `SharedPool(spec)` from any thread ...

What holds: when the outermost block is left, however it is left, no pool is open and nothing that one started is left.
A scorer used outside of any block opens a sandbox for that one program.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ropewalk.tasks.scoring.sandbox.box import Box
from ropewalk.tasks.scoring.sandbox.jail import Isolation, make_jail
from ropewalk.tasks.scoring.sandbox.limits import Limits
from ropewalk.tasks.scoring.sandbox.pool import SandboxPool
from ropewalk.tasks.scoring.sandbox.program import Finding, Request

Result = TypeVar("Result")


class Pool(Protocol):
    """What runs programs: a pool of one's own, or the process's."""

    @property
    def limits(self) -> Limits:
        """Of every program."""
        ...

    def run(self, work: Callable[[Box], Result]) -> Result:
        """`work(box)`, and wait for it."""
        ...

    def test(self, source: str, requests: Sequence[Request]) -> list[Finding]:
        """Findings of one program: one per request."""
        ...


@dataclass(frozen=True, slots=True)
class Shutting:
    """How programs are shut in. Equal ones share a pool."""

    limits: Limits
    isolation: Isolation = "bubblewrap"
    packages: tuple[str, ...] = ()
    workers: int = 2

    def check(self) -> None:
        """Raises InputError where it is not to be had here; starts nothing that lasts."""
        make_jail(self.isolation, self.limits, self.packages).close()


@dataclass(frozen=True, slots=True)
class SharedPool:
    """The process's pool of this kind, opened by the first program. From any thread."""

    shutting: Shutting

    @property
    def limits(self) -> Limits:
        """Of every program."""
        return self.shutting.limits

    def run(self, work: Callable[[Box], Result]) -> Result:
        """`work(box)`, and wait for it."""
        with _KEEPER.lent(self.shutting) as pool:
            return pool.run(work)

    def test(self, source: str, requests: Sequence[Request]) -> list[Finding]:
        """Findings of one program: one per request."""
        with _KEEPER.lent(self.shutting) as pool:
            return pool.test(source, requests)


class _Keeper:
    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew, closing nothing: in a forked child the threads of the parent's pools are not there."""
        self._lock = threading.Lock()
        self._open: dict[Shutting, SandboxPool] = {}
        self._blocks = 0

    @contextmanager
    def lent(self, shutting: Shutting) -> Iterator[SandboxPool]:
        pool = self._shared(shutting)
        if pool is not None:
            yield pool
            return
        with _pool(shutting, 1) as own:
            yield own

    def _shared(self, shutting: Shutting) -> SandboxPool | None:
        with self._lock:
            if not self._blocks:
                return None
            if shutting not in self._open:
                self._open[shutting] = _pool(shutting, shutting.workers)
            return self._open[shutting]

    def enter(self) -> None:
        with self._lock:
            self._blocks += 1

    def leave(self) -> None:
        with self._lock:
            self._blocks -= 1
            pools: list[SandboxPool] = []
            if not self._blocks:
                pools, self._open = list(self._open.values()), {}
        for pool in pools:
            # What still runs is nobody's any more: all scoring ends within its block.
            pool.stop()


def _pool(shutting: Shutting, workers: int) -> SandboxPool:
    return SandboxPool(workers, shutting.limits, isolation=shutting.isolation, packages=shutting.packages)


_KEEPER = _Keeper()
os.register_at_fork(after_in_child=_KEEPER.forget)


@contextmanager
def sandboxes() -> Iterator[None]:
    """A block of work: the sandboxes that it opens are closed at its end, also after an error or Ctrl-C."""
    _KEEPER.enter()
    try:
        yield
    finally:
        _KEEPER.leave()
