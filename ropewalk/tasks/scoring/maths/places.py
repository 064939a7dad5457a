r"""Where an answer stands in a text. No text is cut, and every look at it takes linear time.

Text that is added behind a marked answer, on a new line, does not change what is found, unless it brings a marker.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ropewalk.tasks.scoring.maths.limits import MAX_BRACES
from ropewalk.tasks.scoring.maths.policy import Place
from ropewalk.tasks.scoring.numbers import last_number

_ANSWER_IS = re.compile(
    r"(?i:answers?)[\s*_]*(?:is\b|are\b|=|:|：)[\s*_]*:?|答案[\s*_]*(?:是|为|為|=|:|：)[\s*_]*[:：]?|答[:：]"
)
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_DELIMITERS = (("\\[", "\\]"), ("\\(", "\\)"))


class Found(NamedTuple):
    """The text at a place."""

    text: str
    delimited: bool
    """It is the answer and nothing else; otherwise a line that may go on in prose."""


def find(text: str, places: tuple[Place, ...]) -> Found | None:
    """The text at the first of the places that occurs; None if none does."""
    for place in places:
        found = _FINDERS[place](text)
        if found is not None:
            return found
    return None


def _hash(text: str) -> Found | None:
    marker = text.rfind("####")
    return Found(_line(text, marker + 4), False) if marker >= 0 else None


def _boxed(text: str) -> Found | None:
    r"""The inside of the last `\boxed{}` or `\fbox{}`: empty if its braces do not close."""
    start = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    if start < 0:
        return None
    opening = text.find("{", start)
    if opening < 0 or text[start:opening].strip() not in ("\\boxed", "\\fbox"):
        return Found("", True)
    depth = 0
    for match in _BRACE.finditer(text, opening):
        depth += (match[0] == "{") - (match[0] == "}")
        if depth == 0:
            return Found(text[opening + 1 : match.start()], True)
        if depth > MAX_BRACES:
            break
    return Found("", True)


def _answer_is(text: str) -> Found | None:
    if "nswer" not in text and "NSWER" not in text and "答" not in text:
        return None
    end = -1
    for match in _ANSWER_IS.finditer(text):
        end = match.end()
    return Found(_line(text, end), False) if end >= 0 else None


def _line(text: str, start: int) -> str:
    """The first line that is not empty, from `start` on; a displayed formula is one line."""
    rest = text[start:].lstrip() if start + 1 < len(text) else text[start:].strip()
    if rest.startswith(("\\[", "$$")):
        end = rest.find("\\]" if rest[0] == "\\" else "$$", 2)
        return rest[: end + 2] if end > 0 else rest
    return rest.partition("\n")[0]


def _formula(text: str) -> Found | None:
    """The formula that ends last."""
    best, found = -1, None
    for opening, closing in _DELIMITERS:
        end = text.rfind(closing)
        start = text.rfind(opening, 0, end) if end >= 0 else -1
        if start >= 0 and end > best:
            best, found = end, text[start + 2 : end]
    start, end = _between_dollars(text)
    if end > best:
        found = text[start:end]
    return None if found is None else Found(found, True)


def _between_dollars(text: str) -> tuple[int, int]:
    """Start and end of the last `$..$` that is no pair of prices; (0, -1) if there is none."""
    end = text.rfind("$")
    while end > 0:
        start = text.rfind("$", 0, end)
        if start < 0:
            break
        inside_touches = end - start > 1 and not text[start + 1].isspace() and not text[end - 1].isspace()
        if (
            inside_touches
            and "\\" not in (text[start - 1 : start], text[end - 1])
            and not text[end + 1 : end + 2].isdigit()
        ):
            return start + 1, end
        end = start
    return 0, -1


def _number(text: str) -> Found | None:
    number = last_number(text)
    return None if number is None else Found(number, True)


def _last_line(text: str) -> Found | None:
    line = text.rstrip().rpartition("\n")[2]
    return Found(line, False) if line.strip() else None


def _whole(text: str) -> Found | None:
    return Found(text, True) if text.strip() else None


_FINDERS: Mapping[Place, Callable[[str], Found | None]] = {
    "hash": _hash,
    "boxed": _boxed,
    "answer_is": _answer_is,
    "number": _number,
    "formula": _formula,
    "last_line": _last_line,
    "whole": _whole,
}
