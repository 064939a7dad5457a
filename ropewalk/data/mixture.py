"""Several sources of rows in one order: each by its own ledger, interleaved by weights.

Invariant: every row of a source comes exactly once in each epoch of that source, whatever the weights, however much is
asked for at a time, and through a stop at any place. Weights decide only whose turn it is: the source whose credit is
highest, where every turn adds each source's share to its credit and takes 1 from the chosen one. So after t turns under
constant weights a source has come within one of (number of sources) turns of its share × t, without chance.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import fsum, isfinite
from types import MappingProxyType
from typing import Any

from ropewalk.data.ledger import DataLedger
from ropewalk.records.errors import InputError

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Mixture:
    """A position in the mixed order of several sources."""

    ledgers: Mapping[str, DataLedger]
    credits: Mapping[str, float]
    """What each source has a right to beyond what it was given."""

    @staticmethod
    def start(ledgers: Mapping[str, DataLedger]) -> "Mixture":
        """Before the first turn."""
        if not ledgers:
            raise InputError("a mixture needs at least one source of rows")
        return Mixture(MappingProxyType(dict(ledgers)), MappingProxyType(dict.fromkeys(ledgers, 0.0)))

    @property
    def epochs(self) -> dict[str, float]:
        """How often each source was gone through, parts included."""
        return {name: ledger.consumed / ledger.size for name, ledger in self.ledgers.items()}

    def next(self, n: int, weights: Mapping[str, float]) -> tuple[list[tuple[str, int]], "Mixture"]:
        """The next `n` rows as (source, row number), and the mixture after them.

        A weight is a source's share of the turns (any scale); one of 0 gives none and keeps its credit.
        """
        if n < 0:
            raise InputError(f"cannot take {n} rows")
        shares = self._shares(weights)
        credits = dict(self.credits)
        turns: list[str] = []
        for _ in range(n):
            for name, share in shares.items():
                credits[name] += share
            # The first of equals: the order of sources is fixed.
            chosen = max(shares, key=credits.__getitem__)
            credits[chosen] -= 1.0
            turns.append(chosen)
        rows, ledgers = {}, dict(self.ledgers)
        for name in set(turns):
            taken, ledgers[name] = self.ledgers[name].next(turns.count(name))
            rows[name] = iter(taken.tolist())
        after = replace(self, ledgers=MappingProxyType(ledgers), credits=MappingProxyType(credits))
        return [(name, next(rows[name])) for name in turns], after

    def state(self) -> dict[str, Any]:
        """JSON data from which `resume` goes on."""
        ledgers = {name: ledger.state() for name, ledger in self.ledgers.items()}
        return {"version": _VERSION, "ledgers": ledgers, "credits": dict(self.credits)}

    @staticmethod
    def resume(state: Mapping[str, Any], fingerprints: Mapping[str, str]) -> "Mixture":
        """The mixture of a saved state; refuses other sources, or others' rows, than it was saved with."""
        if state.get("version") != _VERSION:
            raise InputError(f"the saved mixture has version {state.get('version')}, this program reads {_VERSION}")
        saved = state["ledgers"]
        if set(saved) != set(fingerprints):
            raise InputError(
                f"the run mixed {', '.join(sorted(saved))} and cannot resume on {', '.join(sorted(fingerprints))}: "
                "give it the same sources, or start a new run"
            )
        ledgers = {name: DataLedger.resume(saved[name], fingerprints[name]) for name in saved}
        credits = {name: float(state["credits"][name]) for name in saved}
        return Mixture(MappingProxyType(ledgers), MappingProxyType(credits))

    def _shares(self, weights: Mapping[str, float]) -> dict[str, float]:
        """The weights of the sources that have any, as shares of 1."""
        if set(weights) != set(self.ledgers):
            odd = sorted(set(weights) ^ set(self.ledgers))
            raise InputError(f"a mixture needs a weight for each of its sources and no other: look at {', '.join(odd)}")
        if not all(isfinite(weight) and weight >= 0 for weight in weights.values()):
            raise InputError(f"weights of a mixture are finite and not below 0: {dict(weights)}")
        total = fsum(weights.values())
        if total <= 0:
            raise InputError("all weights of a mixture are 0: nothing would be drawn")
        return {name: weights[name] / total for name in self.ledgers if weights[name] > 0}
