"""From an experience to its advantages: outcomes are composed into rewards, rewards become credit.

Everything here is pure given the run's state; the statistics it keeps are part of that state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from ropewalk.algorithms.config import GRPO, PPO, KLReward
from ropewalk.algorithms.controllers import KLState, controller
from ropewalk.algorithms.credit import credit_metrics, gae_credit, group_credit
from ropewalk.records.errors import InputError
from ropewalk.records.metric import Metric, merge
from ropewalk.records.packed import PackedBatch
from ropewalk.records.sample import Sample
from ropewalk.records.score import Score
from ropewalk.runtime.config import LEARNED
from ropewalk.runtime.experience import Experience
from ropewalk.runtime.loop import Credited
from ropewalk.runtime.state import RunState
from ropewalk.tasks.scoring.compose import about_sample, compose
from ropewalk.tasks.scoring.config import Reward
from ropewalk.tasks.scoring.run import check_failures


@dataclass(frozen=True, slots=True)
class OnlineCredit:
    """Rewards and advantages of samples."""

    method: PPO | GRPO
    reward: Reward

    def __call__(self, experience: Experience, state: RunState) -> Credited:
        samples = with_learned(experience)
        check_failures(samples, self.reward.failure_limit)
        about = [about_sample(sample) for sample in samples]
        composed = compose(self.reward, [s.scores for s in samples], state.rewards, about)
        batch = experience.batch.with_columns(rows={"rewards": composed.reward_R, "valid": composed.valid_R})
        columns = torch_columns(batch)
        beta = KLState.from_json(dict(state.kl)) if state.kl else None
        coefficient = beta.coefficient if beta else None
        find: Callable[..., Mapping[str, torch.Tensor]] = gae_credit if isinstance(self.method, PPO) else group_credit
        credit = find(self.method, columns, kl_coefficient=coefficient)
        batch = batch.with_columns(tokens={name: column.numpy() for name, column in credit.items()})
        measured = credit_metrics(self.method, columns)
        metrics = merge([composed.metrics, measured, rollout_metrics(samples, experience.lost), reward_metrics(batch)])
        state = replace(state, rewards=composed.statistics, kl=self._next_kl(state, metrics, len(samples)))
        if beta is not None:
            metrics["kl/coefficient"] = Metric.mean(beta.coefficient, 1)
        shown = replace(experience, batch=batch, samples=samples)
        return Credited(shown, metrics, state, tuple(composed.records))

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


def with_learned(experience: Experience) -> list[Sample]:
    """Samples with the reward model's score among their outcomes, where one scored them."""
    scores = experience.batch.row_columns.get("scores")
    if scores is None:
        return list(experience.samples)
    values = scores.astype(np.float64)
    if not np.isfinite(values).all():
        raise InputError("the reward model gave a score that is not finite: look at its run before using it")
    return [
        sample.with_scores(**{LEARNED: Score(float(value))})
        for sample, value in zip(experience.samples, values, strict=True)
    ]


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
        "truncated": Metric.mean(sum(s.finish == "length" for s in samples), n),
        "distinct": Metric.mean(len({s.tokens_T[s.policy_mask_T].tobytes() for s in samples}), n),
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
