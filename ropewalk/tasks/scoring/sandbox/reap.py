"""Ending a sandbox for good: every process of it killed and reaped before this returns."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from ropewalk.tasks.scoring.sandbox.watch import family

_PATIENCE_SECONDS = 5.0


def kill_namespace(bwrap: subprocess.Popen[bytes], first: int | None) -> None:
    """End the first process of a PID namespace by its pidfd: the kernel ends all others with it; bwrap then reaps it.

    Where the pidfd is not known yet, bwrap itself is killed; what it started dies with its parent.
    """
    if first is not None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(first, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            bwrap.wait(_PATIENCE_SECONDS)
    bwrap.kill()
    bwrap.wait()


def kill_family(supervisor: subprocess.Popen[bytes], user: int | None) -> None:
    """End a supervisor and everything below it, children first: orphans go to the supervisor while it lives.

    `user`: a user id that only this program has, whose processes are ended wherever they hang.
    """
    end = time.monotonic() + _PATIENCE_SECONDS
    while (members := [pid for pid in family(supervisor.pid) if pid != supervisor.pid]) and time.monotonic() < end:
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not _alive(supervisor.pid):
            break
        time.sleep(0.002)
    supervisor.kill()
    supervisor.wait()
    while user is not None and (left := _processes_of(user)) and time.monotonic() < end:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def _alive(pid: int) -> bool:
    return _status(pid)[0] not in ("", "Z")


def _processes_of(user: int) -> list[int]:
    pids = [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdecimal()]
    return [pid for pid in pids if _status(pid)[1] == user and _alive(pid)]


def _status(pid: int) -> tuple[str, int]:
    """State letter and real user id; the owner of /proc/PID would be root for a process that may not be traced."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines()
    except OSError:
        return "", -1
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return fields["State"].split()[0], int(fields["Uid"].split()[0])
