import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.data.config import DropFlat, RefillFlat
from ropewalk.data.select.dynamic import Group, decide, drop_metrics, flat_groups, most_groups
from ropewalk.records.errors import InputError
from ropewalk.records.metric import merge

rewards = st.lists(st.sampled_from([0.0, 1.0, 0.5, 0.1, None]), max_size=4).map(tuple)
groups = st.lists(rewards, max_size=12).map(lambda listed: [Group(f"g{i}", r) for i, r in enumerate(listed)])


def test_the_case_of_the_fault_table() -> None:
    """Faults E1 and E3: equal rewards, one sample, a missing score."""
    given_ = [
        Group("A", (1, 0)),
        Group("B", (5, 5, 5)),
        Group("C", (2,)),
        Group("D", (1, None, 0)),
        Group("E", (None,) * 3),
    ]
    assert flat_groups(given_, 0.0) == {"B": "high", "C": "too_few", "E": "too_few"}
    assert flat_groups([Group("a", (0.1,) * 7), Group("b", (0.1 + 0.2, 0.3))], 0.0) == {"a": "low"}
    assert flat_groups([Group("a", (0.1,) * 7), Group("b", (0.1 + 0.2, 0.3))], 1e-9) == {"a": "low", "b": "high"}
    assert flat_groups([Group("a", (0.5, 0.5)), Group("b", (0, 1))], 0.0) == {"a": "middle"}
    assert flat_groups([Group("a", (0.5, 0.5))], 0.0) == {"a": "middle"}, "alone it is neither"


@given(groups, st.integers(1, 6), st.sampled_from([1.0, 1.5, 3.0]))
def test_a_group_is_kept_exactly_if_it_varies_and_the_effort_is_bounded(given_: list, wanted: int, most: float) -> None:
    varied = [g.id for g in given_ if len({r for r in g.rewards if r is not None}) > 1]
    for config in (DropFlat(), RefillFlat(most=most)):
        found = decide(config, given_, wanted)
        assert list(found.kept) == varied[:wanted]
        assert set(found.dropped) == {g.id for g in given_} - set(varied)
        assert len(given_) + found.draw <= max(most_groups(config, wanted), len(given_))
        assert found.draw == 0 or found.short == 0
        assert found.draw <= wanted - len(found.kept)
        if not found.draw:
            assert found.short == wanted - len(found.kept)


@given(st.lists(rewards, min_size=30, max_size=30), st.integers(1, 8), st.sampled_from([1.0, 2.0, 3.0]))
def test_refilling_ends_with_what_is_wanted_or_with_the_bound(listed: list, wanted: int, most: float) -> None:
    """The whole loop: rounds of drawing, until there are enough or the bound is reached."""
    config, drawn, rounds = RefillFlat(most=most), [], 0
    while (decision := decide(config, drawn, wanted)).draw:
        drawn += [Group(f"g{len(drawn) + i}", listed[len(drawn) + i]) for i in range(decision.draw)]
        rounds += 1
        assert rounds <= most_groups(config, wanted)
    varied = sum(len({r for r in g.rewards if r is not None}) > 1 for g in drawn)
    assert len(decision.kept) == wanted or len(drawn) == math.ceil(most * wanted)
    assert (len(decision.kept), decision.short) == (min(varied, wanted), max(wanted - varied, 0))


@given(groups, groups)
def test_statistics_merge_over_iterations(left: list, right: list) -> None:
    def told(given_: list) -> dict:
        named = [Group(f"{id(given_)}{g.id}", g.rewards, "ab"[i % 2], "hard", 10.0 * i) for i, g in enumerate(given_)]
        return drop_metrics(named, flat_groups(named, 0.0), edges=(25, 60)), named

    (one, _), (other, _) = told(left), told(right)
    both = merge([one, other])
    assert both["groups/dropped"].count == len(left) + len(right)
    whys = [both[f"groups/dropped/{why}"].total for why in ("low", "high", "middle", "too_few")]
    assert sum(whys) == both["groups/dropped"].total
    for kind in ("source", "tokens"):
        parts = [metric for name, metric in both.items() if name.startswith(f"groups/dropped/{kind}/")]
        assert sum(part.total for part in parts) == both["groups/dropped"].total
        assert sum(part.count for part in parts) == both["groups/dropped"].count


def test_statistics_by_hand() -> None:
    given_ = [
        Group("a", (0, 0), "gsm", "hard", 40.0),
        Group("b", (0, 1), "gsm", "easy", 10.0),
        Group("c", (1, 1), "city", "easy", 90.0),
    ]
    told = drop_metrics(given_, flat_groups(given_, 0.0), edges=(32, 64))
    assert {name.removeprefix("groups/dropped"): (m.total, m.count) for name, m in told.items()} == {
        "": (2, 3),
        "/low": (1, 3),
        "/high": (1, 3),
        "/middle": (0, 3),
        "/too_few": (0, 3),
        "/source/gsm": (1, 2),
        "/source/city": (1, 1),
        "/difficulty/hard": (1, 1),
        "/difficulty/easy": (1, 2),
        "/tokens/0-32": (0, 1),
        "/tokens/32-64": (1, 1),
        "/tokens/64-": (1, 1),
    }


def test_what_is_a_mistake() -> None:
    """Fault E3: NaN is an error naming the group, never a reward."""
    with pytest.raises(InputError, match="group a has a reward that is not finite"):
        flat_groups([Group("a", (math.nan, 1.0))], 0.0)
    with pytest.raises(InputError, match="one id"):
        flat_groups([Group("a", (0, 1)), Group("a", (0, 1))], 0.0)
    with pytest.raises(InputError, match="at least one group"):
        decide(DropFlat(), [], 0)


def test_sources_without_number_are_not_told_one_by_one() -> None:
    """A file whose rows name a source each would give a metric each, without bound."""
    many = [Group(str(n), (0.0, 1.0), source=f"s{n}", difficulty="hard") for n in range(200)]
    told = drop_metrics(many, {})
    assert len(told) < 10 and "groups/dropped/difficulty/hard" in told
