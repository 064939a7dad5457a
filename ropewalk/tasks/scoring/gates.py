"""Whether a component counts on a row: gates decide first, then what its own outcome is.

A gate opens where the scorer it looks at gave a score of at least so much. One that failed was not passed, so the
gate is closed, and the gated component contributes the gate's value: it is neither scored nor failed on that row.
A row is dropped only by a component that counts and failed, and whose `failed` names no score for it.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from ropewalk.records.errors import InputError
from ropewalk.records.score import Abstain, Failed, Outcome, Score
from ropewalk.tasks.scoring.config import Component, Gate

Row: TypeAlias = Mapping[str, Outcome]


class Part(NamedTuple):
    """A component on one row."""

    outcome: Outcome
    raw: float | None = None
    """The score that counts, or the one that stands for a failure."""
    closed: Gate | None = None
    """The first closed gate: its value counts."""
    drops: bool = False
    """It failed, and nothing stands for that."""


def part_of(name: str, component: Component, row: Row) -> Part:
    """What a component is worth on a row, before normalisation."""
    outcome = row[name]
    closed = next((gate for gate in component.gates if not is_open(gate, row)), None)
    if closed is not None:
        return Part(outcome, closed=closed)
    if isinstance(outcome, Score):
        return Part(outcome, outcome.value)
    if isinstance(outcome, Abstain):
        return Part(outcome)
    stands = stands_for(component, outcome)
    return Part(outcome, stands, drops=stands is None)


def closed_words(gate: Gate) -> str:
    """What a record says of a closed gate."""
    return f"closed: {gate.on} must be at least {gate.at_least:g}"


def is_open(gate: Gate, row: Row) -> bool:
    """Whether a row passes a gate."""
    if gate.on not in row:
        raise InputError(f"a gate looks at {gate.on!r}, which was scored by nobody: there are {', '.join(row)}")
    outcome = row[gate.on]
    if isinstance(outcome, Abstain):
        return gate.abstained == "open"
    return isinstance(outcome, Score) and outcome.value >= gate.at_least


def stands_for(component: Component, outcome: Failed) -> float | None:
    """The score that a component names for a failure; None: it names none."""
    given = component.failed
    if isinstance(given, str):
        return None
    return given.get(outcome.reason) if isinstance(given, Mapping) else given
