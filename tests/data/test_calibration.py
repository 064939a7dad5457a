"""Calibration: 0 for perfect values, by hand for others, whatever the order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.data.calibration import Bin, calibration_error, reliability
from ropewalk.records.errors import InputError


def test_by_hand() -> None:
    values, labels = [0.05, 0.05, 0.95, 0.95, 1.0], [0.0, 0.5, 1.0, 1.0, 0.0]
    low, high = reliability(values, labels)
    assert low == Bin(0.05, 0.25, 2)
    assert high.size == 3 and high.value == pytest.approx(2.9 / 3) and high.label == pytest.approx(2 / 3)
    assert calibration_error(values, labels) == pytest.approx((2 * 0.2 + 3 * 0.3) / 5)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_values_that_are_their_labels_are_calibrated_in_any_order(values: list[float], random: object) -> None:
    assert calibration_error(values, values) < 1e-12
    assert sum(one.size for one in reliability(values, values)) == len(values)
    turned = np.array(values)[::-1]
    assert calibration_error(turned, 1 - turned) == pytest.approx(calibration_error(values, 1 - np.array(values)))


@pytest.mark.parametrize(("values", "labels"), [([], []), ([0.5], [0.5, 0.5]), ([1.5], [1.0]), ([float("nan")], [0.0])])
def test_what_is_no_probability_is_refused(values: list[float], labels: list[float]) -> None:
    with pytest.raises(InputError, match="from 0 to 1"):
        calibration_error(values, labels)
