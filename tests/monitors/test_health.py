"""Every rule fires where it should, and only there; every setting of it is obeyed."""

import math
from collections.abc import Mapping

import pytest

from ropewalk.monitors.config import Health
from ropewalk.monitors.health import Values, diagnose, extend

HEALTHY: dict[str, float | None] = {
    "reward/mean": 0.4,
    "reward/std": 0.5,
    "group/no_variance": 0.2,
    "truncated": 0.1,
    "grad_norm/actor": 0.7,
    "grad_norm/critic": 1.1,
    "loss/policy": 0.01,
    "kl/token": 0.2,
    "kl/sequence": 1.6,
    "entropy": 1.5,
    "score/truth/mean": 0.4,
    "score/truth/failed": 0.0,
}
CONFIG = Health(window=3)

# rule, what is wrong, action by default, what the sentence names, action when the setting says otherwise
CASES = [
    ("non_finite", {"loss/policy": math.nan}, "stop", "loss/policy is not a finite number", None),
    ("non_finite", {"grad_norm/actor": None}, "stop", "grad_norm/actor is not", None),
    ("non_finite", {"kl/token": math.inf, "loss/policy": -math.inf}, "stop", "kl/token and loss/policy are not", None),
    (
        "zero_gradient",
        {"grad_norm/actor": 0.0},
        "stop",
        "grad_norm/actor was exactly 0 for 3",
        {"zero_gradient": "warn"},
    ),
    ("zero_gradient", {"grad_norm/actor": 0.0, "truncated": 1.0}, "stop", "sampling.max_new_tokens", None),
    ("no_variance", {"group/no_variance": 1.0}, "stop", "no group had samples of differing", {"no_variance": "warn"}),
    ("no_variance", {"reward/std": 0.0}, "stop", "all rewards were equal", None),
    ("no_variance", {"reward/std": 0.0, "truncated": 0.95}, "stop", "sampling.max_new_tokens", None),
    (
        "no_variance",
        {"group/no_variance": 1.0, "reward/invalid": 1.0, "kl/token": None, "loss/policy": None},
        "stop",
        "no sample had a reward for 3",
        {"no_variance": "warn"},
    ),
    ("non_finite", {"reward/invalid": 0.9, "kl/token": None}, "stop", "kl/token is not", None),
    ("failed", {"score/truth/failed": 0.3}, "warn", "scorer truth failed on more than 20%", {"failed": "stop"}),
    ("failed", {"task/a/score/rule/failed": 0.3}, "warn", "scorer rule failed on more than 20%", {"failed": "stop"}),
    ("truncated", {"truncated": 0.95}, "warn", "sampling.max_new_tokens", {"truncated": "stop"}),
    ("kl", {"kl/token": 1.5}, "warn", "raise the KL coefficient", {"kl": "stop"}),
]


def history(values: Mapping[str, float | None], count: int) -> list[Values]:
    return [{**HEALTHY, **values} for _ in range(count)]


@pytest.mark.parametrize(("rule", "wrong", "action", "says", "setting"), CASES)
def test_rule(
    rule: str, wrong: dict[str, float | None], action: str, says: str, setting: dict[str, str] | None
) -> None:
    """Fault Q4: a dead run is named, with what would mend it."""
    found = diagnose(history(wrong, 3), CONFIG)
    assert found is not None and (found.rule, found.action) == (rule, action)
    assert says in found.message and "\n" not in found.message and ": " in found.message
    if setting:
        other = diagnose(history(wrong, 3), CONFIG.model_copy(update=setting))
        assert other is not None and other.action == setting[rule]


@pytest.mark.parametrize(("rule", "wrong"), [(case[0], case[1]) for case in CASES if case[0] != "non_finite"])
def test_a_rule_must_hold_over_the_whole_window(rule: str, wrong: dict[str, float | None]) -> None:
    assert diagnose(history(wrong, 2), CONFIG) is None
    assert diagnose([HEALTHY, *history(wrong, 2)], CONFIG) is None
    assert diagnose([*history(wrong, 2), HEALTHY], CONFIG) is None
    assert diagnose([HEALTHY, HEALTHY, *history(wrong, 3)], CONFIG) is not None
    gap = history(wrong, 3)
    gap[1] = dict.fromkeys(gap[1])
    assert diagnose(gap, CONFIG) is None


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [
        ({"truncated_above": 0.97}, {"truncated": 0.95}),
        ({"failed_above": 0.5}, {"score/truth/failed": 0.3}),
        ({"kl_above": 2.0}, {"kl/token": 1.5}),
        ({"window": 4}, {"reward/std": 0.0}),
    ],
)
def test_thresholds_are_read(setting: dict[str, float], wrong: dict[str, float | None]) -> None:
    assert diagnose(history(wrong, 3), CONFIG) is not None
    assert diagnose(history(wrong, 3), CONFIG.model_copy(update=setting)) is None


def test_collapsed_entropy_is_measured_against_the_start() -> None:
    low = history({"entropy": 0.1}, 3)
    found = diagnose([*history({}, 3), *low], CONFIG)
    assert found is not None and (found.rule, found.action) == ("entropy", "warn") and "10%" in found.message
    assert diagnose(low + low, CONFIG) is None
    assert diagnose([*history({}, 3), *low], CONFIG.model_copy(update={"entropy_fraction": 0.05})) is None
    stopping = diagnose([*history({}, 3), *low], CONFIG.model_copy(update={"entropy": "stop"}))
    assert stopping is not None and stopping.action == "stop"


def test_a_healthy_run_an_empty_one_and_one_without_metrics_have_no_diagnosis() -> None:
    assert diagnose(history({}, 10), CONFIG) is None
    assert diagnose([], CONFIG) is None
    assert diagnose([{}, {}, {}], CONFIG) is None


def test_what_stops_is_said_before_what_warns() -> None:
    found = diagnose(history({"kl/token": 2.0, "truncated": 0.95, "reward/std": 0.0}, 3), CONFIG)
    assert found is not None and found.rule == "no_variance"
    settings = CONFIG.model_copy(update={"no_variance": "warn", "kl": "stop"})
    found = diagnose(history({"kl/token": 2.0, "truncated": 0.95, "reward/std": 0.0}, 3), settings)
    assert found is not None and found.rule == "kl"


def test_the_kept_history_is_bounded_and_gives_the_same_diagnoses() -> None:
    """Fault O2: two windows are kept, whatever the length of the run; no rule sees a difference."""
    kept: tuple[Values, ...] = ()
    everything: list[Values] = []
    for iteration in range(40):
        wrong: dict[str, float | None] = {"entropy": 1.5 if iteration < 20 else 0.05, "truncated": iteration / 40}
        everything.append({**HEALTHY, **wrong})
        kept = extend(kept, everything[-1], CONFIG)
        assert len(kept) <= 2 * CONFIG.window
        assert diagnose(kept, CONFIG) == diagnose(everything, CONFIG)
    assert diagnose(kept, CONFIG) is not None


def test_an_iteration_without_any_reward_is_not_a_broken_number() -> None:
    """Fault E3: where every sample is left out, averages over the samples are over nothing; one such is no illness."""
    empty = {"reward/invalid": 1.0, "group/no_variance": 1.0, "kl/token": None, "policy/ratio_mean": math.nan}
    assert diagnose([*history({}, 3), {**HEALTHY, **empty}], CONFIG) is None
