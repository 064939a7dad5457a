"""What a look at a recipe finds: facts to read, and every problem that would stop the run."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ropewalk.config.load import ConfigError
from ropewalk.records.errors import InputError

T = TypeVar("T")


@dataclass
class Look:
    """Collected in reading order; nothing found is raised."""

    deep: bool = True
    """Read the data and count memory; a shallow look only asks whether everything is there."""
    problems: list[str] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    """(what, what about it), in reading order."""

    def attempt(self, find: Callable[[], T]) -> T | None:
        """What `find` gives; its failure is noted instead of raised."""
        try:
            return find()
        except InputError as error:
            self.problem(str(error))
        except ConfigError as error:
            for problem in error.problems:
                self.problem(problem)
        return None

    def problem(self, sentence: str) -> None:
        if sentence not in self.problems:
            self.problems.append(sentence)

    def fact(self, what: str, about: str) -> None:
        self.facts.append((what, about))
