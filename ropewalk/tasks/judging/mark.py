"""Reads a mark from 1 to 10 out of a judge's words: a whole number read whole, or none at all.

Accepted: `8`, `Score: 8`, `8/10`, `8 out of 10`, `**8**`, `８`, and sentences that hold this one number, once or again.
Refused: what is below 1 or above 10, not whole, signed, bounded (`>= 8`), glued to letters, written with digits of
other scripts, and two different numbers.
"""

import re
import unicodedata

from ropewalk.records.score import Failed

LOWEST, HIGHEST = 1, 10
LONGEST = 1_000
"""Characters that are read; a longer text has no mark."""

_WIDE = {0xFF10 + digit: str(digit) for digit in range(10)} | {
    ord(wide): narrow for wide, narrow in zip("／：．－＋％，", "/:.-+%,", strict=True)
}
_OUT_OF = re.compile(
    r"(?<=[0-9])[ \t]*(?:\*\*[ \t]*)?(?:/[ \t]*|out[ \t]+of[ \t]+)(?:\*\*)?10(?![0-9]|[.,][0-9]|[ \t]*/)"
)
_NUMBER = re.compile(r"[0-9]+(?:[.,:][0-9]+)*")
_SIGNS = tuple("-−–+^$€£")
_BOUNDS = (*"±~≈<>≤≥≦≧≠", "<=", ">=", "!=", "=<")
"""A sign counts where it touches the number, a bound also with a space between."""
_AFTER = tuple("%‰+^°/")


def mark_in(text: str) -> int | Failed:
    """The one mark in a text, or why there is none."""
    if len(text) > LONGEST:
        return Failed("unparsable", f"{len(text)} characters are no mark")
    said = _OUT_OF.sub(" ", text.translate(_WIDE))
    strange = next((c for c in said if not c.isascii() and unicodedata.category(c) in ("Nd", "No", "Nl")), None)
    if strange is not None:
        return Failed("unparsable", f"a number is written with {strange!r}")
    found: set[int] = set()
    for number in _NUMBER.finditer(said):
        mark = _whole(said, number)
        if mark is None:
            return Failed("unparsable", f"{_near(said, number)!r} is no whole number from {LOWEST} to {HIGHEST}")
        found.add(mark)
    if len(found) == 1:
        return found.pop()
    if not found:
        return Failed("unparsable", f"no number in {text[:60]!r}")
    return Failed("unparsable", f"several numbers: {', '.join(map(str, sorted(found)))}")


def _whole(text: str, found: re.Match[str]) -> int | None:
    """The number as a mark, if it is one and nothing around makes it another."""
    digits = found.group()
    if len(digits) > 2 or not digits.isdigit() or digits[0] == "0" or not LOWEST <= int(digits) <= HIGHEST:
        return None
    before, after = text[: found.start()], text[found.end() :]
    touching = before.rstrip("*_")  # emphasis is no part of a number
    signed = touching.endswith(_SIGNS) or touching.rstrip(" \t").endswith(_BOUNDS)
    glued = _is_latin(before[-1:]) or _is_latin(after[:1])
    return None if glued or signed or after.lstrip("*_").startswith(_AFTER) else int(digits)


def _is_latin(character: str) -> bool:
    return bool(character) and character.isalpha() and unicodedata.name(character, "").startswith("LATIN")


def _near(text: str, found: re.Match[str]) -> str:
    return text[max(found.start() - 4, 0) : found.end() + 4].strip()[:40]
