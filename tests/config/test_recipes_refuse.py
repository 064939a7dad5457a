"""The built-in recipes under every mutation, and written back."""

import tomllib
from pathlib import Path

import pytest

from ropewalk.config.load import ConfigError, load, read_toml, to_toml
from ropewalk.runtime.recipe import SCHEMA, RowRecipe, StagesRecipe, built_in, load_recipe
from tests.config.mutations import mutations


@pytest.mark.parametrize("path", built_in().values(), ids=lambda path: path.stem)
def test_every_wrong_key_of_a_built_in_recipe_is_refused_by_name(path: Path) -> None:
    """Fault Q2."""
    for mutation in mutations(SCHEMA, read_toml(path)):
        with pytest.raises(ConfigError) as caught:
            load(SCHEMA, mutation.data)
        assert any(mutation.key in problem for problem in caught.value.problems), mutation.name


@pytest.mark.parametrize("path", built_in().values(), ids=lambda path: path.stem)
def test_a_resolved_built_in_recipe_loads_back_equal(path: Path) -> None:
    recipe = load(SCHEMA, read_toml(path))
    assert load(SCHEMA, tomllib.loads(to_toml(recipe))) == recipe


@pytest.mark.parametrize("path", built_in().values(), ids=lambda path: path.stem)
def test_numbers_that_no_generator_or_thread_pool_takes_are_refused(path: Path) -> None:
    """They used to end in a traceback once the models were loaded."""
    data = read_toml(path)
    recipe = load_recipe(data)
    wrong: list[tuple[str, object]] = [("seed", -1), ("seed", 2**63)]
    if not isinstance(recipe, StagesRecipe):
        wrong += [("hardware.threads", 0), ("hardware.threads", -1)]
        if not isinstance(recipe, RowRecipe) and recipe.task.kind in ("city", "sums"):
            wrong.append(("task.seed", -1))
    for key, value in wrong:
        with pytest.raises(ConfigError) as caught:
            load_recipe(data, {key: value})
        assert all(key in problem for problem in caught.value.problems), caught.value.problems
