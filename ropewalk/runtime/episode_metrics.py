"""What the episodes among an iteration's samples were: how long, how they ended, what was called."""

from collections import Counter
from collections.abc import Mapping, Sequence

from ropewalk.records.metric import Metric
from ropewalk.records.prompt import Json
from ropewalk.records.sample import Sample
from ropewalk.tasks.environments.protocol import EPISODE

NUMBERS = ("turns", "reward", "calls", "call_faults")
ENDS = ("done", "turns", "tokens", "seconds", "context", "cut")
"""Failed ones are lost, and counted there."""


def episode_metrics(samples: Sequence[Sample]) -> dict[str, Metric]:
    """Means over the episodes, and the share that each kind of end has; nothing if there is none."""
    episodes = [episode for sample in samples if (episode := episode_of(sample)) is not None]
    if not episodes:
        return {}
    n = len(episodes)
    found = {f"episode/{name}": Metric.mean(sum(_number(one, name) for one in episodes), n) for name in NUMBERS}
    ended = Counter(one.get("ended") for one in episodes)
    return found | {f"episode/ended_{end}": Metric.mean(ended[end], n) for end in ENDS}


def was_cut(sample: Sample) -> bool:
    """Whether the policy was cut short; an episode that had all its turns was not."""
    episode = episode_of(sample)
    return sample.finish == "length" and (episode is None or episode.get("ended") != "turns")


def episode_of(sample: Sample) -> Mapping[str, Json] | None:
    """What became of the sample's episode; None if it is of none."""
    episode = sample.info.get(EPISODE)
    return episode if isinstance(episode, dict) else None


def _number(episode: Mapping[str, Json], name: str) -> float:
    value = episode.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
