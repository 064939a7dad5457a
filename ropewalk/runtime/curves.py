"""Curves of each task of a run: what its samples got, how long they are, how many groups of it teach something."""

import math
from collections.abc import Mapping, Sequence

from ropewalk.data.order import PART
from ropewalk.records.metric import Metric
from ropewalk.records.sample import Sample
from ropewalk.tasks.scoring.run import outcome_metrics

_ALL = Metric.mean(1, 1)
MOST_TASKS = 32
"""More tasks than these are not measured one by one."""


def task_metrics(samples: Sequence[Sample], rewards: Sequence[float | None]) -> dict[str, Metric]:
    """`task/NAME/…` of the tasks that samples name: `share` of the samples, `reward`, `length`, `score/SCORER` with the
    share that it `failed` on, and `no_variance`, the share of its groups whose rewards are all equal. Nothing where no
    sample names one.

    `rewards` are None where a sample has none.
    """
    names = [str(sample.info.get(PART, "")) for sample in samples]
    tasks = sorted(set(names) - {""})
    metrics: dict[str, Metric] = {}
    for task in tasks if len(tasks) <= MOST_TASKS else ():
        rows = [row for row, name in enumerate(names) if name == task]
        of_task = [samples[row] for row in rows]
        known = [reward for row in rows if (reward := rewards[row]) is not None]
        scores = outcome_metrics([sample.scores for sample in of_task])
        flat = [len(set(group)) < 2 for group in _groups(of_task, [rewards[row] for row in rows]).values()]
        metrics |= {
            f"task/{task}/share": Metric.mean(len(rows), len(samples)),
            f"task/{task}/reward": Metric.mean(math.fsum(known), len(known)),
            f"task/{task}/length": Metric.mean(sum(sample.completion_tokens for sample in of_task), len(rows)),
            f"task/{task}/no_variance": Metric.mean(sum(flat), len(flat)),
            **{f"task/{task}/{name}": metric for name, metric in scores.items() if _shown(name, scores)},
        }
    return metrics


def _shown(name: str, scores: Mapping[str, Metric]) -> bool:
    """The mean score and the share of failures of scorers that did not abstain on the whole task."""
    scorer = name.removesuffix("/failed")
    return name in (scorer, f"{scorer}/failed") and scores.get(f"{scorer}/abstained", _ALL).value < 1


def _groups(samples: Sequence[Sample], rewards: Sequence[float | None]) -> Mapping[str, list[float]]:
    """The known rewards of each group."""
    found: dict[str, list[float]] = {}
    for sample, reward in zip(samples, rewards, strict=True):
        group = found.setdefault(sample.group_id, [])
        if reward is not None:
            group.append(reward)
    return found
