"""Estimators of KL(π‖π_ref) from sampled tokens, and what each is good for.

With d = log π(a) − log π_ref(a) at a token a sampled from π (J. Schulman, "Approximating KL divergence", 2020):

    name   value          mean under samples of π    gradient when minimised as a loss, on samples of π
    k1     d              KL(π‖π_ref)                0 in expectation: useless as a loss, refused there
    k2     d²/2           biased, small near ref     exactly ∇KL(π‖π_ref), the reverse KL
    k3     e^(−d) − 1 + d KL(π‖π_ref)                ∇KL(π_ref‖π), the *forward* KL

k3 is never negative and unbiased for samples of the *current* policy only; off-policy every estimator needs the
importance weight π/π_old. Per token and with the visited states held fixed none of the losses is the gradient
of the sequence KL: only KL in the reward is. k3 has no upper bound where π is small and π_ref is not, so its
largest term stands beside its mean. All of this is enumerated in the tests.
"""

import torch
from torch import Tensor

from ropewalk.algorithms.config import KLEstimator
from ropewalk.algorithms.masked import Columns, in_rows, judged_rows, means, per_row, rows_in, select
from ropewalk.records.metric import Metric, Metrics


def kl_estimate(estimator: KLEstimator, logprobs_T: Tensor, reference_logprobs_T: Tensor) -> Tensor:
    """Per-token estimates of KL(π‖π_ref) in nats, (T,); differentiable in both arguments."""
    gap_T = logprobs_T - reference_logprobs_T
    if estimator == "k1":
        return gap_T
    if estimator == "k2":
        return 0.5 * gap_T.square()
    return torch.expm1(-gap_T) + gap_T


def policy_logprobs(columns: Columns) -> Tensor:
    """Log-probs of the policy that sampled: the trainer's where it computed them, otherwise the engine's."""
    return columns["old_logprobs"] if "old_logprobs" in columns else columns["rollout_logprobs"]


def kl_metrics(columns: Columns) -> Metrics:
    """What the rope measures before the update, over all judged rows, whatever the loss masks.

    `kl_per_token` and `kl_per_sequence` (nats, k1), and `kl_k3_per_token` with its tail `kl_k3_max`.
    """
    mask_T = in_rows(judged_rows(columns), columns)
    ours_T, reference_T = select(policy_logprobs(columns), mask_T), select(columns["reference_logprobs"], mask_T)
    k1_T, k3_T = (kl_estimate(name, ours_T, reference_T) for name in ("k1", "k3"))
    rows_R = per_row(mask_T.to(k1_T.dtype), mask_T, columns["row_T"], rows_in(columns)) > 0
    found = means({"kl_per_token": k1_T, "kl_k3_per_token": k3_T}, mask_T)
    found["kl_per_sequence"] = Metric.mean(found["kl_per_token"].total, float(rows_R.sum()))
    if bool(mask_T.any()):
        found["kl_k3_max"] = Metric.max(float(k3_T[mask_T].max()))
    return found
