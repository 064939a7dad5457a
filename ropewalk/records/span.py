"""What ran where and when. Predicted and measured timelines have this one form."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ropewalk.records.prompt import Json


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of work. Times are seconds since the run's start."""

    name: str
    lane: str
    """Where: a role, a rank, or `controller`."""
    start_seconds: float
    end_seconds: float
    info: Mapping[str, Json] = field(default_factory=dict)
