"""Which prompts of a file of scored samples are worth training on, and what the choice does to the data.

Prompts are sifted by pass rate, then the largest clusters of similar prompts are cut down to a share; of such a cluster
those nearest to a rate of 1/2 stay, where a group has the most variance. Every prompt leaves with its verdict.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ropewalk.data.config import Buckets, Coverage, Keep
from ropewalk.data.select.buckets import NAMES, Bucket, bucket_of
from ropewalk.data.select.clusters import clusters_of
from ropewalk.data.select.coverage import Covered, balanced, covered
from ropewalk.data.select.keep import Verdict, keep_sentence, uncertain, verdict_of
from ropewalk.data.select.rates import PassRate, mean_rate
from ropewalk.records.prompt import Json

Fate: TypeAlias = Verdict | Literal["crowded"]
"""What becomes of a prompt; crowded: it would be kept, but its cluster has its share."""
FATES: tuple[Fate, ...] = ("kept", "too_hard", "too_easy", "crowded", "unjudged")


@dataclass(frozen=True, slots=True)
class Selected:
    """One prompt with all that is known of it."""

    rate: PassRate
    fate: Fate
    bucket: Bucket | None
    """None where nothing could be judged."""
    cluster: int
    uncertain: bool
    """Whether its interval lies on both sides of an edge of the band."""

    @property
    def kept(self) -> bool:
        return self.fate == "kept"

    def row(self) -> dict[str, Json]:
        """What `write_rates` writes of it beside its rate."""
        return {"fate": self.fate, "bucket": self.bucket, "cluster": self.cluster, "uncertain": self.uncertain}


@dataclass(frozen=True, slots=True)
class Selection:
    """All prompts, in their order."""

    prompts: tuple[Selected, ...]
    keep: Keep
    sifted: Covered
    """Clusters before and after the filter by pass rate."""
    balanced: Covered
    """Clusters before the filter and after the balancing."""

    @property
    def kept(self) -> list[Selected]:
        return [one for one in self.prompts if one.kept]

    def sentences(self) -> list[str]:
        """The choice in words."""
        counts = Counter(one.fate for one in self.prompts)
        buckets = Counter(one.bucket for one in self.kept)
        samples = Counter(one.rate.judged for one in self.prompts if one.rate.judged)
        said = [
            f"{counts['kept']} of {len(self.prompts)} prompts are kept: {counts['too_hard']} are too hard, "
            f"{counts['too_easy']} too easy, {counts['crowded']} crowded, {counts['unjudged']} unjudged",
            f"of the kept, {', '.join(f'{buckets[name]} are {name}' for name in NAMES)}",
        ]
        if samples:
            said.append(f"mean pass rate over prompts: {mean_rate([one.rate for one in self.prompts])}")
            said.append(keep_sentence(self.keep, samples.most_common(1)[0][0]))
            said.append(
                f"of {sum(one.uncertain for one in self.prompts)} prompts more samples might change the verdict"
            )
        emptied = self.sifted.emptied
        said.append(
            f"{len(emptied)} of {len(self.sifted.before)} clusters of similar prompts are emptied; the largest is "
            f"{self.balanced.largest_share:.0%} of the kept, before {self.balanced.largest_share_before:.0%} of all"
        )
        return said

    def summary(self) -> dict[str, Json]:
        """The choice in numbers."""
        fates = Counter(one.fate for one in self.prompts)
        buckets = Counter(one.bucket for one in self.kept)
        rates = [one.rate for one in self.prompts if one.rate.judged]
        mean = mean_rate(rates) if rates else None
        return {
            "prompts": len(self.prompts),
            **{fate: fates[fate] for fate in FATES},
            "buckets": {name: buckets[name] for name in NAMES},
            "mean_pass_rate": {"value": mean.value, "low": mean.low, "high": mean.high} if mean else None,
            "uncertain": sum(one.uncertain for one in self.prompts),
            "clusters": len(self.balanced.before),
            "clusters_left": len(self.balanced.after),
            "largest_share": self.balanced.largest_share,
            "emptied": [{"prompts": size, "first": first} for size, first in self.emptied()],
        }

    def emptied(self) -> list[tuple[int, str]]:
        """Clusters that the filter emptied, as (prompts, the first of them), the largest first."""
        first: dict[int, str] = {}
        for one in self.prompts:
            first.setdefault(one.cluster, one.rate.prompt)
        return [(self.sifted.before[cluster], first[cluster]) for cluster in self.sifted.emptied]


def choose(rates: Sequence[PassRate], keep: Keep, buckets: Buckets, coverage: Coverage) -> Selection:
    """The fate of every prompt. Raises InputError where the share cannot be kept by any choice."""
    clusters = clusters_of([rate.prompt for rate in rates], coverage)
    verdicts = [verdict_of(keep, rate) for rate in rates]
    sifted = [verdict == "kept" for verdict in verdicts]
    order = sorted(range(len(rates)), key=lambda i: _preference(rates[i]))
    place = {i: float(number) for number, i in enumerate(order)}
    stay = balanced(clusters, sifted, coverage.largest_share, [place[i] for i in range(len(rates))])
    fates: list[Fate] = [
        "crowded" if passed and not stays else verdict
        for verdict, passed, stays in zip(verdicts, sifted, stay, strict=True)
    ]
    prompts = tuple(
        Selected(
            rate,
            fate,
            bucket_of(buckets, rate.passed / rate.judged) if rate.judged else None,
            cluster,
            fate != "unjudged" and uncertain(keep, rate),
        )
        for rate, fate, cluster in zip(rates, fates, clusters, strict=True)
    )
    return Selection(prompts, keep, covered(clusters, sifted), covered(clusters, stay))


def _preference(rate: PassRate) -> tuple[float, str]:
    """The nearest to 1/2 first; among equals by a hash, so that the file's order is no matter."""
    distance = abs(rate.passed / rate.judged - 0.5) if rate.judged else 1.0
    return distance, hashlib.blake2b(rate.prompt_id.encode(), digest_size=8).hexdigest()
