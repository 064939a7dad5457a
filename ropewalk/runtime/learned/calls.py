"""From a recipe's learned rewards to calls of the graph: each member is a role with a forward call of its own.

The short form `reward_model = "runs/x"` is the reward of that name: its role is `reward`, its column `scores`. Member i
of `[reward_models.NAME]` has the role `reward/NAME/i` (`reward/NAME` where it is alone) and the column
`OUTPUT/NAME/i`, after the output of the network that it holds. Pure, and without torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from ropewalk.plan.graph import Call
from ropewalk.records.errors import InputError
from ropewalk.runtime.config import LEARNED
from ropewalk.runtime.learned.config import LearnedReward

OUTPUTS = {"last": "scores", "heads": "head_scores", "process": "token_scores"}
"""Which output of a network is read."""
ROLE = "reward"
REWARD_MODEL = "reward_model"
"""What a critic's start calls the short form."""


class Rewarded(Protocol):
    """What of a recipe says which models reward."""

    @property
    def reward_model(self) -> str | None: ...

    @property
    def reward_models(self) -> Mapping[str, LearnedReward]: ...


@dataclass(frozen=True, slots=True)
class LearnedCalls:
    """A learned reward, and what its members are called; all in the order of its folders."""

    name: str
    """Of its scorer."""
    section: LearnedReward
    roles: tuple[str, ...]
    columns: tuple[str, ...]
    calls: tuple[str, ...]

    @property
    def output(self) -> str:
        """The output of a network that the columns hold."""
        return OUTPUTS[self.section.read.kind]

    @property
    def graph_calls(self) -> tuple[Call, ...]:
        named = zip(self.calls, self.roles, self.columns, strict=True)
        return tuple(Call(call, role, "forward", ("tokens",), (column,)) for call, role, column in named)


def short_form(folder: str) -> LearnedCalls:
    """`reward_model = folder`."""
    return LearnedCalls(LEARNED, LearnedReward(folders=(folder,)), (ROLE,), ("scores",), ("reward_model",))


def learned_rewards(recipe: Rewarded) -> tuple[LearnedCalls, ...]:
    """All learned rewards of a recipe, the short form first."""
    short = () if recipe.reward_model is None else (short_form(recipe.reward_model),)
    return (*short, *(_of_section(name, section) for name, section in recipe.reward_models.items()))


def _of_section(name: str, section: LearnedReward) -> LearnedCalls:
    places = range(len(section.folders))
    roles = tuple(f"{ROLE}/{name}/{i}" if len(places) > 1 else f"{ROLE}/{name}" for i in places)
    columns = tuple(f"{OUTPUTS[section.read.kind]}/{name}/{i}" for i in places)
    return LearnedCalls(name, section, roles, columns, roles)


def judging_calls(recipe: Rewarded) -> tuple[Call, ...]:
    """The calls of all sections; that of the short form is the method's own."""
    named = [one for one in learned_rewards(recipe) if one.name in recipe.reward_models]
    return tuple(call for one in named for call in one.graph_calls)


def critic_role(recipe: Rewarded, start: str) -> str:
    """The role that `critic.start` names: `reward_model`, a section's name (its first member), or `NAME/member`."""
    known = {one.name: one.roles[0] for one in learned_rewards(recipe)}
    for one in learned_rewards(recipe):
        known |= {f"{one.name}/{i}": role for i, role in enumerate(one.roles) if len(one.roles) > 1}
    if start not in known:
        if start == REWARD_MODEL and not known:
            raise InputError("critic.start = 'reward_model' needs a reward_model to start from")
        near = get_close_matches(start, ["policy", *known], n=1, cutoff=0.0)[0]
        raise InputError(f"critic.start = {start!r} is no learned reward of this recipe: did you mean {near!r}?")
    return known[start]


def check_names(rewards: tuple[LearnedCalls, ...], scorers: Mapping[str, object]) -> None:
    """A learned reward may not be called as a scorer of the task: one of the two would be lost."""
    for one in rewards:
        if one.name in scorers:
            raise InputError(f"the task has a scorer called {one.name!r}: call the learned reward something else")
