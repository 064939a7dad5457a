"""What rules share: how a text is bounded, cut into words, sentences and paragraphs, and where its answer stands.

Everything here is linear in the text and evaluates nothing of it.
"""

import re
import unicodedata
from typing import Literal, TypeAlias

from ropewalk.records.score import Failed

MAX_CHARACTERS = 200_000
"""A longer completion is refused by every rule: no rule may cost more than a moment."""

AnswerAt: TypeAlias = Literal["text", "tags", "marked"]
"""`text`: the whole completion; `tags`: the last `<answer>…</answer>`; `marked`: those, else the last `\\boxed{}`,
else the rest of the line after the last `####` or "answer is"."""

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s|$)|[。！？]+")
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:[A-Za-z]|Mr|Mrs|Ms|Dr|Prof|Sr|Jr|St|vs|etc|e\.g|i\.e|cf|No|Fig)\.$")
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")
_BULLET = re.compile(r"^[^\S\n]*(?:[*+•-](?![*-])[^\S\n]*\S|\d{1,3}[.)][^\S\n]+\S)", re.MULTILINE)
_ANSWER_IS = re.compile(r"(?:answer\s*(?:is\b|=|:)|答案(?:是|为|[:：]))\s*:?", re.IGNORECASE)
_PUNCTUATION_ENDS = " \t\r\n.,;:!?\"'`*()[]{}。，；：！？“”‘’（）【】"


def refused(text: str) -> Failed | None:
    """Why a text is not looked at; None if it is short enough."""
    if len(text) <= MAX_CHARACTERS:
        return None
    return Failed("refused", f"the completion has {len(text)} characters, more than {MAX_CHARACTERS}")


def words(text: str) -> list[str]:
    """Runs of letters, digits and underscores; a text without spaces between words is one run."""
    return _WORD.findall(text)


def sentences(text: str) -> list[str]:
    """Pieces that end in a full stop, question or exclamation mark, or with the text.

    A stop after an abbreviation or a single letter ends nothing, nor does one inside a number.
    """
    found: list[str] = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if match[0] == "." and _ABBREVIATION.search(text, max(start, match.end() - 8), match.end()):
            continue
        found.append(text[start : match.end()].strip())
        start = match.end()
    found.append(text[start:].strip())
    return [piece for piece in found if words(piece)]


def paragraphs(text: str) -> list[str]:
    """Pieces between empty lines that hold something."""
    return [piece.strip() for piece in _PARAGRAPH.split(text.strip()) if piece.strip()]


def bullets(text: str) -> int:
    """Lines that begin as an item of a list: `*`, `-`, `+`, `•`, or a number with a stop or bracket."""
    return len(_BULLET.findall(text))


def normalised(text: str, *, case: bool = False, punctuation: bool = False) -> str:
    """One spelling of texts that mean the same: NFKC, single spaces, and unless kept no case and no punctuation."""
    text = unicodedata.normalize("NFKC", text)
    text = text if case else text.casefold()
    if not punctuation:
        text = "".join(" " if unicodedata.category(c)[0] == "P" else c for c in text)
    return " ".join(text.split())


def answer_of(text: str, place: AnswerAt) -> str | None:
    """The part of a completion that is its answer; None if it gives none where one is looked for."""
    if place == "text":
        return text.strip() or None
    tagged = last_tagged(text, "answer")
    if tagged is not None or place == "tags":
        return tagged or None
    return boxed(text) or _after_mark(text)


def last_tagged(text: str, name: str) -> str | None:
    """What stands between the last `<name>` that is closed and its `</name>`, without the space around it."""
    end = text.rfind(f"</{name}>")
    start = text.rfind(f"<{name}>", 0, max(end, 0))
    return None if end < 0 or start < 0 else text[start + len(name) + 2 : end].strip()


def boxed(text: str) -> str | None:
    """The inside of the last `\\boxed{}`; None if it does not close."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth = 0
    for place in range(start + 6, len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return text[start + 7 : place].strip() or None
    return None


def _after_mark(text: str) -> str | None:
    """The rest of the line after the last `####`, or else after the last "answer is"."""
    hashes = text.rfind("####")
    ends = [hashes + 4] if hashes >= 0 else [match.end() for match in _ANSWER_IS.finditer(text)][-1:]
    if not ends:
        return None
    return text[ends[0] :].lstrip().partition("\n")[0].strip() or None


def bare(text: str) -> str:
    """A text without the punctuation, brackets and decoration around it."""
    return text.strip(_PUNCTUATION_ENDS)
