"""What a selection does to the kinds of prompts: which are emptied, and none that takes over.

A filter by difficulty is blind to kinds: it can leave a data set of one template. Here clusters of similar prompts
(`clusters`) are counted before and after, and the largest are cut down to a share.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ropewalk.records.errors import InputError


@dataclass(frozen=True, slots=True)
class Covered:
    """Clusters before and after a selection."""

    before: dict[int, int]
    """Prompts of each cluster."""
    after: dict[int, int]
    """Prompts of each cluster that are kept; clusters without any are left out."""

    @property
    def emptied(self) -> list[int]:
        """Clusters of which nothing is left, the largest first."""
        return sorted((c for c in self.before if c not in self.after), key=lambda c: (-self.before[c], c))

    @property
    def largest_share(self) -> float:
        """Share of the largest cluster of what is kept; 0 of nothing."""
        return max(self.after.values(), default=0) / max(sum(self.after.values()), 1)

    @property
    def largest_share_before(self) -> float:
        """Share of the largest cluster of all prompts; 0 of nothing."""
        return max(self.before.values(), default=0) / max(sum(self.before.values()), 1)


def covered(clusters: Sequence[int], kept: Sequence[bool]) -> Covered:
    """What is left of each cluster."""
    left = Counter(cluster for cluster, keep in zip(clusters, kept, strict=True) if keep)
    return Covered(dict(Counter(clusters)), dict(left))


def cap_of(sizes: Sequence[int], largest_share: float) -> int:
    """The most prompts m of a cluster such that m ≤ largest_share × Σ min(size, m).

    Raises InputError where no m ≥ 1 will do: there are fewer clusters than the share needs.
    """
    if not sizes:
        return 0
    share = Fraction(str(largest_share))
    # share × Σ min(size, m) − m is concave in m and 0 at 0: once below 0 it stays there.
    low, high = 0, max(sizes)
    while low < high:
        middle = (low + high + 1) // 2
        if middle <= share * sum(min(size, middle) for size in sizes):
            low = middle
        else:
            high = middle - 1
    if low:
        return low
    raise InputError(
        f"of {len(sizes)} clusters none can be kept at a largest share of {largest_share:g}: "
        f"allow at least {1 / len(sizes):.3g}, or lower the similarity that makes a cluster"
    )


def balanced(
    clusters: Sequence[int], kept: Sequence[bool], largest_share: float, preference: Sequence[float] | None = None
) -> list[bool]:
    """What is still kept when no cluster may be more than a share of it.

    Of a cluster that is too large those with the lowest `preference` stay, by default the first. What was not kept
    before stays out.
    """
    order: Sequence[float] = preference if preference is not None else range(len(clusters))
    members: dict[int, list[int]] = {}
    for place, (cluster, keep) in enumerate(zip(clusters, kept, strict=True)):
        if keep:
            members.setdefault(cluster, []).append(place)
    most = cap_of([len(places) for places in members.values()], largest_share)
    stay = {place for places in members.values() for place in sorted(places, key=lambda p: (order[p], p))[:most]}
    return [place in stay for place in range(len(clusters))]
