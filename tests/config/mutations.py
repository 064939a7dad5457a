"""Every way to get one key of a valid recipe wrong that the faults tell of."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ropewalk.config.schema import Many, Named, Shape, Table, field_default, field_shape, shape_of


@dataclass(frozen=True)
class Mutation:
    """A wrong recipe, and the key that the complaint must name."""

    name: str
    key: str
    data: dict[str, Any]


def mutations(schema: object, data: dict[str, Any]) -> Iterator[Mutation]:
    """A typo, a hyphen, a wrong level and a wrong type for every key of `data` that the schema names."""
    for path in key_paths(shape_of(schema), data):
        key, dotted = str(path[-1]), ".".join(map(str, path))
        for wrong in (
            f"{key}x",
            key[1:] if len(key) > 2 else f"z{key}",
            key.replace("_", "-") if "_" in key else f"-{key}",
        ):
            yield Mutation(f"{dotted} spelt {wrong}", wrong, _renamed(data, path, wrong))
        if len(path) > 1 and key not in data:
            yield Mutation(f"{dotted} at the top", key, _moved_up(data, path))
        yield Mutation(f"{dotted} of a wrong type", key, _retyped(data, path))


def key_paths(shape: Shape, data: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of the keys of sections in `data`; free names are not keys."""
    if isinstance(shape, Many):
        for number, item in enumerate(data):
            yield from key_paths(shape.of, item, (*path, number))
    elif isinstance(shape, Named):
        for name, item in data.items():
            yield from key_paths(shape.of, item, (*path, name))
    elif isinstance(shape, Table):
        default = field_default(shape.variants[0], str(path[-1])) if path else None
        variant = shape.choose(data, default) or shape.variants[0]
        for name, item in data.items():
            yield (*path, name)
            yield from key_paths(field_shape(variant, name), item, (*path, name))


def _holder(data: Any, path: tuple[str | int, ...]) -> Any:
    for step in path[:-1]:
        data = data[step]
    return data


def _renamed(data: dict[str, Any], path: tuple[str | int, ...], wrong: str) -> dict[str, Any]:
    changed = copy.deepcopy(data)
    holder = _holder(changed, path)
    holder[wrong] = holder.pop(path[-1])
    return changed


def _moved_up(data: dict[str, Any], path: tuple[str | int, ...]) -> dict[str, Any]:
    changed = copy.deepcopy(data)
    changed[str(path[-1])] = _holder(changed, path).pop(path[-1])
    return changed


def _retyped(data: dict[str, Any], path: tuple[str | int, ...]) -> dict[str, Any]:
    changed = copy.deepcopy(data)
    holder = _holder(changed, path)
    old = holder[path[-1]]
    number = isinstance(old, int | float) and not isinstance(old, bool)
    holder[path[-1]] = str(old) if number or isinstance(old, bool) else 17.5
    return changed
