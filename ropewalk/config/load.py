"""From TOML text and overrides to a frozen section, or to all problems at once.

The order is: merge the overrides into the file's data, look for unknown keys (with the nearest valid name),
fill what is partly given from its default, then check types and values. Nothing is ever dropped in silence.

* A table given as an override is merged key by key; a list replaces the list; `stage.0.x` reaches into one.
* An override that chooses another variant of a tagged union drops those keys *of the file* that the new
  variant does not have. Keys that both have are kept; keys of overrides are never dropped.
* A section given in part keeps the rest of its field's default, and a missing `kind` is the default's.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

import tomli_w
from pydantic import TypeAdapter, ValidationError

from ropewalk.config.problems import unknown_key, value_problems
from ropewalk.config.schema import (
    Many,
    Named,
    Section,
    Shape,
    Table,
    field_default,
    field_shape,
    keys,
    shape_of,
)

S = TypeVar("S", bound=Section)


class ConfigError(Exception):
    """All problems of a recipe at once, unknown keys first; each is one sentence."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems: list[str] = list(problems)


@overload
def load(schema: type[S], data: Mapping[str, Any], overrides: Mapping[str, Any] = ...) -> S: ...
@overload
def load(schema: Any, data: Mapping[str, Any], overrides: Mapping[str, Any] = ...) -> Any: ...
def load(schema: Any, data: Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> Any:
    """An instance of `schema` (a Section class, or a union of them tagged by `kind` or `method`).

    `overrides` maps dotted keys to values (see `parse_override`). Raises `ConfigError` with all problems.
    """
    shape = shape_of(schema)
    merged = _merge(shape, dict(data), _tree(overrides or {}), None)
    preparation = _Preparation(schema)
    clean = preparation.value("", shape, merged, None)
    try:
        section = TypeAdapter(schema).validate_json(json.dumps(clean, default=str), strict=True)
    except ValidationError as error:
        raise ConfigError([*preparation.problems, *value_problems(shape, clean, error.errors())]) from None
    if preparation.problems:
        raise ConfigError(preparation.problems)
    return section


def read_toml(path: str | Path) -> dict[str, Any]:
    """The data of a TOML file; a `ConfigError` names the file and, for broken text, the line."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError([f"there is no file {path}: check the path"]) from None
    except IsADirectoryError:
        raise ConfigError([f"{path} is a folder: name a .toml file in it"]) from None
    except UnicodeDecodeError:
        raise ConfigError([f"{path} is not UTF-8 text: a recipe is a TOML file"]) from None
    except OSError as error:
        raise ConfigError([f"{path} cannot be read ({error.strerror}): check its permissions"]) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{path} is not TOML: {error}"]) from None


def parse_override(text: str) -> tuple[str, Any]:
    """`"actor.optimizer.lr=3e-6"` → `("actor.optimizer.lr", 3e-6)`: TOML values, bare words are strings."""
    path, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not path or not all(part.strip() for part in path.split(".")):
        raise ConfigError([f"override {text!r} is not of the form section.key=value"])
    try:
        parsed = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError as error:
        if value == "" or value[0] in "\"'[{":
            raise ConfigError([f"override {text!r} has a value that is not TOML: {error}"]) from None
        return path, value
    plain = isinstance(parsed["value"], bool | int | float | str | list | dict)
    return path, parsed["value"] if plain and len(parsed) == 1 else value


def to_toml(section: Section) -> str:
    """The resolved section as TOML that loads back to an equal one; what is None by default is left out."""
    return tomli_w.dumps(_writable(section, None), multiline_strings=False)


def _tree(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted paths → nested tables, in order; later ones win."""
    tree: dict[str, Any] = {}
    for path, value in overrides.items():
        node = tree
        *parents, last = path.split(".")
        for name in parents:
            if not isinstance(node.get(name), dict):
                node[name] = {}
            node = node[name]
        node[last] = _deep(node.get(last), value)
    return tree


def _deep(old: Any, new: Any) -> Any:
    if not isinstance(new, Mapping):
        return new
    under = old if isinstance(old, dict) else {}
    return {**under, **{name: _deep(under.get(name), value) for name, value in new.items()}}


def _merge(shape: Shape, base: Any, over: Any, default: object) -> Any:
    """`over` laid over `base`, with the rules of the module docstring."""
    if isinstance(base, list) and isinstance(over, Mapping) and _are_indices(over, len(base)):
        inner = shape.of if isinstance(shape, Many) else shape
        return [
            _merge(inner, item, over.get(str(i), {}), None) if str(i) in over else item for i, item in enumerate(base)
        ]
    if not isinstance(over, Mapping):
        return over
    old = dict(base) if isinstance(base, Mapping) else {}
    variant: type[Section] | None = None
    if isinstance(shape, Table):
        variant = shape.choose({**old, **over}, default)
        if variant is not None and variant is not shape.choose(old, default):
            old = {name: value for name, value in old.items() if name in variant.model_fields}
    for name, value in over.items():
        inner = _inner(shape, variant, name)
        below = field_default(variant, name) if variant else None
        old[name] = _merge(inner, old.get(name), value, below)
    return old


def _inner(shape: Shape, variant: type[Section] | None, name: str) -> Shape:
    if variant is not None:
        return field_shape(variant, name)
    return shape.of if isinstance(shape, Named) else shape_of(None)


def _are_indices(over: Mapping[str, Any], length: int) -> bool:
    return bool(over) and all(name.isdigit() and int(name) < length for name in over)


class _Preparation:
    """Collects unknown keys and gives data that hold only known ones, defaults of half-given sections filled in."""

    def __init__(self, schema: object) -> None:
        self.problems: list[str] = []
        self._keys = keys(schema)

    def value(self, path: str, shape: Shape, data: Any, default: object) -> Any:
        if shape.nullable and data == "none":
            return None
        if isinstance(shape, Many) and isinstance(data, list | tuple):
            return [self.value(f"{path}[{i}]", shape.of, item, None) for i, item in enumerate(data)]
        if not isinstance(data, Mapping):
            return data
        if isinstance(shape, Named):
            return {name: self.value(_join(path, name), shape.of, item, None) for name, item in data.items()}
        return self._table(path, shape, data, default) if isinstance(shape, Table) else dict(data)

    def _table(self, path: str, table: Table, data: Mapping[str, Any], default: object) -> dict[str, Any]:
        variant = table.choose(data, default)
        if variant is None:
            strange = [name for name in data if not any(name in v.model_fields for v in table.variants)]
            self.problems += [unknown_key(path, name, table, None, self._keys) for name in strange]
            return dict(data)
        same = default if type(default) is variant else None
        clean: dict[str, Any] = {}
        if table.tag and table.tag not in data:
            clean[table.tag] = getattr(same, table.tag)
        if isinstance(same, Section):
            clean |= {name: _plain(getattr(same, name)) for name in variant.model_fields if name not in data}
        for name, value in data.items():
            if name not in variant.model_fields:
                self.problems.append(unknown_key(path, name, table, variant, self._keys))
                continue
            below = getattr(same, name) if same is not None else field_default(variant, name)
            clean[name] = self.value(_join(path, name), field_shape(variant, name), value, below)
        return clean


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _plain(value: Any) -> Any:
    """A value of a section as JSON-able data, None kept."""
    if isinstance(value, Section):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    return str(value) if isinstance(value, Path) else value


def _writable(section: Section, default: object) -> dict[str, Any]:
    """Like `_plain`, but None left out, or written "none" where leaving it out would give something else."""
    same = default if type(default) is type(section) else None
    written: dict[str, Any] = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        unset = getattr(same, name) if same is not None else field_default(type(section), name)
        if isinstance(value, Section):
            written[name] = _writable(value, unset)
        elif value is not None:
            written[name] = _writable_item(value)
        elif unset is not None:
            written[name] = "none"
    return written


def _writable_item(value: Any) -> Any:
    if isinstance(value, Section):
        return _writable(value, None)
    if isinstance(value, Mapping):
        return {name: _writable_item(item) for name, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_writable_item(item) for item in value]
    return _plain(value)
