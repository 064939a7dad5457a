"""A run's model copied out as a plain Hugging Face folder, which transformers loads without ropewalk."""

import json
from pathlib import Path
from typing import cast

from ropewalk.models.export import save_policy, save_scorer
from ropewalk.models.load import Dtype, load_policy, load_scorer
from ropewalk.records.errors import InputError
from ropewalk.runtime.recipe import ProcessRewardModelRecipe, RewardModelRecipe, SampleRecipe, StagesRecipe, read_recipe
from ropewalk.runtime.run import Run, model_folder, open_run


def export(run: str | Path | Run, folder: str | Path, *, dtype: Dtype | None = None) -> Path:
    """Copy the model of a run (`runs/x`, or `runs/x@best`), in `dtype` or as it is stored; the new folder.

    It appears whole or not at all. Raises `InputError` if it exists, or if the run has no model.
    """
    name, _, which = (str(run.folder) if isinstance(run, Run) else str(run)).partition("@")
    opened = open_run(name)
    recipe = read_recipe(opened.recipe_file)
    if isinstance(recipe, StagesRecipe):
        stages = ", ".join(str(opened.folder / stage.name) for stage in recipe.stage)
        raise InputError(f"{name} is a chain of stages: export one of them: {stages}")
    if isinstance(recipe, SampleRecipe):
        raise InputError(f"{name} only sampled and trained nothing, so it has no model to export")
    if Path(folder).exists():
        raise InputError(f"{folder} exists already: name another folder or remove it")
    source = model_folder(f"{opened.folder}@{which or 'last'}")
    stored = stored_dtype(source)
    if isinstance(recipe, RewardModelRecipe | ProcessRewardModelRecipe):
        return save_scorer(load_scorer(source, dtype=stored), folder, dtype=dtype)
    return save_policy(load_policy(source, dtype=stored), folder, dtype=dtype)


def stored_dtype(folder: Path) -> Dtype:
    """The number format of a folder's weights, as its config says."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    stored = config.get("dtype") or config.get("torch_dtype") or "float32"
    if stored not in ("float32", "bfloat16"):
        raise InputError(f"{folder} holds {stored} weights: ropewalk writes float32 and bfloat16")
    return cast(Dtype, stored)
