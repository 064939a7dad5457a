"""This machine as a cluster: its GPUs if the driver shows any that are known, else its cores, measured.

Nothing is written; a measurement takes about a second and is kept as long as the process lives. torch is not needed.
"""

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from ropewalk.plan.cluster import Cluster, Gpu, NodeGroup
from ropewalk.records.errors import InputError

THIS_MACHINE = "this-machine"
DRIVER = Path("/proc/driver/nvidia/gpus")
MEMORY_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))

WIDTH, COPIED_BYTES, TRIES = 1024, 64_000_000, 3
PROCESS_LATENCY_SECONDS = 50e-6
"""Assumed: of a message between processes of one machine."""


def this_machine(*, gpus: Mapping[str, Cluster], driver: Path = DRIVER) -> Cluster:
    """One node with what is here. `gpus` are the known devices; unknown ones cannot be described without figures."""
    names = visible_gpus(driver)
    if not names:
        return _cores()
    if len(set(names)) > 1:
        raise InputError(
            f"this machine has GPUs of several kinds ({', '.join(sorted(set(names)))}): write a cluster file"
        )
    known = next((c for short, c in gpus.items() if _is(short, names[0])), None)
    if known is None:
        raise InputError(
            f"this machine has {len(names)} of {names[0]!r}, whose figures are not built in: write a cluster file"
        )
    return replace(known, name=THIS_MACHINE, groups=(replace(known.groups[0], nodes=1, gpus_per_node=len(names)),))


def visible_gpus(driver: Path = DRIVER) -> list[str]:
    """Model names that the driver shows, as far as CUDA_VISIBLE_DEVICES lets them be seen."""
    files = sorted(driver.glob("*/information"))
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    found = [match[1].strip() for text in texts if (match := re.search(r"^Model:\s*(.+)$", text, re.MULTILINE))]
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return found
    return found[: len([part for part in chosen.split(",") if part.strip() not in ("", "-1")])]


def _is(short: str, model: str) -> bool:
    """Whether a driver's model name, such as `NVIDIA A100-SXM4-80GB`, is the built-in device `a100`."""
    words = re.sub(r"[^a-z0-9]+", " ", model.lower()).replace("rtx ", "rtx").split()
    return short in words


@cache
def _cores() -> Cluster:
    """Every core is a device of its own, with its share of the machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    flops, copied = _measured(_multiply), _measured(_copy)
    gpu = Gpu(
        "CPU core",
        flops={"fp32": flops},
        memory_bytes=_memory_bytes() / cores,
        memory_bytes_per_second=copied / cores,
        dollars_per_hour=None,
        source=f"measured with numpy: a product of {WIDTH} x {WIDTH}, and 1/{cores} of a copy's bandwidth",
    )
    group = NodeGroup(
        gpu,
        nodes=1,
        gpus_per_node=cores,
        inside_bytes_per_second=copied / cores / 2,
        inside_latency_seconds=PROCESS_LATENCY_SECONDS,
        host_bytes_per_second=copied / cores,
    )
    return Cluster(THIS_MACHINE, (group,), group.inside_bytes_per_second, PROCESS_LATENCY_SECONDS)


def _measured(work: Callable[[], tuple[float, float]]) -> float:
    """The best rate of a few tries after one to warm up: what else runs here only makes it slower."""
    work()
    return max(amount / seconds for amount, seconds in (work() for _ in range(TRIES)))


def _multiply() -> tuple[float, float]:
    """FLOPs by the seconds of all threads together: a core's rate, however many cores took part."""
    left = np.ones((WIDTH, WIDTH), np.float32)
    out = np.empty_like(left)
    start = time.process_time()
    np.matmul(left, left, out=out)
    return 2.0 * WIDTH**3, time.process_time() - start


def _copy() -> tuple[float, float]:
    """Bytes read and written."""
    source = np.ones(COPIED_BYTES, np.uint8)
    target = np.zeros_like(source)
    start = time.perf_counter()
    np.copyto(target, source)
    return 2.0 * COPIED_BYTES, time.perf_counter() - start


def _memory_bytes() -> float:
    have = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in MEMORY_LIMITS:
        text = path.read_text().strip() if path.is_file() else ""
        have = min(have, float(text)) if text.isdigit() else have
    return have
