"""What one can see of a section of learned rewards, and of rows of labelled steps."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ropewalk.models.export import save_scorer
from ropewalk.models.load import load_scorer
from ropewalk.records.errors import RopewalkError
from ropewalk.runtime.assemble import start_source
from ropewalk.runtime.learned.calls import learned_rewards
from ropewalk.runtime.learned.outside import learned_scores
from ropewalk.runtime.learned.read import Said
from ropewalk.runtime.prepare import language_of, step_rows
from ropewalk.runtime.progress import Silent
from ropewalk.runtime.recipe import read_recipe
from tests.fakes import nudge

TEXTS = ("[ boston is sunny and windy and cool .", "[ denver is rainy .", "[ austin is humid and snowy .")


def make_rewards(folder: Path, reward_model: Path) -> None:
    """`other-rm`, a reward model of other weights, and `heads`, one with three heads."""
    other = load_scorer(reward_model / "model")
    nudge(other.network, 1)
    save_scorer(other, folder / "other-rm")
    wide = load_scorer(reward_model / "model")
    head = wide.network.reward_head
    assert head is not None
    wide.network.set_reward_heads(torch.cat([head.weight, head.weight.flip(1), -head.weight]))
    wide.network.config.id2label = {0: "help", 1: "safe", 2: "spare"}
    save_scorer(wide, folder / "heads")


def rewarded(_: Any, name: str, settings: Mapping[str, Any]) -> Any:
    """The score of each learned reward for a few sentences."""
    recipe: Any = read_recipe(name, settings)
    language = language_of(start_source(recipe, None))
    said = []
    for text in TEXTS:
        ids = np.array(language.tokenizer.encode(text, add_special_tokens=False))
        said.append(Said(ids, np.arange(len(ids)) >= 2, ended=True))
    return {
        one.name: learned_scores(one, [said], language, recipe.hardware)[0].tolist() for one in learned_rewards(recipe)
    }


def step_ids(_: Any, name: str, settings: Mapping[str, Any]) -> Any:
    """Rows of labelled steps as ids, those to train on and those held out; or why there are none."""
    recipe: Any = read_recipe(name, settings)
    try:
        rows = step_rows(recipe.data, language_of(start_source(recipe, None)), recipe.seed, Silent())
    except RopewalkError as error:
        return str(error)
    return [[(row.ids.tolist(), list(row.ends), list(row.labels)) for row in side] for side in (rows.train, rows.held)]
