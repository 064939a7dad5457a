"""What a dry run says of a run's prompts: their sources, how often each comes, and what becomes of flat groups."""

from collections.abc import Sequence
from pathlib import Path

from ropewalk.data.config import KeepFlat, RefillFlat
from ropewalk.data.ledger import DataLedger
from ropewalk.data.order import PromptOrder, prompt_order
from ropewalk.data.select.dynamic import most_groups
from ropewalk.records.prompt import Prompt
from ropewalk.runtime.assemble import reward_of
from ropewalk.runtime.config import Rollouts
from ropewalk.runtime.flat import scored_part
from ropewalk.runtime.look.look import Look
from ropewalk.runtime.look.models import to_come
from ropewalk.runtime.recipe import OnlineRecipe
from ropewalk.tasks.only import chosen_rows
from ropewalk.tasks.task import TRAIN, Task


def look_at_file(rollout: Rollouts, found: Look) -> None:
    """Whether the file of chosen prompts is there and says which."""
    only = rollout.only
    if only is not None and not to_come(only):
        found.attempt(lambda: chosen_rows(Path(only)))


def look_at_order(recipe: OnlineRecipe, task: Task, found: Look) -> None:
    """Sources with their sizes and their shares of the draws, at the beginning and at the end."""
    order = found.attempt(lambda: _order(recipe, task, task.split(TRAIN)))
    if order is None:
        return
    last = (recipe.stop.iterations - 1) / recipe.stop.iterations
    first, then = order.weights.at(0.0), order.weights.at(last)
    if len(first) > 1:
        for name, members in order.members.items():
            share = f"{first[name]:.1%} of the draws"
            if recipe.rollout.curriculum is not None:
                share = f"from {first[name]:.1%} of the draws in the first iteration to {then[name]:.1%} in the last"
            found.fact("source", f"{name}: {len(members)} prompts, {share}")
    _flat(recipe, task, found)


def _order(recipe: OnlineRecipe, task: Task, prompts: Sequence[Prompt]) -> PromptOrder:
    """The run's order, but for the tokenizer in its fingerprint."""
    return prompt_order(
        prompts,
        task.weights,
        recipe.rollout.curriculum,
        lambda some: DataLedger(len(some), recipe.seed, "dry run"),
    )


def _flat(recipe: OnlineRecipe, task: Task, found: Look) -> None:
    config = recipe.rollout.flat
    if isinstance(config, KeepFlat):
        return
    found.attempt(lambda: scored_part(reward_of(recipe.reward, task), task, recipe.judges))
    wanted = recipe.rollout.prompts
    said = "are dropped"
    if isinstance(config, RefillFlat):
        said = f"are replaced: {wanted} to {most_groups(config, wanted)} groups are drawn in an iteration"
    found.fact("flat groups", f"whose rewards differ by no more than {config.tolerance:g} {said}")
