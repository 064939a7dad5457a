"""Groups without variance during training: found, dropped or replaced within bounds, and told of.

A group whose rewards are all equal has advantages of 0 and teaches nothing (DAPO's dynamic sampling, Yu et al. 2025).
Pure: the decisions depend on the groups' rewards alone; a reward that is None (failed, abstained) is no reward.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ropewalk.data.config import DropFlat, RefillFlat
from ropewalk.records.errors import InputError
from ropewalk.records.metric import Metric

MOST_NAMES = 32
"""More sources than these are not told one by one."""

Flat: TypeAlias = Literal["low", "high", "middle", "too_few"]
"""Why a group teaches nothing: all rewards are the lowest that any group has, the highest, equal ones between them, or
fewer than two are there."""


@dataclass(frozen=True, slots=True)
class Group:
    """What is known of one prompt's samples."""

    id: str
    rewards: tuple[float | None, ...]
    source: str = ""
    """Where the prompt comes from."""
    difficulty: str = ""
    """Its bucket, where one is known."""
    tokens: float = 0.0
    """Mean length of its samples."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of the groups drawn so far."""

    kept: tuple[str, ...]
    """Groups to train on, in the order they came; at most as many as are wanted."""
    dropped: Mapping[str, Flat]
    """Groups that teach nothing, and why."""
    draw: int
    """Further groups to draw now."""
    short: int
    """Groups that will be missing because the bound on the effort is reached; 0 while more are drawn."""


def decide(config: DropFlat | RefillFlat, groups: Sequence[Group], wanted: int) -> Decision:
    """What to train on, and how many more to draw, after these groups in the order they were drawn."""
    if wanted < 1:
        raise InputError(f"an iteration wants at least one group, not {wanted}")
    flat = flat_groups(groups, config.tolerance)
    varied = [group.id for group in groups if group.id not in flat]
    missing = max(wanted - len(varied), 0)
    left = most_groups(config, wanted) - len(groups)
    draw = min(missing, max(left, 0))
    return Decision(tuple(varied[:wanted]), flat, draw, 0 if draw else missing)


def most_groups(config: DropFlat | RefillFlat, wanted: int) -> int:
    """Groups drawn at most in an iteration."""
    return math.ceil(config.most * wanted) if isinstance(config, RefillFlat) else wanted


def flat_groups(groups: Sequence[Group], tolerance: float) -> dict[str, Flat]:
    """The groups that teach nothing, and why."""
    if len({group.id for group in groups}) < len(groups):
        raise InputError("two groups have one id: each group is decided on once")
    values = [reward for group in groups for reward in _rewards(group)]
    found: dict[str, Flat] = {}
    for group in groups:
        rewards = _rewards(group)
        if len(rewards) < 2:
            found[group.id] = "too_few"
        elif max(rewards) - min(rewards) <= tolerance:
            low, high = rewards[0] - min(values) <= tolerance, max(values) - rewards[0] <= tolerance
            found[group.id] = "middle" if low == high else "low" if low else "high"
    return found


def drop_metrics(
    groups: Sequence[Group], dropped: Mapping[str, Flat], *, edges: Sequence[float] = ()
) -> dict[str, Metric]:
    """Shares of groups dropped: of all, by why, and of those of each source, difficulty and range of lengths.

    `edges` are lengths in tokens at which the ranges part. The shares are (dropped, drawn), and merge over iterations.
    """
    metrics = {"groups/dropped": Metric.mean(len(dropped), len(groups))}
    for why in ("low", "high", "middle", "too_few"):
        metrics[f"groups/dropped/{why}"] = Metric.mean(sum(found == why for found in dropped.values()), len(groups))
    kinds: Mapping[str, Callable[[Group], str]] = {
        "source": lambda group: group.source,
        "difficulty": lambda group: group.difficulty,
        "tokens": lambda group: _range(group.tokens, edges),
    }
    for kind, name_of in kinds.items():
        names = [name_of(group) for group in groups]
        if len(set(names)) > MOST_NAMES:
            continue
        for name in sorted(set(names) - {""}):
            drawn = [group for group, its in zip(groups, names, strict=True) if its == name]
            lost = sum(group.id in dropped for group in drawn)
            metrics[f"groups/dropped/{kind}/{name}"] = Metric.mean(lost, len(drawn))
    return metrics


def _range(tokens: float, edges: Sequence[float]) -> str:
    """The name of the range of lengths that a number of tokens lies in."""
    if not edges:
        return ""
    place = sum(tokens >= edge for edge in edges)
    low = f"{edges[place - 1]:g}" if place else "0"
    return f"{low}-{edges[place]:g}" if place < len(edges) else f"{low}-"


def _rewards(group: Group) -> list[float]:
    found = [reward for reward in group.rewards if reward is not None]
    if not all(map(math.isfinite, found)):
        raise InputError(f"group {group.id} has a reward that is not finite: a scorer must say so, not a number")
    return found
