"""The documents say what is: every path and command they name exists."""

import re
import tomllib
from pathlib import Path

import pytest

from ropewalk.runtime.recipe import load_recipe
from scripts import tree

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
RECIPES = sorted((ROOT / "ropewalk" / "recipes").glob("*.toml"))
PATH = re.compile(r"`([\w.]+/[\w./-]*|[\w-]+\.(?:py|md|toml|txt))`")
MAKE = re.compile(r"^`?make ([a-z][a-z0-9-]*)", re.MULTILINE)
COMMAND = re.compile(r"^`?(?:\.venv/bin/)?ropewalk ([a-z]+)(?: ([a-z0-9]+(?:-[a-z0-9]+)+)(?=[\s`]))?", re.MULTILINE)
MOST_KEYS = 39


def exists(name: str) -> bool:
    if name.startswith((".cache/", "runs/", ".venv/")):
        return True
    if "/" not in name:
        return (ROOT / name).exists() or any((ROOT / "ropewalk").rglob(name))
    return any((folder / name).exists() for folder in (ROOT, ROOT / "ropewalk"))


def test_every_path_in_the_tables_exists() -> None:
    rows = [line for line in (ROOT / "docs" / "architecture.md").read_text().splitlines() if line.startswith("|")]
    named = {name for row in rows for name in PATH.findall(row)}
    assert len(named) > 20
    assert not sorted(name for name in named if not exists(name))


def test_the_tree_is_current() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert tree.BLOCK.search(page)
    assert page == tree.refreshed(page), "run `make tree`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_named_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    code = re.findall(r"```.*?```|`[^`\n]+`", page.read_text(), re.DOTALL)
    assert {name for span in code for name in MAKE.findall(span)} <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_recipe_named_exists(page: Path) -> None:
    source = "".join(path.read_text() for path in sorted((ROOT / "ropewalk" / "cli").glob("*.py")))
    commands = set(re.findall(r'\.command\("(\w+)"\)', source))
    recipes = {recipe.stem for recipe in RECIPES}
    code = re.findall(r"```.*?```|`[^`\n]+`", page.read_text(), re.DOTALL)
    named = [match.groups() for span in code for match in COMMAND.finditer(span)]
    assert {command for command, _ in named} <= commands
    assert {recipe for _, recipe in named if recipe} <= recipes


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    assert not [link for link in links if not (page.parent / link).exists()]


@pytest.mark.parametrize("page", [ROOT / "docs" / "recipes.md"], ids=lambda page: page.name)
def test_every_whole_recipe_of_a_page_is_one(page: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(blocks) > 1
    for block in blocks:
        load_recipe(tomllib.loads(block))


def test_the_readme_names_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text and "make test" in text


def test_the_papers_of_the_house_are_there() -> None:
    for name in ("LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "docs/glossary.md", "docs/quickstart.md"):
        assert (ROOT / name).read_text().strip()
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text()


def keys(table: object, path: str = "") -> set[str]:
    """Distinct settings of a parsed TOML value; the stages of a chain share theirs, as rows of one table."""
    if isinstance(table, dict):
        return {key for name, value in table.items() for key in keys(value, f"{path}.{name}")}
    if isinstance(table, list) and any(isinstance(value, dict) for value in table):
        return {key for value in table for key in keys(value, path)}
    return {path}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_recipes_are_short(recipe: Path) -> None:
    assert len(keys(tomllib.loads(recipe.read_text()))) <= MOST_KEYS


def test_there_are_recipes() -> None:
    assert RECIPES
