"""Resident memory of a program and all its descendants: what no limit of the kernel bounds without cgroups."""

import os
from collections.abc import Iterable
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(pid: int) -> int:
    """Memory of the process and of everything below it; processes that end meanwhile count for nothing."""
    return sum(_pages(each) for each in family(pid)) * PAGE_BYTES


def family(pid: int) -> Iterable[int]:
    """The process and all its descendants, as they are now."""
    found, waiting = [], [pid]
    while waiting:
        each = waiting.pop()
        found.append(each)
        waiting += _children(each)
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            children += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())
    except OSError:
        pass
    return children


def _pages(pid: int) -> int:
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_bytes().split()
    except (OSError, ValueError):
        return 0
    return int(resident) - int(shared)
