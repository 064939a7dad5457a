"""From an experience to its advantages: outcomes are composed into rewards, rewards become credit.

Everything here is pure given the run's state; the statistics it keeps are part of that state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from ropewalk.algorithms.config import GRPO, PPO, KLReward
from ropewalk.algorithms.controllers import KLState, controller
from ropewalk.algorithms.credit import credit_metrics, gae_credit, group_credit
from ropewalk.records.metric import Metric, merge
from ropewalk.records.packed import PackedBatch
from ropewalk.records.prompt import Json
from ropewalk.records.sample import Sample
from ropewalk.records.score import Score
from ropewalk.runtime.curves import task_metrics
from ropewalk.runtime.episode_metrics import episode_metrics, was_cut
from ropewalk.runtime.experience import Experience
from ropewalk.runtime.learned.read import Reader, said_by
from ropewalk.runtime.loop import Credited
from ropewalk.runtime.state import RunState
from ropewalk.tasks.judging.measure import judge_metrics
from ropewalk.tasks.scoring.compose import about_sample, compose, observe
from ropewalk.tasks.scoring.config import Reward
from ropewalk.tasks.scoring.run import check_failures, outcome_metrics


@dataclass(frozen=True, slots=True)
class OnlineCredit:
    """Rewards and advantages of samples."""

    method: PPO | GRPO
    reward: Reward
    readers: Sequence[Reader] = ()
    """Of the learned rewards, whose members' scores are among the batch's columns."""

    def __call__(self, experience: Experience, state: RunState) -> Credited:
        learned = read_learned(experience, self.readers)
        samples = learned.samples
        drawn = [*samples, *experience.dropped]
        check_failures(drawn, self.reward.failure_limit, self.reward.components)
        about = [about_sample(sample) for sample in samples]
        # Statistics over all scores so far take in what is dropped, too.
        dropped = [about_sample(sample) for sample in experience.dropped]
        before = observe(self.reward, [s.scores for s in experience.dropped], state.rewards, dropped)
        composed = compose(self.reward, [s.scores for s in samples], before, about)
        batch = experience.batch.with_columns(rows={"rewards": composed.reward_R, "valid": composed.valid_R})
        columns = torch_columns(batch)
        beta = KLState.from_json(dict(state.kl)) if state.kl else None
        coefficient = beta.coefficient if beta else None
        find: Callable[..., Mapping[str, torch.Tensor]] = gae_credit if isinstance(self.method, PPO) else group_credit
        credit = find(self.method, columns, kl_coefficient=coefficient)
        batch = batch.with_columns(tokens={name: column.numpy() for name, column in credit.items()})
        measured = credit_metrics(self.method, columns)
        metrics = merge([composed.metrics, measured, rollout_metrics(drawn, experience.lost), reward_metrics(batch)])
        # What was drawn is measured whole, what is left out of training included.
        metrics |= outcome_metrics([sample.scores for sample in drawn]) if experience.dropped else {}
        metrics |= {**experience.metrics, **learned.metrics, **judge_metrics(drawn)}
        rewards = [float(r) if valid else None for r, valid in zip(composed.reward_R, composed.valid_R, strict=True)]
        metrics |= task_metrics(samples, rewards)
        state = replace(state, rewards=composed.statistics, kl=self._next_kl(state, metrics, len(samples)))
        if beta is not None:
            metrics["kl/coefficient"] = Metric.mean(beta.coefficient, 1)
        shown = replace(experience, batch=batch, samples=samples)
        records = [{**record, **more} for record, more in zip(composed.records, learned.records, strict=True)]
        return Credited(shown, metrics, state, tuple(records))

    def start_kl(self) -> dict[str, float]:
        """The KL controller's first state; empty where nothing is charged in the reward."""
        kl = self.method.kl
        return controller(kl).start().to_json() if isinstance(kl, KLReward) else {}

    def _next_kl(self, state: RunState, metrics: Mapping[str, Metric], sequences: int) -> Mapping[str, float]:
        kl = self.method.kl
        if not isinstance(kl, KLReward) or not state.kl:
            return state.kl
        now = KLState.from_json(dict(state.kl))
        return controller(kl).update(now, metrics["kl_per_sequence"].value, sequences).to_json()


def no_credit(experience: Experience, state: RunState) -> Credited:
    """Supervised rows need none."""
    rows = Metric.mean(experience.batch.tokens, experience.batch.rows)
    return Credited(experience, {"length/mean": rows}, state)


class LearnedScores(NamedTuple):
    """Samples with the score of every learned reward among their outcomes."""

    samples: list[Sample]
    records: list[dict[str, Json]]
    """Per sample, `learned`: by reward what its score was made of; nothing where it was read as it is."""
    metrics: dict[str, Metric]


def read_learned(experience: Experience, readers: Sequence[Reader]) -> LearnedScores:
    """Read the columns that the learned rewards' calls wrote."""
    samples = list(experience.samples)
    said = [said_by(sample) for sample in samples]
    made: list[dict[str, Json]] = [{} for _ in samples]
    metrics: list[Mapping[str, Metric]] = []
    for reader in readers:
        name, read = reader.calls.name, reader(experience.batch, said)
        scored = zip(samples, read.score_R.tolist(), strict=True)
        samples = [sample.with_scores(**{name: Score(score)}) for sample, score in scored]
        for row, record in zip(made, read.records, strict=True):
            row |= {name: record} if record else {}
        metrics.append(read.metrics)
    return LearnedScores(samples, [{"learned": row} if row else {} for row in made], merge(metrics))


def torch_columns(batch: PackedBatch) -> dict[str, torch.Tensor]:
    """Columns as tensors on the CPU, `row_T` among them."""
    named = {**batch.token_columns, **batch.row_columns, "row_T": batch.row_T}
    return {name: torch.from_numpy(np.ascontiguousarray(column)) for name, column in named.items()}


def rollout_metrics(samples: list[Sample], lost: int = 0) -> dict[str, Metric]:
    """What the samples are, before any mask of training."""
    lengths = [sample.completion_tokens for sample in samples]
    n = len(samples)
    return {
        "length/mean": Metric.mean(sum(lengths), n),
        "length/max": Metric.max(max(lengths)),
        "length/min": Metric.min(min(lengths)),
        "rollout/lost": Metric.mean(lost, n + lost),
        "truncated": Metric.mean(sum(map(was_cut, samples)), n),
        "distinct": Metric.mean(len({s.tokens_T[s.policy_mask_T].tobytes() for s in samples}), n),
        **episode_metrics(samples),
    }


def reward_metrics(batch: PackedBatch) -> dict[str, Metric]:
    """Spread and extremes of the rewards of valid rows."""
    rewards = batch.row_columns["rewards"][batch.row_columns["valid"].astype(bool)].astype(np.float64)
    if not len(rewards):
        return {}
    return {
        "reward/std": Metric.mean(float(rewards.std()), 1),
        "reward/max": Metric.max(float(rewards.max())),
        "reward/min": Metric.min(float(rewards.min())),
    }
