"""What this machine has, as far as it can be told without torch."""

import os
import platform
from pathlib import Path

CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
ACCELERATORS = ("/dev/nvidia0", "/dev/kfd")


def has_accelerator() -> bool:
    """Whether `auto` is likely to find one: its device file, or a Mac of Apple's own make."""
    apple = platform.system() == "Darwin" and platform.machine() == "arm64"
    return apple or any(Path(name).exists() for name in ACCELERATORS)


def machine_bytes() -> int | None:
    """Memory of this machine, or of the container if that is less; None if the system does not tell."""
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None
    limits = [int(text) for path in CONTAINER_LIMITS if (text := _read(path)).isdigit()]
    return min([found, *limits])


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
