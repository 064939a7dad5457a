"""The static proof that every setting is read: no option without effect (Fault Q3).

For each field of each section, the code of the package that owns the section, or of the floors that carry
settings out (runtime, cli), reads an attribute of that name outside the sections themselves. Fields that can
hold one value only (the tags of unions) are told apart by class and need no reader.
"""

import ast
import importlib
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

from ropewalk.config.schema import Section

PACKAGE = Path(__file__).resolve().parents[2] / "ropewalk"
CARRIERS = ("runtime", "cli")


def config_modules() -> list[str]:
    """Every module that defines sections."""
    files = [
        *PACKAGE.rglob("config.py"),
        PACKAGE / "runtime" / "recipe.py",
        PACKAGE / "runtime" / "evaluation" / "suite.py",
    ]
    return [".".join(("ropewalk", *file.relative_to(PACKAGE).with_suffix("").parts)) for file in sorted(files)]


def sections(base: type[Section] = Section) -> Iterator[type[Section]]:
    for section in base.__subclasses__():
        yield section
        yield from sections(section)


def attributes_read(source: str) -> set[str]:
    """Names of attributes read in a module, those inside the bodies of sections left out."""
    tree = ast.parse(source)
    inside: set[int] = set()
    names: set[str] = set()
    section_names = {"Section"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and section_names & {b.id for b in node.bases if isinstance(b, ast.Name)}:
            section_names.add(node.name)
            inside |= {id(child) for child in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            names.add(node.attr)
        elif isinstance(node, ast.MatchClass):
            names.update(node.kwd_attrs)
    return names


def unread_fields(section: type[Section], read: set[str]) -> list[str]:
    """Fields that the section itself declares and nobody reads."""
    return [
        f"{section.__module__}.{section.__name__}.{name}"
        for name in inspect.get_annotations(section)
        if name in section.model_fields and name not in read
        if not _holds_one_value(section.model_fields[name].annotation)
    ]


def _holds_one_value(annotation: object) -> bool:
    return get_origin(annotation) is Literal and len(get_args(annotation)) == 1


def read_in(folders: Iterable[str]) -> set[str]:
    files = [file for folder in folders for file in sorted((PACKAGE / folder).rglob("*.py"))]
    return set().union(*(attributes_read(file.read_text(encoding="utf-8")) for file in files))


@pytest.mark.parametrize("module", config_modules())
def test_every_field_of_every_section_is_read(module: str) -> None:
    """Fault Q3."""
    importlib.import_module(module)
    owner = module.split(".")[1]
    read = read_in((owner, *CARRIERS))
    unread = [name for s in sections() if s.__module__ == module for name in unread_fields(s, read)]
    assert not unread, f"nothing reads {unread}: use the field or take it out"


def test_sections_live_in_config_modules_only() -> None:
    for module in config_modules():
        importlib.import_module(module)
    strays = {s.__module__ for s in sections() if s.__module__.startswith("ropewalk.")} - set(config_modules())
    assert not strays, f"sections belong into a config.py: {strays}"


def test_a_planted_unread_field_is_found() -> None:
    """Fault Q3: the proof can fail. Writing, or reading inside the section, is not a use."""

    class Planted(Section):
        kind: Literal["planted"] = "planted"
        used: int = 0
        matched: int = 0
        dead: int = 0

    source = (
        "class Planted(Section):\n    dead: int\n    def check(self): return self.dead\n"
        "def f(c):\n    c.dead = 1\n    match c:\n        case Planted(matched=m): return c.used + m\n"
    )
    assert [name.rpartition(".")[2] for name in unread_fields(Planted, attributes_read(source))] == ["dead"]
