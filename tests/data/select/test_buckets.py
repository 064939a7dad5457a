import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ropewalk.data.config import Buckets, Curriculum, Phase
from ropewalk.data.select.buckets import NAMES, bucket_of, bucket_weights, factors_at
from ropewalk.records.errors import InputError

sizes = st.fixed_dictionaries({name: st.integers(0, 50) for name in NAMES})
progress = st.floats(0, 1)


def test_edges() -> None:
    buckets = Buckets(hard_below=0.25, easy_above=0.75)
    assert [bucket_of(buckets, rate) for rate in (0, 0.24, 0.25, 0.75, 0.76, 1)] == [
        *("hard", "hard", "medium", "medium", "easy", "easy")
    ]
    with pytest.raises(ValidationError, match="is above easy_above"):
        Buckets(hard_below=0.9, easy_above=0.1)


@given(sizes, progress)
def test_weights_are_shares_that_make_one_prompt_come_as_often_as_its_factor(sized: dict, at: float) -> None:
    curriculum = Curriculum()
    if not sum(sized.values()):
        with pytest.raises(InputError, match="there are none"):
            bucket_weights(curriculum, sized, at)
        return
    weights, factors = bucket_weights(curriculum, sized, at), factors_at(curriculum, at)
    assert sum(weights.values()) == pytest.approx(1)
    each = {name: weights[name] / sized[name] / factors[name] for name in NAMES if sized[name]}
    assert max(each.values()) == pytest.approx(min(each.values())), "per prompt and factor, all alike"
    assert all(weights[name] == 0 for name in NAMES if not sized[name])


def test_all_factors_one_is_the_data_and_hard_three_is_three_times_as_often() -> None:
    sized = {"easy": 50, "medium": 30, "hard": 20}
    flat, oversampled = (Curriculum(phases=(Phase(at=0.5, hard=f),)) for f in (1.0, 3.0))
    assert bucket_weights(flat, sized, 0.3) == pytest.approx({"easy": 0.5, "medium": 0.3, "hard": 0.2})
    assert bucket_weights(oversampled, sized, 0.3)["hard"] == pytest.approx(60 / 140)


@given(progress)
def test_factors_are_linear_between_phases_and_constant_outside(at: float) -> None:
    phases = (Phase(at=0.2, easy=4, hard=0), Phase(at=0.6, easy=2, hard=1), Phase(at=0.7, easy=0, hard=5))
    found = factors_at(Curriculum(phases=phases), at)
    if at <= 0.2:
        assert found == {"easy": 4, "medium": 1, "hard": 0}
    elif at <= 0.6:
        assert found["easy"] == pytest.approx(4 - (at - 0.2) * 5) and found["hard"] == pytest.approx((at - 0.2) / 0.4)
    elif at >= 0.7:
        assert found == {"easy": 0, "medium": 1, "hard": 5}
    assert all(value >= 0 for value in found.values())
    for phase in phases:
        assert factors_at(Curriculum(phases=phases), phase.at) == pytest.approx(
            {"easy": phase.easy, "medium": phase.medium, "hard": phase.hard}
        )


@pytest.mark.parametrize(
    "phases",
    [(), (Phase(at=0.5), Phase(at=0.5)), (Phase(at=0.5), Phase(at=0.1)), (Phase(at=0, easy=0, medium=0, hard=0),)],
)
def test_curricula_that_cannot_be(phases: tuple[Phase, ...]) -> None:
    with pytest.raises(ValidationError, match="curriculum"):
        Curriculum(phases=phases)


def test_progress_and_factors_that_draw_nothing() -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        factors_at(Curriculum(), 1.01)
    only_hard = Curriculum(phases=(Phase(at=0, easy=0, medium=0, hard=1),))
    with pytest.raises(InputError, match="no prompt has a factor above 0: there are 5 easy"):
        bucket_weights(only_hard, {"easy": 5, "medium": 0, "hard": 0}, 0)
