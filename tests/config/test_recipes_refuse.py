"""The built-in recipes under every mutation, and written back."""

import tomllib
from pathlib import Path

import pytest

from ropewalk.config.load import ConfigError, load, read_toml, to_toml
from ropewalk.runtime.recipe import SCHEMA, built_in
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
