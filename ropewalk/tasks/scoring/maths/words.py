"""Answers in words: names, yes and no, choices, and numbers that are spelled out."""

import re
from fractions import Fraction

from ropewalk.tasks.scoring.maths.values import Group, Option, Region, Scalar, Text

_WRAPPED = re.compile(r"\\(?:text|mathrm|textbf|mathbf|textit|mbox|operatorname)\s*\{([^{}]*)\}")
_WORDS = re.compile(r"[^\W\d_][\w\s.,'’\"&:/-]*[!?]?")
_SEPARATORS = re.compile(r"[\s.,'’\"&:/!?$\\-]+")
_ARTICLE = re.compile(r"(?:the|an|a) (?=.)")
_MAY_CHOOSE = re.compile(
    r"[\s*_`$]*(?:\\[a-z]+\{)?[\s*_`]*(?:\(?[A-Ja-j]\)?[.:)]|option|choice|\([A-J])", re.IGNORECASE
)
_CHOICE = re.compile(r"\(([A-Ja-j])\)|(?:option|choice)\s+\(?([A-Ja-j])\)?|([A-J])[.)]", re.IGNORECASE)
_CHOICE_AND_REST = re.compile(r"(?:\(([A-J])\)[.:]?|([A-J])[.:)])\s+(?=\S)")
_SECOND_CHOICE = re.compile(r"(?i:and|or)\b|\([A-J]\)|\b[A-J](?:[.)]|$)|[,;&/]\s*\(?[A-J]\b")
_LEADING = re.compile(r"([A-Za-z][A-Za-z ]{2,40}?)\s*(?:=|:|≈|\bis\b|\bare\b)\s*(?=\S)")

_CHANGING = (
    "not no less more fewer greater than under over above below least most between either neither minus plus half "
    "twice double triple times never negative root square squared cube cubed percent factorial reciprocal inverse "
    "opposite except"
)
_CHANGES = frozenset(_CHANGING.split())

_SAME_WORDS = {
    **dict.fromkeys(
        ("no solution", "no solutions", "no real solution", "no real solutions", "empty set"), "no solution"
    ),
    **dict.fromkeys(("there is no solution", "there are no solutions", "none exist", "无解"), "no solution"),
    **dict.fromkeys(("does not exist", "dne", "undefined", "not defined"), "undefined"),
    **dict.fromkeys(("all real numbers", "all reals", "real numbers"), "all real numbers"),
    "是": "yes",
    "否": "no",
    "对": "true",
    "错": "false",
}
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: value for value, word in enumerate(_ONES.split())}
_SMALL |= {word: 20 + 10 * place for place, word in enumerate(_TENS.split())}
_LARGE = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_PARTS = {"half": 2, "halves": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4, "fourth": 4, "fourths": 4}
_PARTS |= {"fifth": 5, "fifths": 5, "sixth": 6, "sixths": 6, "eighth": 8, "eighths": 8, "tenth": 10, "tenths": 10}


def unwrapped(text: str) -> str:
    r"""The text without `\\text{}`, `$` and marks of emphasis around it."""
    return _WRAPPED.sub(r"\1", text).replace("\\ ", " ").strip(" \t\n*_`$\"'“”\u200b")


def choice(text: str) -> tuple[Option, str] | None:
    """The choice that a text gives, and what stands behind its letter."""
    if not _MAY_CHOOSE.match(text):
        return None
    bare = unwrapped(text)
    if alone := _CHOICE.fullmatch(bare):
        return Option((alone[1] or alone[2] or alone[3]).upper()), ""
    if (begins := _CHOICE_AND_REST.match(bare)) and not _SECOND_CHOICE.search(bare, begins.end()):
        return Option(begins[1] or begins[2]), bare[begins.end() :]
    return None


def wording(text: str) -> Text | Group | Region | Scalar | None:
    """The answer in words, None if the text is more than words: no signs, no calls, no markup."""
    bare = unwrapped(text)
    if not _WORDS.fullmatch(bare):
        return None
    words = _ARTICLE.sub("", " ".join(part for part in _SEPARATORS.split(bare.casefold()) if part), count=1)
    number = spelled(words)
    if number is not None:
        return Scalar(number)
    words = _SAME_WORDS.get(words, words)
    if words == "no solution":
        return Group("set", ())
    return Text(words)


def spelled(words: str) -> int | Fraction | None:
    """The value of `two hundred and five`, `minus three`, `two thirds`; None if the words are no number."""
    sign, _, rest = words.partition(" ")
    if sign in ("minus", "negative"):
        value = spelled(rest) if not rest.startswith(("minus", "negative")) else None
        return None if value is None else -value
    head, _, last = words.rpartition(" ")
    if head and last in _PARTS:
        over = _whole(head.split())
        return None if over is None else Fraction(over, _PARTS[last])
    return _whole(words.split())


def _whole(words: list[str]) -> int | None:
    """The whole number of words in their order: `one two` and `ten five` are none."""
    total = section = 0
    room, scale = 100, 10**12
    for place, word in enumerate(words):
        if word in _SMALL:
            value = _SMALL[word]
            if value >= room or (not value and len(words) > 1):
                return None
            section += value
            room = 10 if value >= 20 else 0
        elif word == "hundred" and 0 < section < 100:
            section, room = section * 100, 100
        elif word in _LARGE and section and _LARGE[word] < scale:
            scale = _LARGE[word]
            total, section, room = total + section * scale, 0, 100
        elif word != "and" or not place or room != 100 or place + 1 == len(words) or words[place - 1] == "and":
            return None
    return total + section if words else None


def changes_value(text: str) -> bool:
    """Whether a word makes something else of the number that follows: "less than", "twice", "the root of"."""
    return not _CHANGES.isdisjoint(text.lower().split())


def after_words(text: str) -> str:
    """What stands behind "Area =" or "the total is"; the text itself if nothing does."""
    match = _LEADING.match(unwrapped(text))
    return unwrapped(text)[match.end() :] if match and not changes_value(match[1]) else text
