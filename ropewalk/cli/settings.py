"""What several commands ask for in the same way."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from ropewalk.config.load import ConfigError, parse_override
from ropewalk.records.errors import InputError
from ropewalk.runtime.recipe import Recipe, read_recipe

RECIPE = typer.Argument(metavar="RECIPE", help="A built-in recipe (see `ropewalk recipes`) or a TOML file.")
RUN = typer.Argument(metavar="RUN", help="A run folder, such as runs/city-grpo-1.")
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key: actor.optimizer.lr=3e-6; may be repeated."),
]


def overrides(texts: Sequence[str] | None) -> dict[str, Any]:
    """Every --set as key and value; all malformed ones at once."""
    found: dict[str, Any] = {}
    problems: list[str] = []
    for text in texts or ():
        try:
            key, value = parse_override(text)
        except ConfigError as error:
            problems += error.problems
        else:
            found[key] = value
    if problems:
        raise ConfigError(problems)
    return found


def checked_recipe(name: str, settings: Sequence[str] | None, *, deep: bool = False) -> Recipe:
    """The recipe, after a look at everything it names: wrong input is told before anything is loaded or made."""
    from ropewalk.runtime.look.dryrun import dry_run

    recipe = read_recipe(name, overrides(settings))
    problems = dry_run(recipe, deep=deep).problems
    if problems:
        raise ConfigError(problems)
    return recipe


def parent_exists(path: Path) -> Path:
    """A file to be written: its folder must be there, and it must be no folder itself."""
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file")
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written: its folder {path.parent} does not exist")
    return path
