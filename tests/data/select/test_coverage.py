from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.data.select.coverage import balanced, cap_of, covered
from ropewalk.records.errors import InputError

places = st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40)


@given(places)
def test_what_is_covered_adds_up(given_: list[tuple[int, bool]]) -> None:
    clusters, kept = [c for c, _ in given_], [k for _, k in given_]
    found = covered(clusters, kept)
    assert sum(found.before.values()) == len(given_) and sum(found.after.values()) == sum(kept)
    assert set(found.emptied) == set(clusters) - {c for c, k in given_ if k}
    assert [found.before[c] for c in found.emptied] == sorted((found.before[c] for c in found.emptied), reverse=True)
    assert 0 <= found.largest_share <= 1 and 0 <= found.largest_share_before <= 1


@given(st.lists(st.integers(1, 30), max_size=8), st.integers(1, 20))
def test_the_cap_is_the_largest_that_keeps_the_share(sizes: list[int], twentieths: int) -> None:
    share = twentieths / 20

    def holds(most: int) -> bool:
        return most * 20 <= twentieths * sum(min(size, most) for size in sizes)

    right = max((most for most in range(1, max(sizes, default=0) + 1) if holds(most)), default=0)
    if sizes and not right:
        with pytest.raises(InputError, match=f"of {len(sizes)} clusters none can be kept"):
            cap_of(sizes, share)
    else:
        assert cap_of(sizes, share) == right


@given(places, st.integers(4, 20))
def test_no_cluster_is_more_than_its_share_and_nothing_new_comes_in(given_: list, twentieths: int) -> None:
    clusters, kept = [c for c, _ in given_], [k for _, k in given_]
    try:
        stay = balanced(clusters, kept, twentieths / 20)
    except InputError:
        return
    assert all(k or not s for k, s in zip(kept, stay, strict=True))
    left = Counter(c for c, s in zip(clusters, stay, strict=True) if s)
    assert all(20 * count <= twentieths * left.total() for count in left.values())
    assert set(left) == {c for c, k in given_ if k}, "no cluster is emptied by it"
    assert balanced(clusters, stay, twentieths / 20) == stay
    assert balanced(clusters, kept, 1.0) == kept


def test_the_preferred_stay() -> None:
    clusters, kept = [0, 0, 0, 1, 1], [True, True, True, True, False]
    assert balanced(clusters, kept, 0.5, [0.3, 0.1, 0.2, 0.9, 0.0]) == [False, True, False, True, False]
    assert balanced(clusters, kept, 0.5) == [True, False, False, True, False]
    found = covered(clusters, [True, False, False, False, False])
    assert (found.emptied, found.largest_share, found.largest_share_before) == ([1], 1.0, 0.6)
