"""What every section of a recipe is, and how a schema of sections is walked.

Every value of a section can be written in TOML and read back: in a field that may be None, the word
"none" is None; infinities and NaN are refused.
"""

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

Seed: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
"""What every random generator in use takes: numpy's refuse negative numbers, torch's more than 64 bits."""


class Section(BaseModel):
    """Base of all sections: frozen, unknown keys refused, the docstring under a field is its description."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True, protected_namespaces=()
    )


@dataclass(frozen=True)
class Leaf:
    """A plain value."""

    nullable: bool = False


@dataclass(frozen=True)
class Table:
    """A section, or a tagged union of sections told apart by the field `tag`."""

    variants: tuple[type[Section], ...]
    tag: str | None = None
    nullable: bool = False

    def tags(self) -> dict[str, type[Section]]:
        """Variant by each value of the tag; empty where there is only one variant and no tag."""
        tag = self.tag
        return {value: v for v in self.variants for value in tag_values(v, tag)} if tag else {}

    def choose(self, data: Mapping[str, Any], default: object = None) -> type[Section] | None:
        """The variant that `data` names, else that of the field's default; None if it names no variant."""
        if self.tag is None:
            return self.variants[0]
        if self.tag in data:
            named = data[self.tag]
            return self.tags().get(named) if isinstance(named, str) else None
        return type(default) if isinstance(default, self.variants) else None


@dataclass(frozen=True)
class Many:
    """A list of `of`."""

    of: "Shape"
    nullable: bool = False


@dataclass(frozen=True)
class Named:
    """A table from free names to `of`."""

    of: "Shape"
    nullable: bool = False


Shape = Leaf | Table | Many | Named


@dataclass(frozen=True)
class Key:
    """One key that a recipe may hold."""

    path: str
    """Dotted; `[]` after a list, `*` for a free name."""
    section: type[Section]
    field: str


def shape_of(annotation: object, tag: str | None = None) -> Shape:
    """The shape behind a type annotation; a union of sections must declare its discriminator."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        tags = [m.discriminator for m in arguments[1:] if isinstance(m, FieldInfo) and m.discriminator]
        return shape_of(arguments[0], str(tags[0]) if tags else tag)
    if origin in (Union, types.UnionType):
        return _shape_of_union(arguments, tag)
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return Table((annotation,))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inner = shape_of(arguments[1])
        return Leaf() if isinstance(inner, Leaf) else Named(inner)
    if isinstance(origin, type) and issubclass(origin, Sequence) and arguments:
        inner = shape_of(arguments[0])
        return Leaf() if isinstance(inner, Leaf) else Many(inner)
    return Leaf()


def _shape_of_union(members: Sequence[object], tag: str | None) -> Shape:
    nullable = type(None) in members
    shapes = [shape_of(member, tag) for member in members if member is not type(None)]
    tables = [shape for shape in shapes if isinstance(shape, Table)]
    if len(shapes) == 1:
        return replace(shapes[0], nullable=nullable)
    if not tables:
        return Leaf(nullable)
    names = [name for name in (tag, *(t.tag for t in tables)) if name]
    variants = tuple(variant for table in tables for variant in table.variants)
    for name in names:
        if len(tables) == len(shapes) and all(tag_values(variant, name) for variant in variants):
            return Table(variants, name, nullable)
    raise TypeError(
        f"the union of {', '.join(v.__name__ for v in variants)} needs Field(discriminator='kind') or 'method', "
        "a Literal field that each of them has"
    )


def tag_values(section: type[Section], tag: str) -> tuple[str, ...]:
    """The values by which a variant is named: the arguments of its Literal field `tag`."""
    field = section.model_fields.get(tag)
    if field is None or get_origin(field.annotation) is not Literal:
        return ()
    return tuple(str(value) for value in get_args(field.annotation))


@cache
def field_shape(section: type[Section], name: str) -> Shape:
    """Shape of a field; a `Leaf` for a name the section does not have."""
    field = section.model_fields.get(name)
    if field is None:
        return Leaf()
    discriminator = field.discriminator
    return shape_of(field.annotation, discriminator if isinstance(discriminator, str) else None)


def field_default(section: type[Section], name: str) -> Any:
    """What a field holds if it is not given; None if it must be given."""
    field = section.model_fields.get(name)
    return None if field is None or field.is_required() else field.get_default(call_default_factory=True)


def keys(schema: object) -> tuple[Key, ...]:
    """Every key of every section of the schema, through all variants, lists and free names."""
    return _keys_of(shape_of(schema))


@cache
def _keys_of(shape: Shape) -> tuple[Key, ...]:
    """Thousands for a recipe, and always the same: walked once."""
    return tuple(_walk(shape, "", ()))


def _walk(shape: Shape, path: str, above: tuple[type[Section], ...]) -> Iterator[Key]:
    if isinstance(shape, Many):
        yield from _walk(shape.of, f"{path}[]", above)
    elif isinstance(shape, Named):
        yield from _walk(shape.of, f"{path}.*", above)
    elif isinstance(shape, Table):
        for variant in shape.variants:
            if variant in above:
                continue
            for name in variant.model_fields:
                dotted = f"{path}.{name}" if path else name
                yield Key(dotted, variant, name)
                yield from _walk(field_shape(variant, name), dotted, (*above, variant))
