"""Clusters from names and files: built-in devices, `32xa100`, `4x8xh100`, `16xh100+16xl4`, `this-machine`, a TOML file.

A built-in device is a cluster file with one node, in `clusters/`. Of 32 devices of a kind with 8 a node, 4 nodes are
made. Groups of different kinds are joined by the slowest of their networks.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from ropewalk.config.load import ConfigError, load, read_toml
from ropewalk.plan.cluster import Cluster, Gpu, NodeGroup
from ropewalk.planner.case.config import GivenCluster, GivenGpu, GpuChoice, NamedGpu, NodeGroupSection
from ropewalk.planner.case.machine import THIS_MACHINE, this_machine
from ropewalk.records.errors import InputError

FOLDER = Path(__file__).parent / "clusters"
ALIASES: Mapping[str, str] = {"a100-80g": "a100", "4090": "rtx4090", "rtx-4090": "rtx4090"}
_PART = re.compile(r"(?:(?P<first>-?\d+)x)?(?:(?P<second>-?\d+)x)?(?P<gpu>[a-z0-9][a-z0-9-]*)")


def builtin_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


@cache
def builtin(name: str) -> Cluster:
    """The one node that a built-in device comes in."""
    plain = name.strip().lower().replace("_", "-").replace(" ", "-")
    plain = ALIASES.get(plain, plain)
    known = builtin_names()
    if plain not in known:
        near = get_close_matches(plain, known, n=1, cutoff=0.0)[0]
        raise InputError(
            f"unknown GPU or cluster {name!r}: did you mean {near!r}? "
            f"(known: {', '.join(known)}, {THIS_MACHINE}, or the path of a cluster file)"
        )
    return read_cluster(FOLDER / f"{plain}.toml")


def cluster(name: str, *, beside: Path | None = None) -> Cluster:
    """The cluster of a name, a shorthand, or a file. Raises InputError or ConfigError saying what would be right."""
    if name.endswith(".toml") or "/" in name:
        return read_cluster((beside or Path()) / name)
    plain = name.strip().lower()
    if plain == THIS_MACHINE:
        return this_machine(gpus=_known_gpus())
    parts = [_part(name, part.strip()) for part in plain.split("+")]
    if len(parts) == 1:
        return replace(parts[0], name=name)
    return Cluster(
        name,
        tuple(group for part in parts for group in part.groups),
        between_bytes_per_second=min(part.between_bytes_per_second for part in parts),
        between_latency_seconds=max(part.between_latency_seconds for part in parts),
    )


def read_cluster(path: Path) -> Cluster:
    """The cluster of a TOML file."""
    data = spelled_cluster(read_toml(path))
    try:
        return cluster_of(load(GivenCluster, data))
    except ConfigError as error:
        raise ConfigError([f"{path}: {problem}" for problem in error.problems]) from None


def spelled_cluster(data: Mapping[str, Any]) -> dict[str, Any]:
    """Cluster data in which a device that is only named is written out as a table."""
    groups = data.get("group")
    if not isinstance(groups, list):
        return dict(data)
    return {**data, "group": [_spelled_group(group) for group in groups]}


def cluster_of(section: GivenCluster) -> Cluster:
    """The noun of a section."""
    return Cluster(
        section.name,
        tuple(_group_of(group) for group in section.group),
        between_bytes_per_second=section.between_bytes_per_second,
        between_latency_seconds=section.between_latency_seconds,
    )


def _spelled_group(group: Any) -> Any:
    if not isinstance(group, Mapping) or "gpu" not in group:
        return group
    gpu = group["gpu"]
    if isinstance(gpu, str):
        return {**group, "gpu": {"kind": "named", "name": gpu}}
    if isinstance(gpu, Mapping) and "kind" not in gpu:
        return {**group, "gpu": {"kind": "given" if "flops" in gpu or "memory_bytes" in gpu else "named", **gpu}}
    return group


def _group_of(section: NodeGroupSection) -> NodeGroup:
    return NodeGroup(
        _gpu_of(section.gpu),
        nodes=section.nodes,
        gpus_per_node=section.gpus_per_node,
        inside_bytes_per_second=section.inside_bytes_per_second,
        inside_latency_seconds=section.inside_latency_seconds,
        host_bytes_per_second=section.host_bytes_per_second,
    )


def _gpu_of(section: GpuChoice) -> Gpu:
    if isinstance(section, NamedGpu):
        known = builtin(section.name).groups[0].gpu
        if section.dollars_per_hour is None:
            return known
        return replace(known, dollars_per_hour=section.dollars_per_hour, dollars_range=None, dollars_source="given")
    assert isinstance(section, GivenGpu)
    return Gpu(
        section.name,
        flops=dict(section.flops),
        memory_bytes=section.memory_bytes,
        memory_bytes_per_second=section.memory_bytes_per_second,
        dollars_per_hour=section.dollars_per_hour,
        source=section.source,
        dollars_range=section.dollars_range,
        dollars_source=section.dollars_source,
    )


def _part(name: str, part: str) -> Cluster:
    """One `count x kind` of a shorthand."""
    match = _PART.fullmatch(part)
    if match is None:
        raise InputError(
            f"cluster {name!r} is not understood: write '32xa100', '4x8xh100' (nodes x GPUs), '16xh100+16xl4', "
            f"{THIS_MACHINE!r}, or the path of a cluster file"
        )
    node = builtin(match["gpu"])
    usual = node.groups[0].gpus_per_node
    if match["first"] is None:
        return node
    first, second = int(match["first"]), match["second"]
    if first < 1 or (second is not None and int(second) < 1):
        raise InputError(f"cluster {name!r} has no GPU: give at least 1 of each kind")
    nodes, each = (first, int(second)) if second is not None else _whole_nodes(match["gpu"], first, usual)
    return replace(node, groups=(replace(node.groups[0], nodes=nodes, gpus_per_node=each),))


def _whole_nodes(kind: str, gpus: int, usual: int) -> tuple[int, int]:
    if gpus <= usual:
        return 1, gpus
    if gpus % usual:
        fewer = gpus - gpus % usual
        raise InputError(
            f"{gpus} {kind} do not fill nodes of {usual}: ask for {fewer} or {fewer + usual}, or write "
            f"nodes x GPUs a node, such as '3x4x{kind}'"
        )
    return gpus // usual, usual


def _known_gpus() -> dict[str, Cluster]:
    return {name: builtin(name) for name in builtin_names()}
