"""The KL coefficient moves towards its target, from state that is one number."""

import json
import math

import pytest

from ropewalk.algorithms.config import AdaptiveController, KLReward
from ropewalk.algorithms.controllers import AdaptiveKL, KLState, controller

ADAPTIVE = KLReward(
    coefficient=0.2, controller=AdaptiveController(target_nats_per_sequence=5.0, horizon_sequences=100.0)
)


def test_a_fixed_coefficient_never_moves() -> None:
    fixed = controller(KLReward(coefficient=0.3))
    assert fixed.update(fixed.start(), 100.0, 64) == KLState(0.3)


@pytest.mark.parametrize(
    ("kl", "wanted"), [(5.0, 0.2), (5.5, 0.21), (50.0, 0.22), (4.5, 0.19), (0.0, 0.18), (math.nan, 0.2)]
)
def test_an_adaptive_coefficient_follows_the_clipped_error(kl: float, wanted: float) -> None:
    adaptive = controller(ADAPTIVE)
    assert adaptive.update(adaptive.start(), kl, 50).coefficient == pytest.approx(wanted)


@pytest.mark.parametrize("horizon", [1e-3, 1.0, 63.0, 64.0, 1e6])
@pytest.mark.parametrize("kl", [-1.0, 0.0, 5.0, 1e9])
def test_a_step_moves_by_a_fifth_at_most_however_short_the_horizon(horizon: float, kl: float) -> None:
    """Fewer sequences in the horizon than in five iterations once made the coefficient negative."""
    adaptive = AdaptiveKL(0.2, target_nats_per_sequence=5.0, horizon_sequences=horizon)
    moved = adaptive.update(adaptive.start(), kl, 64).coefficient
    assert 0.8 * 0.2 - 1e-12 <= moved <= 1.2 * 0.2 + 1e-12


def test_the_coefficient_settles_where_the_kl_meets_the_target() -> None:
    """A world in which KL = 1 / β."""
    adaptive = controller(ADAPTIVE)
    state = KLState(2.0)
    for _ in range(200):
        state = adaptive.update(state, 1 / state.coefficient, 50)
    assert 1 / state.coefficient == pytest.approx(5.0, rel=1e-3)


def test_state_survives_the_checkpoint() -> None:
    state = controller(ADAPTIVE).update(KLState(0.123456789), 7.0, 3)
    assert KLState.from_json(json.loads(json.dumps(state.to_json()))) == state
