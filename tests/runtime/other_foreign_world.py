"""The same environment of verifiers under another name."""

from tests.runtime.foreign_world import load_environment

__all__ = ["load_environment"]
