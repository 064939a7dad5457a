"""The calls of one iteration and the names they read and write; the edges follow from the names."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ropewalk.records.errors import InputError

Kind: TypeAlias = Literal["generate", "forward", "train", "copy"]
Unit: TypeAlias = Literal["token", "sequence", "pair", "group"]


@dataclass(frozen=True, slots=True)
class Call:
    """One model call. `role` says whose parameters run; `reads` and `writes` name columns of the batch."""

    name: str
    role: str
    kind: Kind
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    unit: Unit = "sequence"
    """What micro-batches may not cut."""


@dataclass(frozen=True, slots=True)
class CallGraph:
    """Calls in an order that respects their edges; checked at construction."""

    calls: tuple[Call, ...]
    given: tuple[str, ...]
    """Columns that exist before the first call, or that the controller computes between calls."""

    def __post_init__(self) -> None:
        names = [call.name for call in self.calls]
        if len(set(names)) != len(names):
            raise InputError(f"a call graph needs distinct call names, got {names}")
        known = set(self.given)
        for call in self.calls:
            missing = sorted(set(call.reads) - known)
            if missing:
                raise InputError(f"call {call.name!r} reads {missing}, which no earlier call writes")
            known |= set(call.writes)

    def __getitem__(self, name: str) -> Call:
        for call in self.calls:
            if call.name == name:
                return call
        raise KeyError(name)

    def of_kind(self, kind: Kind) -> tuple[Call, ...]:
        return tuple(call for call in self.calls if call.kind == kind)

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(call.role for call in self.calls))

    def edges(self) -> tuple[tuple[str, str], ...]:
        """(earlier, later) pairs: later reads what earlier wrote last."""
        writer: dict[str, str] = {}
        found: list[tuple[str, str]] = []
        for call in self.calls:
            found += [(writer[name], call.name) for name in call.reads if name in writer]
            writer |= dict.fromkeys(call.writes, call.name)
        return tuple(dict.fromkeys(found))
