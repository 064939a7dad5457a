"""Dynamic sampling: which groups of an iteration teach something, and how many more to draw (`data.select.dynamic`).

A group is judged by the reward as far as it is known when its samples are: by the components that are scored without
a model, on the statistics of the run so far, with the method's rule for unfinished samples. So a group that only a
learned reward could tell apart counts as flat; a recipe with nothing but learned rewards is refused.

Where no group has variance the first ones train as they are: the iteration then learns nothing but the KL term, and the
run's rules, which count such iterations, end it with a diagnosis. Statistics are of all that was drawn.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ropewalk.algorithms.config import Unfinished
from ropewalk.data.config import DropFlat, RefillFlat
from ropewalk.data.order import DIFFICULTY, PART
from ropewalk.data.select.dynamic import Decision, Group, decide, drop_metrics
from ropewalk.records.errors import InputError
from ropewalk.records.metric import Metric
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.tasks.scoring.compose import about_sample, compose
from ropewalk.tasks.scoring.config import CosineLength, NoLength, Reward
from ropewalk.tasks.task import Task

Statistics: TypeAlias = Mapping[str, Mapping[str, Any]]
ENDED = ("stop", "length")
"""How a rollout finishes that was not lost."""


@dataclass(frozen=True, slots=True)
class FlatRule:
    """When a group counts as flat."""

    config: DropFlat | RefillFlat
    reward: Reward
    """Its components that are known when a sample is scored; see `scored_part`."""
    unfinished: Unfinished
    longest: int
    """Tokens that a completion may have; lengths are told by quarters of it."""

    def decide(
        self, samples: Sequence[Sample], prompts: Mapping[str, Prompt], wanted: int, now: Statistics
    ) -> "Judged":
        """What becomes of the groups of these samples, and how many more to draw."""
        rewards = self.rewards(samples, now)
        members: dict[str, list[int]] = {}
        for row, sample in enumerate(samples):
            members.setdefault(sample.group_id, []).append(row)
        groups = [self._group(name, rows, samples, rewards, prompts) for name, rows in members.items()]
        return Judged(groups, decide(self.config, groups, wanted), rewards, wanted)

    def rewards(self, samples: Sequence[Sample], now: Statistics) -> list[float | None]:
        """The known part of each sample's reward; None where it has none, or does not train."""
        about = [about_sample(sample) for sample in samples]
        composed = compose(self.reward, [sample.scores for sample in samples], now, about)
        found: list[float | None] = []
        for sample, reward, valid in zip(samples, composed.reward_R, composed.valid_R, strict=True):
            cut = sample.finish != "stop"
            if not valid or sample.finish not in ENDED or (cut and self.unfinished.kind == "mask"):
                found.append(None)
            elif cut and self.unfinished.kind == "penalty":
                found.append(self.unfinished.score)
            else:
                found.append(float(reward))
        return found

    def _group(
        self,
        name: str,
        rows: Sequence[int],
        samples: Sequence[Sample],
        rewards: Sequence[float | None],
        prompts: Mapping[str, Prompt],
    ) -> Group:
        info = prompts[samples[rows[0]].prompt_id].info
        return Group(
            name,
            tuple(rewards[row] for row in rows),
            source=str(info.get(PART) or info.get("source") or ""),
            difficulty=str(info.get(DIFFICULTY) or ""),
            tokens=float(np.mean([samples[row].completion_tokens for row in rows])),
        )

    @property
    def edges(self) -> list[int]:
        """Lengths at which the ranges of the metrics part."""
        return sorted({self.longest * quarter // 4 for quarter in (1, 2, 3)} - {0})


@dataclass(frozen=True, slots=True)
class Judged:
    """Groups with what becomes of them."""

    groups: Sequence[Group]
    decision: Decision
    rewards: Sequence[float | None]
    wanted: int

    @property
    def kept(self) -> frozenset[str]:
        """Ids of the groups to train on; the first ones where none has variance."""
        return frozenset(self.decision.kept or [group.id for group in self.groups[: self.wanted]])

    def metrics(self, edges: Sequence[float]) -> dict[str, Metric]:
        """What was drawn and what was dropped of it."""
        known = [reward for reward in self.rewards if reward is not None]
        flat = len(self.decision.dropped)
        return {
            **drop_metrics(self.groups, self.decision.dropped, edges=edges),
            "groups_without_signal": Metric.mean(flat, len(self.groups)),
            "groups/drawn": Metric.mean(len(self.groups), 1),
            "groups/short": Metric.mean(self.decision.short, self.wanted),
            "drawn/reward": Metric.mean(math.fsum(known), len(known)),
        }


def scored_part(reward: Reward, task: Task, judges: Collection[str] = ()) -> Reward:
    """The reward without what only a learned reward can tell. Raises InputError where nothing is left."""
    scorers = {*task.scorers, *judges}
    known = {
        name: component
        for name, component in reward.components.items()
        if {name, *(gate.on for gate in component.gates)} <= scorers
    }
    if reward.components and not known:
        raise InputError(
            "rollout.flat looks at rewards before any model has judged the samples, and every component of the reward "
            "is learned: add one that the task scores, or set rollout.flat.kind = 'keep'"
        )
    length = reward.length
    if isinstance(length, CosineLength) and length.on not in scorers:
        length = NoLength()
    return reward.model_copy(update={"components": known, "length": length})
