"""Which case a command line asks for: a recipe, a case file, or sizes and a cluster by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ropewalk.cli.settings import overrides
from ropewalk.config.load import ConfigError, read_toml
from ropewalk.plan.graph import CallGraph
from ropewalk.plan.shape import ModelShape
from ropewalk.planner.case.describe import Case, describe, workload
from ropewalk.planner.case.graphs import METHODS, assign_shapes, check_role, doubts
from ropewalk.planner.case.hardware import cluster
from ropewalk.planner.case.machine import THIS_MACHINE
from ropewalk.planner.case.space import default_space
from ropewalk.planner.estimate.calibration import calibration
from ropewalk.records.errors import InputError
from ropewalk.runtime.look.sizes import sizes_of
from ropewalk.runtime.recipe import read_recipe, recipe_path

EXAMPLE = "ropewalk plan --method ppo --actor 7b --critic 34b --cluster 32xa100"


@dataclass(frozen=True)
class Given:
    """What a command line says of a case; empty where it says nothing."""

    what: str = ""
    method: str = ""
    models: Mapping[str, str] | None = None
    cluster: str = ""
    workload: str = ""
    calibration: str = ""
    settings: Sequence[str] = ()


def asked_case(given: Given) -> tuple[Case, tuple[str, ...]]:
    """The case, and what it takes for granted. Raises InputError or ConfigError: what is wrong and the mend."""
    case, notes = _case(given)
    return case, (*notes, *doubts(case.shapes))


def _case(given: Given) -> tuple[Case, tuple[str, ...]]:
    if given.calibration:
        calibration(given.calibration)
    if not given.what:
        return _by_names(given), ()
    path = Path(given.what)
    if path.suffix == ".toml" and path.is_file():
        data = read_toml(path)
        if "models" in data or "cluster" in data:
            return _by_file(path, data, given), ()
    elif path.suffix == ".toml":
        raise InputError(f"there is no file {path}: give a case or a recipe, or {EXAMPLE}")
    return _by_recipe(given)


def _by_names(given: Given) -> Case:
    models = dict(given.models or {})
    if not models or not given.cluster:
        raise InputError(f"a plan needs a recipe, a case file, or models and a cluster: {EXAMPLE}")
    method = given.method or "ppo"
    sizes = " + ".join(f"{role} {size}" for role, size in models.items())
    data: dict[str, Any] = {
        "name": f"{method} of {sizes} on {given.cluster}",
        "method": method,
        "models": models,
        "cluster": given.cluster,
    }
    data |= {"workload": given.workload} if given.workload else {}
    data |= {"calibration": given.calibration} if given.calibration else {}
    return describe(data, overrides(given.settings))


def _by_file(path: Path, data: Mapping[str, Any], given: Given) -> Case:
    """A case file, with what the command line says in place of what it says. Its paths start at its own folder."""
    said = dict(data)
    for key in ("method", "calibration"):
        said |= {key: getattr(given, key)} if getattr(given, key) else {}
    for key in ("cluster", "workload"):
        value = getattr(given, key)
        said |= {key: str(Path(value).resolve()) if Path(value).is_file() else value} if value else {}
    if given.models:
        said["models"] = {**dict(data.get("models", {})), **given.models}
    try:
        return describe(said, overrides(given.settings), beside=path.parent)
    except ConfigError as error:
        named = [problem if str(path) in problem else f"{path}: {problem}" for problem in error.problems]
        raise ConfigError(named) from None


def _by_recipe(given: Given) -> tuple[Case, tuple[str, ...]]:
    if given.method:
        raise InputError(f"recipe {given.what} says its own method: leave --method out")
    recipe = read_recipe(recipe_path(given.what), overrides(given.settings))
    found = sizes_of(recipe, given=bool(given.models))
    shapes = _shapes(found.graph, found.shapes, given.models or {})
    work, notes = found.workload, list(found.notes)
    if given.workload:
        work = replace(workload(given.workload, _nearest(found.method)), dtype=work.dtype)
        notes = []
    machines = cluster(given.cluster or THIS_MACHINE)
    machines.check_dtype(work.dtype)
    case = Case(
        name=f"{given.what} on {machines.name}",
        method=found.method,
        graph=found.graph,
        shapes=shapes,
        cluster=machines,
        workload=work,
        calibration=given.calibration or "default",
        space=default_space(machines, shapes),
    )
    return case, tuple(notes)


def _shapes(graph: CallGraph, known: Mapping[str, ModelShape], sizes: Mapping[str, str]) -> dict[str, ModelShape]:
    """Sizes of the command line before those of the recipe; a role that has neither follows from the others."""
    for role in sizes:
        check_role(role, graph.roles)
    try:
        return assign_shapes(graph, {**known, **sizes})
    except InputError as error:
        if sizes:
            raise
        raise InputError(f"{error}, with --actor or --role") from None


def _nearest(method: str) -> str:
    plain = method.replace("_", "-")
    return plain if plain in METHODS else "sft"
