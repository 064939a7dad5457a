"""What the controller must remember between iterations: small, JSON-able, and complete.

Together with the workers' tensors this is the whole state of a run: every random draw is a function of the run's
seed and the iteration, so there is no generator to save.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json


@dataclass(frozen=True, slots=True)
class RunState:
    """The controller's state after `iteration` finished iterations."""

    iteration: int = 0
    seconds: float = 0.0
    """Wall-clock seconds of training so far, over all sessions."""
    ledger: Mapping[str, Any] = field(default_factory=dict)
    """Which rows or prompts come next."""
    kl: Mapping[str, float] = field(default_factory=dict)
    """State of the KL controller."""
    rewards: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Statistics of the reward components."""
    best_value: float | None = None
    best_iteration: int | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Of the roles that never train: a resumed run must find the same reference."""

    def to_json(self) -> dict[str, Json]:
        return asdict(self)

    @staticmethod
    def from_json(raw: Mapping[str, Json]) -> "RunState":
        try:
            return RunState(**raw)  # type: ignore[arg-type]
        except TypeError as error:
            raise InputError(f"the checkpoint is of another version of ropewalk ({error}): start a new run") from error

    def advanced(self, *, seconds: float) -> "RunState":
        return replace(self, iteration=self.iteration + 1, seconds=seconds)
