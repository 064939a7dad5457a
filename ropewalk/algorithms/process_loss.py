"""The loss of a process reward model, per step, to be minimised; and how good its values are as probabilities."""

from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from ropewalk.algorithms.masked import means, select
from ropewalk.records.metric import Metric, Metrics


def step_terms(scores_T: Tensor, labels_T: Tensor) -> Tensor:
    """−y log σ(z) − (1 − y) log(1 − σ(z)) = softplus(z) − y z, per step: ln 2 at z = 0 whatever the label.

    Binary cross-entropy with soft labels y in [0, 1] (Lightman et al. 2023; Wang et al. 2024, Math-Shepherd, eq. 2).
    """
    return softplus(scores_T) - labels_T * scores_T


def step_metrics(scores_T: Tensor, labels_T: Tensor, mask_T: Tensor) -> Metrics:
    """Accuracy (over steps whose label and value are on a side of ½), mean value, label and squared error."""
    z_T, y_T = select(scores_T.detach(), mask_T), select(labels_T, mask_T)
    value_T = logsigmoid(z_T).exp()
    right_T = ((z_T > 0) == (y_T > 0.5)).to(z_T.dtype)
    found: dict[str, Metric] = dict(means({"step_accuracy": right_T}, mask_T & (y_T != 0.5) & (z_T != 0)))
    shown = {"step_value": value_T, "step_label": y_T, "step_brier": (value_T - y_T) ** 2}
    return found | dict(means(shown, mask_T))
