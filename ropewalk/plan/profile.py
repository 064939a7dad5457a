"""Measured times of calls, and what they say about sizes in between."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProfileTable:
    """Placeholder."""
