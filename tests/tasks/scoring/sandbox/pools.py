"""What tests of programs share: a pool, an honest skip where bubblewrap is missing, and what a pool leaves behind."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ropewalk.tasks.scoring.sandbox.limits import Limits
from ropewalk.tasks.scoring.sandbox.pool import SandboxPool
from ropewalk.tasks.scoring.sandbox.watch import family
from tests.cli.disks import SOURCE

SHORT = Limits(test_seconds=3.0, program_seconds=6.0, cpu_seconds=1, memory_bytes=256 * 2**20, folder_files=2_000)
"""For programs that run until their time is up."""
ROOMY = replace(SHORT, test_seconds=60.0, program_seconds=120.0, cpu_seconds=30)
"""For all others: on a busy machine honest work of a tenth of a second may take seconds."""
PATIENT = Limits(test_seconds=60.0, program_seconds=120.0, cpu_seconds=30)
"""What every program may use by itself, with as much time."""
ROOT = os.geteuid() == 0


def need_bubblewrap() -> None:
    """Skip where bubblewrap is missing; the full tier takes a skip for a failure."""
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap: run `make system`")


@contextmanager
def bubblewrap_pool(workers: int = 2, limits: Limits | None = None) -> Iterator[SandboxPool]:
    """A pool under bubblewrap, patient unless a test is about the time itself."""
    need_bubblewrap()
    with SandboxPool(workers, limits or PATIENT) as pool:
        yield pool


@dataclass(frozen=True)
class Footprint:
    """What this process holds and has started, and what is mounted beside other tests' disks, as /proc tells it."""

    descendants: frozenset[int]
    descriptors: int
    sockets: int
    mounts: int

    def beyond(self, before: "Footprint") -> dict[str, object]:
        """What there is more of than before. What is gone since was left by an earlier test and is nobody's fault."""
        new: dict[str, object] = {"descendants": self.descendants - before.descendants}
        for name in ("descriptors", "sockets", "mounts"):
            new[name] = max(0, getattr(self, name) - getattr(before, name))
        return {name: more for name, more in new.items() if more}


def footprint() -> Footprint:
    """The footprint now."""
    links = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            links[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # The descriptor of this very listing.
    mine = [pid for pid in family(os.getpid()) if pid != os.getpid()]
    return Footprint(
        frozenset(mine),
        len(links),
        sum(link.startswith("socket:") for link in links.values()),
        sum(SOURCE not in line for line in Path("/proc/self/mountinfo").read_text().splitlines()),
    )


def processes_in(namespace: str) -> list[int]:
    """Processes of the machine whose user namespace this is (`user:[…]`), zombies included."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                if os.readlink(f"/proc/{entry.name}/ns/user") == namespace:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
