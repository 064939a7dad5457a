"""From files and names to what is planned: the graph, the shapes, the cluster, the workload, the space.

A case is one TOML file (or the same data from a command line). In it a cluster may be a name, lengths may be numbers,
a workload may be `512x8:128+896` (prompts x samples : prompt + answer tokens) or the path of a workload file.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ropewalk.config.load import ConfigError, load, read_toml
from ropewalk.plan.cluster import Cluster
from ropewalk.plan.graph import CallGraph
from ropewalk.plan.shape import ModelShape
from ropewalk.plan.workload import Workload
from ropewalk.planner.case.config import CaseSection, ClusterChoice, NamedCluster, SpaceSection, WorkloadSection
from ropewalk.planner.case.graphs import assign_shapes, check_role, freeze, method_graph, split_name, trained_roles
from ropewalk.planner.case.hardware import cluster, cluster_of, spelled_cluster
from ropewalk.planner.case.lengths import lengths_of, spelled_lengths
from ropewalk.planner.case.space import Space, check_space, default_space
from ropewalk.records.errors import InputError

_SHORTHAND = re.compile(r"(?P<prompts>\d+)(?:x(?P<group>\d+))?:(?P<prompt>\d+)\+(?P<generated>\d+)")


@dataclass(frozen=True, slots=True)
class Case:
    """All that a plan is made from."""

    name: str
    method: str
    graph: CallGraph
    shapes: Mapping[str, ModelShape]
    cluster: Cluster
    workload: Workload
    calibration: str
    """Name of the constants that the estimates use."""
    space: Space


def read_case(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Case:
    """The case of a TOML file; paths in it start at its folder."""
    file = Path(path)
    try:
        return describe(read_toml(file), overrides, beside=file.parent)
    except ConfigError as error:
        raise ConfigError([_named(file, problem) for problem in error.problems]) from None


def describe(
    data: Mapping[str, Any], overrides: Mapping[str, Any] | None = None, *, beside: Path | None = None
) -> Case:
    """The case of data of the form of a case file. Raises InputError or ConfigError: what is wrong and the mend."""
    section = load(CaseSection, _spelled(data, beside), _spelled_overrides(overrides or {}))
    graph = method_graph(section.method)
    if section.workload.frozen:
        graph = freeze(graph, section.workload.frozen)
    shapes = assign_shapes(graph, section.models, beside=beside)
    machines = _cluster(section.cluster, beside)
    workload = workload_of(section.workload, section.method, graph, beside=beside)
    machines.check_dtype(workload.dtype)
    space = _space(section.space, machines, shapes)
    return Case(section.name, section.method, graph, shapes, machines, workload, section.calibration, space)


def workload(text: str | Path, method: str = "ppo", *, beside: Path | None = None) -> Workload:
    """A workload by shorthand or file, for a method."""
    section = load(WorkloadSection, _spelled_workload(str(text), beside))
    graph = method_graph(method)
    return workload_of(section, method, freeze(graph, section.frozen) if section.frozen else graph, beside=beside)


def workload_of(section: WorkloadSection, method: str, graph: CallGraph, *, beside: Path | None = None) -> Workload:
    """The noun of a section. Raises InputError for what the method cannot do."""
    usual = split_name(method)[0].group_size
    size = section.group_size or usual
    if any(call.unit == "pair" for call in graph.calls) and size != 2:
        raise InputError(f"{method} trains on pairs, so group_size = {size} means nothing: leave it out, or give 2")
    trained = trained_roles(graph)
    for role in section.lora_rank:
        check_role(role, graph.roles)
        if role not in trained:
            raise InputError(
                f"role {role!r} is frozen, so adapters on it would never change: give lora_rank to one of "
                f"{', '.join(sorted(trained))}"
            )
    return Workload(
        prompts=section.prompts,
        group_size=size,
        prompt_tokens=lengths_of(section.prompt_tokens, "prompt_tokens", beside=beside),
        generated_tokens=lengths_of(section.generated_tokens, "generated_tokens", beside=beside),
        minibatches=section.minibatches,
        epochs=section.epochs,
        dtype=section.dtype,
        lora_rank=dict(section.lora_rank) or None,
    )


def _cluster(section: ClusterChoice, beside: Path | None) -> Cluster:
    if isinstance(section, NamedCluster):
        return cluster(section.name, beside=beside)
    return cluster_of(section)


def _space(section: SpaceSection, machines: Cluster, shapes: Mapping[str, ModelShape]) -> Space:
    asked: dict[str, Any] = {
        "slice_sizes": section.slice_sizes,
        "tp": section.tp,
        "ep": section.ep,
        "pp_max": section.pp_max,
        "offload": section.offload,
        "shard": section.shard,
        "uneven_stages": section.uneven_stages,
        "blocks": section.blocks,
        "node_runs": section.node_runs,
    }
    usual = default_space(machines, shapes)
    space = replace(usual, **{name: value for name, value in asked.items() if value is not None})
    check_space(space, machines, shapes)
    return space


def _spelled(data: Mapping[str, Any], beside: Path | None) -> dict[str, Any]:
    """The data with every short form written out."""
    spelled = dict(data)
    if isinstance(data.get("cluster"), str):
        spelled["cluster"] = {"kind": "named", "name": data["cluster"]}
    elif isinstance(data.get("cluster"), Mapping):
        given = spelled_cluster(data["cluster"])
        spelled["cluster"] = {"kind": "given" if "group" in given else "named", **given}
    if isinstance(data.get("workload"), str | Mapping):
        spelled["workload"] = _spelled_workload(data["workload"], beside)
    return spelled


def _spelled_workload(data: str | Mapping[str, Any], beside: Path | None) -> dict[str, Any]:
    if isinstance(data, str):
        match = _SHORTHAND.fullmatch(data.replace(" ", ""))
        if match is None:
            return _workload_file((beside or Path()) / data)
        data = {"prompts": int(match["prompts"]), "prompt_tokens": int(match["prompt"])}
        data["generated_tokens"] = int(match["generated"])
        data |= {"group_size": int(match["group"])} if match["group"] else {}
    parts: Sequence[str] = ("prompt_tokens", "generated_tokens")
    return {**data, **{part: spelled_lengths(data[part]) for part in parts if part in data}}


def _workload_file(path: Path) -> dict[str, Any]:
    """A workload file's data; a path of lengths in it starts at its own folder."""
    if path.suffix != ".toml":
        raise InputError(
            f"workload {str(path)!r} is not understood: write prompts x samples : prompt + answer tokens such as "
            "'512x8:128+896', or the path of a .toml file"
        )
    data = _spelled_workload(read_toml(path), None)
    for part in ("prompt_tokens", "generated_tokens"):
        given = data.get(part)
        if isinstance(given, Mapping) and isinstance(given.get("path"), str):
            data[part] = {**given, "path": str(path.parent.resolve() / given["path"])}
    return data


def _spelled_overrides(overrides: Mapping[str, Any]) -> dict[str, Any]:
    spelled = dict(overrides)
    for part in ("workload.prompt_tokens", "workload.generated_tokens"):
        if part in spelled:
            spelled[part] = spelled_lengths(spelled[part])
    if isinstance(spelled.get("cluster"), str):
        spelled["cluster"] = {"kind": "named", "name": spelled["cluster"]}
    return spelled


def _named(file: Path, problem: str) -> str:
    return problem if str(file) in problem else f"{file}: {problem}"
