"""Programs that mean harm, each with what may come of it (`hostile.txt`: `=== name: statuses`, then the program).

A program that prints the word BREACH has got out, or has got at something. `HONEST` runs between them and must score.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from ropewalk.tasks.scoring.sandbox.program import Status

HONEST = "def double(x):\n    return 2 * x\n\n\nif __name__ == '__main__':\n    print(double(int(input())))\n"


@dataclass(frozen=True)
class Hostile:
    """One program and the statuses that are right for it as a script."""

    name: str
    source: str
    ends: frozenset[str]


def sections(name: str) -> dict[str, str]:
    """Heading to text of a file of programs beside this one."""
    text = (Path(__file__).parent / name).read_text("utf-8")
    text = text.replace("@HOME@", str(Path.home())).replace("@REPOSITORY@", str(Path(__file__).resolve().parents[4]))
    found = {}
    for section in text.split("=== ")[1:]:
        heading, _, source = section.partition("\n")
        found[heading] = source
    return found


def _programs() -> list[Hostile]:
    found = []
    for heading, source in sections("hostile.txt").items():
        name, _, words = heading.partition(": ")
        ends = frozenset(get_args(Status)) if words == "any" else frozenset(words.split())
        assert ends <= set(get_args(Status)), heading
        found.append(Hostile(name, source, ends))
    crash = frozenset({"raised", "crashed"})
    deep = Hostile("a text that no parser survives", "x = " + "(" * 100_000, crash)
    return [*found, deep, Hostile("a null in its text", "x = '\0'", crash)]


PROGRAMS = _programs()
