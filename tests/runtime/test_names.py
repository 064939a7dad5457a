"""Public metric names: no measurement hides another."""

from ropewalk.records.metric import Metric
from ropewalk.runtime.names import SHOWN, shown


def test_no_two_measurements_share_a_public_name() -> None:
    public = list(SHOWN.values())
    assert len(set(public)) == len(public)
    both = {"rollout_entropy": Metric.mean(2.0, 1), "entropy": Metric.mean(1.0, 1)}
    assert {name: metric.value for name, metric in shown(both).items()} == {"entropy": 2.0, "policy/entropy": 1.0}
