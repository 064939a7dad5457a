"""From outcomes to per-token advantages: pure functions of a whole iteration's columns, run once before training.

Rewards live on rows. Rows without an outcome (`valid` False) and masked unfinished rows get advantage 0 and take
part in no statistic; what stands in their columns, or at tokens that are not the policy's, cannot matter.
"""

import torch
from torch import Tensor

from ropewalk.algorithms.advantages import group_advantages, group_statistics, moments, task_advantages, whitened
from ropewalk.algorithms.config import GRPO, KL, PPO, Unfinished
from ropewalk.algorithms.kl import kl_estimate, kl_metrics, policy_logprobs
from ropewalk.algorithms.masked import Columns, in_rows, judged_rows, means, per_row, select, trained_rows
from ropewalk.algorithms.returns import at_last_token, gae
from ropewalk.records.metric import Metric, Metrics


def gae_credit(cfg: PPO, columns: Columns, *, kl_coefficient: float | None = None) -> dict[str, Tensor]:
    """`advantages` and `returns` (T,), both 0 at tokens that do not train.

    Reads row columns `rewards`, `valid`, (`finished`); token columns `policy_mask`, `values`, `row_T` and, with KL in
    the reward, `reference_logprobs` and `old_logprobs` or `rollout_logprobs`. The reward of token t is
    −β · k(t), plus the row's reward at its last policy token. `kl_coefficient` is the β in force under an adaptive
    controller. Advantages are whitened after the returns are taken, over all rows or over those of each row column
    `task` by themselves.
    """
    rows_R = trained_rows(columns, cfg.unfinished)
    mask_T = in_rows(rows_R, columns)
    values_T = select(columns["values"], mask_T)
    rewards_T = at_last_token(outcomes(cfg.unfinished, columns), mask_T, columns["row_T"]).to(values_T.dtype)
    rewards_T = rewards_T - kl_charge(cfg.kl, columns, mask_T, kl_coefficient)
    advantages_T, returns_T = gae(
        rewards_T, values_T, mask_T, columns["row_T"], rows=len(rows_R), gamma=cfg.gamma, lam=cfg.lam
    )
    if cfg.whiten == "tokens":
        advantages_T = whitened(advantages_T, mask_T, moments(advantages_T, mask_T))
    if cfg.whiten == "task":
        task_T = per_token(columns["task"], columns["row_T"])
        for task in torch.unique(columns["task"]):
            own_T = mask_T & (task_T == task)
            advantages_T = torch.where(own_T, whitened(advantages_T, own_T, moments(advantages_T, own_T)), advantages_T)
    return {"advantages": advantages_T, "returns": returns_T}


def group_credit(cfg: GRPO, columns: Columns, *, kl_coefficient: float | None = None) -> dict[str, Tensor]:
    """`advantages` (T,): the row's group advantage at each of its trained tokens, 0 elsewhere.

    Reads row columns `rewards`, `group`, `valid`, (`finished`, `task`) and token columns as `gae_credit`, without
    `values`.
    With KL in the reward a row counts r − β Σ_t k(t) *before* the group's baseline.
    """
    rows_R = trained_rows(columns, cfg.unfinished)
    mask_T = in_rows(rows_R, columns)
    charge_T = kl_charge(cfg.kl, columns, mask_T, kl_coefficient)
    charge_R = per_row(charge_T, mask_T, columns["row_T"], len(rows_R))
    rewards_R = outcomes(cfg.unfinished, columns) - charge_R
    advantages_R = group_advantages(rewards_R, columns["group"], rows_R, baseline=cfg.baseline, scale=cfg.scale)
    if cfg.normalise_by == "task":
        advantages_R = task_advantages(advantages_R, columns["task"], rows_R)
    if not len(advantages_R):
        return {"advantages": charge_T}
    return {"advantages": select(per_token(advantages_R, columns["row_T"]), mask_T)}


def per_token(values_R: Tensor, row_T: Tensor) -> Tensor:
    """Each token's row value, (T,); that of any row at tokens of no row."""
    return values_R[row_T.clamp(min=0)]


def outcomes(unfinished: Unfinished, columns: Columns) -> Tensor:
    """rewards_R with the rule for unfinished rows applied; 0 at rows that do not train."""
    rewards_R = select(columns["rewards"], trained_rows(columns, unfinished))
    if unfinished.kind != "penalty":
        return rewards_R
    replaced = judged_rows(columns) & ~columns["finished"].bool()
    return rewards_R.masked_fill(replaced, unfinished.score)


def kl_charge(kl: KL, columns: Columns, mask_T: Tensor, coefficient: float | None) -> Tensor:
    """β · k(t) of each trained token, (T,); 0 unless the KL is charged in the reward."""
    if kl.place != "reward":
        return torch.zeros(len(mask_T), device=mask_T.device)
    ours_T, reference_T = select(policy_logprobs(columns), mask_T), select(columns["reference_logprobs"], mask_T)
    beta = kl.coefficient if coefficient is None else coefficient
    return beta * kl_estimate(kl.estimator, ours_T, reference_T)


def credit_metrics(cfg: PPO | GRPO, columns: Columns) -> Metrics:
    """What the iteration's samples say before the update, over all judged rows, whatever the loss masks.

    `rollout_entropy` (−log π of the sampled tokens, nats per token), the KL to the reference where there is one, and
    for groups the share `groups_without_signal` (one valid row, or all rewards equal) and the `reward_std` in them.
    """
    mask_T = in_rows(judged_rows(columns), columns)
    found = means({"rollout_entropy": -select(policy_logprobs(columns), mask_T)}, mask_T)
    if "reference_logprobs" in columns:
        found |= kl_metrics(columns)
    if isinstance(cfg, GRPO):
        found |= _group_metrics(cfg, columns)
    return found


def _group_metrics(cfg: GRPO, columns: Columns) -> Metrics:
    rows_R = trained_rows(columns, cfg.unfinished)
    groups = group_statistics(outcomes(cfg.unfinished, columns), columns["group"], rows_R)
    seen = {int(group): row for row, group in enumerate(columns["group"].tolist())}
    first = list(seen.values())
    return {
        "groups_without_signal": Metric.mean(float(groups.flat_R[first].sum()), len(first)),
        "group_reward_std": Metric.mean(float(groups.std_R[first].sum()), len(first)),
    }
