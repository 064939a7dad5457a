"""A task made of several: each prompt is scored, and played, by the task it comes from, and by no other.

What holds: a prompt's id is its part's name and its own id, so that ids stay unique and stable; scorers of one name are
one scorer, which abstains on the prompts of parts that have none of that name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ropewalk.data.order import PART
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Abstain, Outcome
from ropewalk.tasks.scoring.config import Reward
from ropewalk.tasks.task import AtOnce, Scorer, Task


def mixture_task(parts: Mapping[str, Task], weights: Mapping[str, float]) -> Task:
    """One task of these parts. Raises InputError where it would not be clear what the reward of a part is."""
    if not parts:
        raise InputError("a mixture needs at least one part: give [task.parts.NAME.task]")
    limits = [part.max_new_tokens for part in parts.values()]
    return Task(
        name="mixture",
        prompts=lambda split: [_named(name, prompt) for name, part in parts.items() for prompt in part.split(split)],
        scorers={name: _of_parts(_by_part(parts, name)) for name in _scorers(parts)},
        max_new_tokens=max((limit for limit in limits if limit is not None), default=None) if all(limits) else None,
        refused=tuple((f"{name}: {where}", why) for name, part in parts.items() for where, why in part.refused),
        parts=dict(parts),
        weights=dict(weights),
    )


def check_reward(task: Task) -> None:
    """Refuse a mixture without components of the reward in which a part would be rewarded by two of its scorers."""
    for name, part in task.parts.items():
        both = [scorer for scorer in task.rewarding if scorer in part.scorers]
        if len(both) > 1:
            raise InputError(
                f"part {name!r} scores {' and '.join(both)}, each the first scorer of some part: say in "
                "[reward.components] which of them count"
            )


def check_parts(reward: Reward, task: Task) -> None:
    """Refuse components by which the prompts of some part could never be rewarded.

    A scorer abstains on the prompts of parts that have none of its name. So there a gate on it is never open, and a
    part none of whose scorers is a component trains nothing. What the task does not score at all (judges, learned
    rewards) is of every part.
    """
    for name, part in _leaves(task).items():
        here = [c for c in reward.components if c in part.scorers or c not in task.scorers]
        if reward.components and not here:
            raise InputError(
                f"part {name!r} is scored by none of [reward.components] ({', '.join(reward.components)}), so that it "
                f"would train nothing: name one of its scorers too ({', '.join(part.scorers)})"
            )
        for component in here:
            for number, gate in enumerate(reward.components[component].gates):
                if gate.on in task.scorers and gate.on not in part.scorers and gate.abstained == "closed":
                    raise InputError(
                        f"reward.components.{component}.gates.{number} looks at {gate.on!r}, which part {name!r} does "
                        "not have, so that it would never open there: give the part a scorer of that name, or set the "
                        "gate's abstained = 'open'"
                    )


def _leaves(task: Task) -> dict[str, Task]:
    """The parts of a mixture, and theirs, by name; none where the task is no mixture."""
    found: dict[str, Task] = {}
    for name, part in task.parts.items():
        found |= {f"{name}/{inner}": leaf for inner, leaf in _leaves(part).items()} or {name: part}
    return found


def own_prompt(prompt: Prompt) -> Prompt:
    """A prompt of a mixture as its part made it."""
    part = str(prompt.info[PART])
    info = {name: value for name, value in prompt.info.items() if name != PART}
    return replace(prompt, id=prompt.id.removeprefix(f"{part}/"), info=info)


def _of_parts(scorers: Mapping[str, Scorer]) -> Scorer:
    asked = _OfParts(scorers)
    return AtOnce(asked) if all(isinstance(scorer, AtOnce) for scorer in scorers.values()) else asked


@dataclass(frozen=True, slots=True)
class _OfParts:
    """The scorers of one name, each asked about its own part's prompts."""

    scorers: Mapping[str, Scorer]

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome | float | bool | None:
        scorer = self.scorers.get(str(prompt.info.get(PART)))
        if scorer is None:
            return Abstain("a scorer of another task")
        own = own_prompt(prompt)
        return scorer(own, replace(sample, prompt_id=own.id))


def _scorers(parts: Mapping[str, Task]) -> list[str]:
    """Names of all scorers: each part's first one before any other."""
    first = [part.main_scorer for part in parts.values()]
    return list(dict.fromkeys([*first, *(name for part in parts.values() for name in part.scorers)]))


def _by_part(parts: Mapping[str, Task], scorer: str) -> dict[str, Scorer]:
    return {name: part.scorers[scorer] for name, part in parts.items() if scorer in part.scorers}


def _named(name: str, prompt: Prompt) -> Prompt:
    return replace(prompt, id=f"{name}/{prompt.id}", info={**prompt.info, PART: name})
