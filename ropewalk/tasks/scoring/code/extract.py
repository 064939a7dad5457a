"""Finds the program in a completion: its last fenced code block, or the text as a continuation of the prompt."""

from collections.abc import Sequence
from dataclasses import dataclass

PYTHON = ("python", "py", "python3", "")
"""Tags of a block that may hold Python; no tag, too."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    tag: str
    """First word after the fence, in lower case."""
    code: str
    closed: bool


def blocks(text: str) -> list[Block]:
    """All fenced blocks in order, as CommonMark reads them; one that never closes reaches to the end."""
    found: list[Block] = []
    fence, indent, tag, lines = "", 0, "", [""][:0]
    # Not splitlines(): a form feed or a line separator within a program is a letter of it.
    for line in text.replace("\r\n", "\n").split("\n"):
        bare = line.lstrip(" ")
        marks = _fence(bare)
        if fence and marks.startswith(fence) and not bare[len(marks) :].strip():
            found.append(Block(tag, "\n".join(lines), True))
            fence = ""
        elif fence:
            lines.append(line[min(indent, len(line) - len(bare)) :])
        elif marks and "`" not in bare[len(marks) :]:
            fence, indent, lines = marks, len(line) - len(bare), []
            tag = (bare[len(marks) :].split() or [""])[0].lower()
    if fence:
        found.append(Block(tag, "\n".join(lines), False))
    return found


def last_block(text: str, tags: Sequence[str] = PYTHON, *, open_ended: bool = False) -> str | None:
    """Code of the last block of one of these tags; None if there is none.

    A last block that never closes is no answer (it was cut off), unless `open_ended`: a stop string may have taken
    its closing fence away.
    """
    fitting = [block for block in blocks(text) if block.tag in tags and block.code.strip()]
    if not fitting or not (fitting[-1].closed or open_ended):
        return None
    return fitting[-1].code


def _fence(bare: str) -> str:
    """The run of three or more equal fence characters that a line begins with."""
    if not bare.startswith(("```", "~~~")):
        return ""
    return bare[: len(bare) - len(bare.lstrip(bare[0]))]
