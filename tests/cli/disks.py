"""A disk that is soon full: a small file system where one may be mounted, else a limit on the size of files."""

import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SOURCE = "ropewalk-small-disk"
"""By which a test that counts what is mounted on the machine knows that another one has mounted this."""


@dataclass(frozen=True)
class Disk:
    """A folder with little room, and the way to get more."""

    folder: Path
    grow: Callable[[], object]


@contextmanager
def small_disk(place: Path, kilobytes: int) -> Iterator[Disk]:
    """`kilobytes` of room under `place`; where nothing may be mounted, no file longer than a quarter of that."""
    place.mkdir()
    mounted = _run("mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", SOURCE, str(place))
    if mounted:
        try:
            yield Disk(place, lambda: _run("mount", "-o", "remount,size=200m", str(place)))
        finally:
            _run("umount", "-l", str(place))
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes * 1024 // 4, before[1]))
    try:
        yield Disk(place, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _run(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
