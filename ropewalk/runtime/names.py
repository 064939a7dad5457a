"""One vocabulary for metrics: the names in `metrics.jsonl`, whoever measured them."""

from collections.abc import Mapping

from ropewalk.algorithms.value_loss import explained_variance
from ropewalk.records.metric import Metric

SHOWN = {
    "clip_fraction": "policy/clip_fraction",
    "ratio": "policy/ratio",
    "ratio_max": "policy/ratio_max",
    "ratio_min": "policy/ratio_min",
    "approximate_kl": "policy/approximate_kl",
    "kl_per_token": "kl/token",
    "kl_per_sequence": "kl/sequence",
    "kl_k3_per_token": "kl/k3_token",
    "kl_k3_max": "kl/k3_max",
    "rollout_entropy": "entropy",
    "entropy": "policy/entropy",
    "groups_without_signal": "group/no_variance",
    "group_reward_std": "group/reward_std",
    "nll_per_token": "loss/nll_per_token",
    "engine_logprob_gap": "engine/logprob_gap_max",
    "old_logprob_gap": "policy/old_logprob_gap_max",
    "value_clip_fraction": "value/clip_fraction",
    "reward": "reward/mean",
    "step_accuracy": "steps/accuracy",
    "step_brier": "steps/brier",
    "step_label": "steps/label",
    "step_value": "steps/value",
}
OF_A_ROLE = ("grad_norm", "lr", "empty_step")
VALUE_SUMS = ("value_error", "value_error_squared", "value_mean", "return_mean", "return_squared_mean")


def of_role(metrics: Mapping[str, Metric], role: str) -> dict[str, Metric]:
    """A train call's metrics, with the role in the names that every role has."""
    return {f"{name}/{role}" if name in OF_A_ROLE else name: metric for name, metric in metrics.items()}


def shown(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """Metrics under their public names; explained variance in place of the sums it follows from."""
    found: dict[str, Metric] = {}
    if all(name in metrics for name in VALUE_SUMS):
        found["value/explained_variance"] = Metric.mean(explained_variance(metrics), 1)
        found["value/mean"], found["return/mean"] = metrics["value_mean"], metrics["return_mean"]
    for name, metric in metrics.items():
        if name in VALUE_SUMS:
            continue
        found[_public(name)] = metric
    return found


def _public(name: str) -> str:
    if name in SHOWN:
        return SHOWN[name]
    if name.startswith("loss_"):
        return "loss/" + name.removeprefix("loss_")
    parts = name.split("/")
    return f"{name}/mean" if parts[0] == "score" and len(parts) == 2 else name
