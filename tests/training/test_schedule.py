"""The schedule reaches its end exactly at the last step, and its length comes from one place."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.training.config import ConstantSchedule, CosineSchedule, LinearSchedule
from ropewalk.training.schedule import StepPlan, lr_factor


@pytest.mark.parametrize("shape", [LinearSchedule, CosineSchedule])
@given(warmup=st.integers(0, 30), total=st.integers(2, 40), final=st.floats(0, 1))
def test_the_last_step_has_the_target_rate(
    shape: type[LinearSchedule | CosineSchedule], warmup: int, total: int, final: float
) -> None:
    """Fault J6: the last step's rate is the target, the rate never rises again, warm-up >= total is accepted."""
    schedule = shape(kind="linear" if shape is LinearSchedule else "cosine", warmup_steps=warmup, final_fraction=final)
    factors = [lr_factor(step, total, schedule) for step in range(total + 3)]
    assert all(0 <= factor <= 1 + 1e-12 for factor in factors)
    if warmup < total:
        assert factors[total - 1] == pytest.approx(final)
        assert factors[max(warmup - 1, 0)] == 1.0
        decay = factors[max(warmup - 1, 0) :]
        assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(decay))
        assert factors[total:] == [pytest.approx(final)] * 3
    else:
        assert factors[:total] == [pytest.approx((step + 1) / warmup) for step in range(total)]


def test_a_constant_schedule_stays_at_its_peak() -> None:
    schedule = ConstantSchedule(warmup_steps=2)
    assert [lr_factor(step, 4, schedule) for step in range(5)] == [0.5, 1.0, 1.0, 1.0, 1.0]


def test_a_single_step_runs_at_the_peak() -> None:
    assert lr_factor(0, 1, CosineSchedule(kind="cosine", final_fraction=0.0)) == 1.0


def test_windows_cross_epochs() -> None:
    """Fault J6: 10 units an epoch, 4 a step, 3 epochs are 7 full steps (not 6) and a last one of the 2 left over."""
    plan = StepPlan.sweep(10, units_per_step=4, epochs=3)
    assert plan.total_steps == 8
    assert 10 * 3 // 4 == 7
    assert StepPlan.sweep(10, units_per_step=5, epochs=3).total_steps == 6
    assert StepPlan.iterations(60, epochs=4, minibatches=2).total_steps == 480
    with pytest.raises(InputError, match="at least one optimiser step"):
        StepPlan.sweep(0, units_per_step=4, epochs=3)
