"""Reading an answer off a line that may go on in prose: `18 dollars, because ...`, `the total is $x + 1$.`"""

import re
from collections.abc import Iterator

from ropewalk.tasks.scoring.maths.limits import Unreadable
from ropewalk.tasks.scoring.maths.policy import Digits
from ropewalk.tasks.scoring.maths.read import read
from ropewalk.tasks.scoring.maths.tree import FUNCTIONS
from ropewalk.tasks.scoring.maths.units import WORDS
from ropewalk.tasks.scoring.maths.values import Answer, Text
from ropewalk.tasks.scoring.maths.words import changes_value

_SENTENCE_END = re.compile(
    r"[.!?](?=\s|$|[*_\"'”])|[。！？]|\s\((?=i\.e|e\.g)|\s(?:because|since|which|where|so|as|for|when|but)\s"
)
_DECORATION = " \t\r*_`\"'“”"
_WORD = re.compile(r"(?<!\S)[(\"'*_“]*([A-Za-z]{2,})(?=[\s,.;:!?)'’*_-]|$)")
_GOES_ON = re.compile(
    r"(?i:(?:to|through|until|plus|minus|times|over|out of|divided by|multiplied by|mod|choose|point|"
    r"(?:more|less|fewer|greater) than|remainder|with remainder|with a remainder of|in base|base|"
    r"maybe|perhaps|possibly)"
    r"\s+(?:[-+$\\(.]*[0-9]|\$?\\|(?:zero|one|two|three|four|five|six|seven|eight|nine|ten)\b)"
    r"|(?:if|when|unless)\b.*\b(?:else|otherwise)\b)"
)
"""Words behind a number that make another one of it, or of two numbers to choose from."""
_PROSE = re.compile(r"(?:[^\W\d_]+[\s,:'’*_\"()-]+)+")
_LINKS = "and or pi sqrt percent million billion thousand hundred dozen per inf"
_MATHS_WORDS = FUNCTIONS | WORDS | frozenset(_LINKS.split())
_OPENS = re.compile(r"\\\(|\\\[|\$\$?(?=[^\s$])")
_CLOSES = {"\\(": "\\)", "\\[": "\\]"}
_BEGINS = re.compile(r"[0-9$€£¥√π∞(\[{|\\]|[-+±.](?=[0-9$(\\.])")


def read_line(line: str, digits: Digits, *, worded: bool = False) -> Answer:
    """The answer at the head of a line. Raises Unreadable.

    All of the sentence is tried first, then its first formula, then what stands before its first word of prose, then
    the same from its first sign of mathematics on. `worded`: words are an answer, too.
    """
    for part in _parts(line.strip(_DECORATION)):
        try:
            answer = read(part, digits)
        except Unreadable:
            continue
        if worded or not isinstance(answer, Text) or not _BEGINS.search(part):
            return answer
    raise Unreadable("no answer on the line")


def _parts(line: str) -> Iterator[str]:
    sentence = _first(_SENTENCE_END, line)
    yield sentence
    begins = _BEGINS.search(line)
    opens = _OPENS.search(line)
    if opens and begins and opens.start() <= begins.start() and (formula := _formula(line, opens)):
        yield formula
    yield _trimmed(_before_prose(sentence))
    yield _trimmed(_before_prose(sentence, _MATHS_WORDS - WORDS))
    if begins and _is_prose(line[: begins.start()]):
        rest = line[begins.start() :]
        yield _first(_SENTENCE_END, rest)
        yield _trimmed(_before_prose(_first(_SENTENCE_END, rest)))


def _formula(line: str, opens: re.Match[str]) -> str:
    """The inside of the formula that opens here; empty if it does not close, or if its `$` is a currency."""
    closing = _CLOSES.get(opens[0], opens[0])
    end = line.find(closing, opens.end())
    if end < 0 or (closing == "$" and (line[end - 1].isspace() or line[end + 1 : end + 2].isdigit())):
        return ""
    return line[opens.end() : end]


def _first(end: re.Pattern[str], text: str) -> str:
    match = end.search(text)
    return text[: match.start()] if match else text


def _before_prose(text: str, known: frozenset[str] = _MATHS_WORDS) -> str:
    """What stands before the first word of prose; nothing where that word makes another value of it: "5 to 6"."""
    for match in _WORD.finditer(text):
        if match[1] not in known:
            return "" if _GOES_ON.match(text, match.start(1)) else text[: match.start()]
    return text


def _is_prose(text: str) -> bool:
    """Whether words, and none that changes a value, lead up to what follows: "the total is", but not "less than"."""
    return _PROSE.fullmatch(text) is not None and not changes_value(text)


def _trimmed(text: str) -> str:
    """Without signs and links that lead into prose."""
    text = text.strip(_DECORATION + ",;:")
    for link in (" and", " or"):
        text = text.removesuffix(link)
    return text
