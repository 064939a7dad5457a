"""One process at a time works in a run folder: a lock that its holder's death releases.

A resumed run may start while the process of its first session is still ending; it waits a little for the lock.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ropewalk.records.errors import InputError

try:
    import fcntl
except ImportError:  # no such locks on this system: two processes in one folder go unnoticed
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"
WAIT_SECONDS = 5.0
POLL_SECONDS = 0.05


@contextmanager
def locked(folder: Path, *, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Hold the folder's lock in the block. Raises `InputError` if another process keeps it."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        give_up = time.monotonic() + wait_seconds
        while not _taken(handle):
            if time.monotonic() >= give_up:
                raise InputError(f"another process is working in {folder}: wait for its end, or end it, then resume")
            time.sleep(POLL_SECONDS)
        yield
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: better no lock than no run
        return True
    return True
