"""A recipe's sizes are those of its own graph, settings and models, found without torch."""

import pytest

from ropewalk.config.load import ConfigError
from ropewalk.records.errors import InputError
from ropewalk.runtime.assemble import graph_of
from ropewalk.runtime.look.sizes import UNKNOWN_PROMPT, sizes_of
from ropewalk.runtime.recipe import GRPORecipe, PPORecipe, SFTRecipe, built_in, read_recipe


@pytest.mark.parametrize("name", ["city-ppo", "city-grpo", "grpo-sums"])
def test_online_recipes_give_their_batches_and_lengths(name: str) -> None:
    recipe = read_recipe(name)
    assert isinstance(recipe, PPORecipe | GRPORecipe)
    found = sizes_of(recipe, given=True)
    method = recipe.ppo if isinstance(recipe, PPORecipe) else recipe.grpo
    work = found.workload
    assert found.graph == graph_of(recipe) and found.method == recipe.method
    assert (work.prompts, work.group_size) == (recipe.rollout.prompts, recipe.rollout.group_size)
    assert (work.minibatches, work.epochs, work.dtype) == (method.minibatches, method.epochs, recipe.precision.dtype)
    assert work.generated_tokens.longest == recipe.sampling.max_new_tokens
    assert work.prompt_tokens.longest == UNKNOWN_PROMPT and "not here" in found.notes[0]


def test_a_fresh_model_has_its_shape_before_it_exists() -> None:
    recipe = read_recipe("city-pretrain", {"data.sentences": 500})
    assert isinstance(recipe, SFTRecipe)
    found = sizes_of(recipe)
    assert found.workload.prompts == recipe.sft.rows_per_step
    assert list(found.shapes) == ["actor"] and found.shapes["actor"].layers > 0


def test_what_has_no_iteration_of_its_own_is_refused() -> None:
    with pytest.raises(InputError, match="plan one of city-pretrain"):
        sizes_of(read_recipe("city-lab"))
    with pytest.raises(InputError, match="trains nothing"):
        sizes_of(read_recipe("city-pairs"))


def test_missing_models_are_told_unless_sizes_come_from_elsewhere() -> None:
    with pytest.raises(ConfigError):
        sizes_of(read_recipe("city-grpo", {"start_from": "runs/nowhere"}))
    assert sizes_of(read_recipe("city-grpo", {"start_from": "runs/nowhere"}), given=True).shapes == {}


def test_every_built_in_recipe_that_trains_can_be_sized() -> None:
    for name in built_in():
        recipe = read_recipe(name)
        if recipe.method not in ("stages", "sample"):
            assert sizes_of(recipe, given=True).workload.sequences > 0
