r"""Reads the number a text gives as its answer, and compares it exactly.

What always holds: a number is read whole or not at all; no text is cut; nothing of the text is evaluated
(a fixed grammar, bounded sizes, linear time); text added after a marked answer, on a new line or after a
space, does not change what was read, unless it brings a marker of its own.

Grammar of a number: sign, currency, digits with or without thousands separators, decimals, an exponent or
a simple fraction (`3/4`, `\frac{3}{4}`), percent or a unit. Currency, percent and unit are ignored: 50 %
of something equals 50. Where more is glued to a number (`3^2`, `20-2`, `\sqrt{2}`, `1.2.3`, `f(5)`), it is
no number but an expression, and unparsed.
"""

import math
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Score

AnswerPlace: TypeAlias = Literal["anywhere", "marked"]
"""`marked`: after `####`, in the last `\\boxed{}`, or after "answer is"; `anywhere`: else the last number, too."""

Gold: TypeAlias = Fraction | frozenset[Fraction] | tuple[Fraction, ...]
"""One number, all of a set in any order, or a tuple in its order."""

Verdict: TypeAlias = Literal["equal", "different", "unparsed"]

MAX_DIGITS = 200
MAX_EXPONENT = 300
"""Beyond these a number is unparsed: a few characters must not cost megabytes."""

_MINUS = "\u2212\uff0d\ufe63"
_SIGN = f"[-+{_MINUS}]"
_SPACES = "\u202f\u2009\u00a0"
_ALNUM = r"[^\W_]"
_JOIN = rf"(?<=[0-9])[.,:'_{_SPACES}](?=[0-9])|(?<={_ALNUM})[-+*/^×·](?=[^\W_.])"
_MORE = r"\\[dt]?frac|\\sqrt|\\pi|\\cdot|\\times|\\pm|\^|\*\*(?=[0-9(])|\((?=[-+0-9])|√|π"
_TOKEN = re.compile(
    # Most positions are ruled out by one look.
    rf"(?=[^A-Za-z\s]|[A-Za-z]\(|sqrt)(?P<inside>(?:\\?sqrt\s*[{{(\[]|√|[\^]\{{?|_\{{|{_ALNUM}\(|[)\]}}][-+*/^×·])\s*)?"
    rf"(?:(?<!{_ALNUM})(?<![)\]}}])(?P<sign>{_SIGN}))?"
    r"(?:\\?[$€£¥]\s?)?"
    rf"(?P<sign2>{_SIGN})?"
    rf"(?:(?P<frac>\\[dt]?frac)(?:\s*\{{\s*(?P<over>{_SIGN}?[0-9]+)\s*\}}\s*\{{\s*(?P<under>{_SIGN}?[0-9]+)\s*\}}|[^\s=]*)"
    rf"|(?<!{_ALNUM})(?<![0-9][.,:'_{_SPACES}])(?<!{_ALNUM}[-+*/^×·])"
    rf"(?P<run>\.?[0-9](?:{_ALNUM}|{_JOIN})*))"
    # What is glued to a number is swallowed whole, so that no part of it is read as a number of its own.
    rf"(?P<glued>(?:{_MORE})[^\s=]*)?"
)
_UNITS = "km|kg|cm|mm|g|l|ml|ft|in|lbs?|oz|hours?|hrs?|h|minutes?|mins?|seconds?|mph|cents?|am|pm|USD|dollars?"
_NUMBER = re.compile(
    rf"(?P<whole>[0-9]{{1,3}}(?P<sep>[,'{_SPACES}])[0-9]{{3}}(?:(?P=sep)[0-9]{{3}})*|[0-9]+)?"
    rf"(?:\.(?P<part>[0-9]+))?(?:[eE](?P<exponent>[-+{_MINUS}]?[0-9]{{1,4}}))?"
    rf"(?:/(?P<under>[0-9]+))?(?:{_UNITS}|/[A-Za-z]+)?",
)
_ANSWER_IS = re.compile(r"answer\s*(?:is\b|=|:)\s*:?", re.IGNORECASE)
_DECORATION = re.compile(r"\\(?:text|mathrm|mathbf|textbf|quad|[,;! ()\[\]$%])")
_PLAIN_REST = re.compile(r"[\s\w{}$€£¥%=.,;:°]*")


def compare(text: str, gold: Gold, *, answer: AnswerPlace = "anywhere") -> Verdict:
    """Whether the answer a text gives is exactly the gold one; `unparsed` if it gives none that can be read."""
    if isinstance(gold, Fraction):
        number = extract(text, answer=answer)
        return "unparsed" if number is None else "equal" if number == gold else "different"
    numbers = extract_all(text, answer=answer)
    if numbers is None:
        return "unparsed"
    return "equal" if (numbers if isinstance(gold, tuple) else frozenset(numbers)) == gold else "different"


def extract(text: str, *, answer: AnswerPlace = "anywhere") -> Fraction | None:
    """The number a text gives as its answer, or None.

    The first of these that occurs decides, even if what stands there cannot be read: the last `####`; the
    last `\\boxed{}` (one number and a unit at most); the last "answer is" (or "answer:"); the last number.
    """
    text = _plain(text)
    kind, region = _region(text)
    if kind == "boxed":
        return _only_number(region)
    if kind == "marked":
        return next(_numbers(region), None)
    if answer == "marked":
        return None
    last = deque(_numbers(region), maxlen=1)
    return last[0] if last else None


def extract_all(text: str, *, answer: AnswerPlace = "anywhere") -> tuple[Fraction, ...] | None:
    """All numbers of the answer in their order: of the marker's line or box, or else of the last line."""
    kind, region = _region(_plain(text))
    if kind == "none":
        if answer == "marked":
            return None
        lines = [line for line in region.splitlines() if line.strip()]
        region = lines[-1] if lines else ""
    # In a list "8,27" is two numbers, while "1,200" stays one.
    region = re.sub(r"(?<=[0-9]),(?=[0-9]{1,2}(?![0-9])|[0-9]{4})", ", ", region)
    found = list(_numbers(region))
    if not found or None in found:
        return None
    return tuple(number for number in found if number is not None)


def last_number(text: str) -> str | None:
    """The last number as it is written, with its percent sign; empty if it is part of something else.

    None: there is no number.
    """
    text = _plain(text)
    digit = next((place for place in range(len(text) - 1, -1, -1) if text[place] in "0123456789"), -1)
    if digit < 0 and "\\frac" not in text:
        return None
    # Nothing that is longer than a number can be reaches over a space or an equals sign into it.
    edges = (text.rfind(edge, 0, max(0, digit - 5 * MAX_DIGITS)) for edge in " \n=")
    last = deque(_TOKEN.finditer(text, max(0, *edges)), maxlen=1)
    if not last:
        return None
    if _value(last[0]) is None:
        return ""
    written = last[0][0].rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/")
    return written + ("%" if text[last[0].end() :][:2].lstrip().startswith("%") else "")


def parse_number(text: str) -> Fraction | None:
    """The value of a text that is one number and nothing else (with sign, currency, percent or a glued unit)."""
    plain = _plain(text).strip().removesuffix(".")
    match = _TOKEN.fullmatch(re.sub(r"\s*\\?[%$€£¥°]+$", "", plain))
    return _value(match) if match else None


def parse_gold(value: Json) -> Gold:
    """The reference answer of a row: a number, its text, `{"set": [...]}` or `{"tuple": [...]}`.

    Raises InputError if it cannot be read: such a row is refused, never rewarded.
    """
    if isinstance(value, dict) and len(value) == 1:
        (kind, members), *_ = value.items()
        if kind in ("set", "tuple") and isinstance(members, list) and members:
            numbers = tuple(_gold_number(member) for member in members)
            return frozenset(numbers) if kind == "set" else numbers
    return _gold_number(value)


def gold_fault(gold: Json) -> str | None:
    """What is wrong with a gold answer; None if it can be read."""
    if gold is None:
        return "is missing"
    try:
        parse_gold(gold)
    except InputError:
        return "is no number"
    return None


def _gold_number(value: Json) -> Fraction:
    number: Fraction | None = None
    if isinstance(value, str):
        number = parse_number(value)
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        number = Fraction(str(value))
    if number is None:
        raise InputError(
            f"the gold answer {str(value)[:80]!r} is no number: give a number such as 1200, '3/4' or '-2.5'"
        )
    return number


@dataclass(frozen=True)
class NumberScorer:
    """Scores 1 for the prompt's gold number and 0 for another one or none: not to answer is to be wrong."""

    answer: AnswerPlace = "anywhere"

    def __call__(self, prompt: Prompt, sample: Sample) -> Score:
        return Score(float(compare(sample.text, parse_gold(prompt.gold), answer=self.answer) == "equal"))


def _plain(text: str) -> str:
    """LaTeX spellings of separators written plainly."""
    return text.replace("{,}", ",").replace("\\,", "").replace("\\!", "").replace("\\%", "%").replace("\\$", "$")


def _region(text: str) -> tuple[Literal["boxed", "marked", "none"], str]:
    """Where the answer stands: the inside of the last box, the rest of a marker's line, or the whole text."""
    marker = text.rfind("####")
    if marker >= 0:
        return "marked", _line(text, marker + 4)
    box = text.rfind("\\boxed")
    if box >= 0:
        return "boxed", _braced(text, box + 6)
    ends = [match.end() for match in _ANSWER_IS.finditer(text)]
    return ("marked", _line(text, ends[-1])) if ends else ("none", text)


def _line(text: str, start: int) -> str:
    line = text[start:].lstrip().partition("\n")[0]
    # "#### - 5": a sign that stands alone right after the marker belongs to the number.
    return re.sub(rf"^({_SIGN})\s+(?=[$€£¥0-9.])", r"\1", line)


def _braced(text: str, start: int) -> str:
    """The inside of the balanced braces that open at `start`; empty if they do not open or never close."""
    depth = 0
    for place in range(start, len(text)):
        if text[place] == "{":
            depth += 1
        elif text[place] == "}":
            depth -= 1
            if depth == 0:
                return text[text.index("{", start) + 1 : place]
        elif depth == 0 and not text[place].isspace():
            return ""
    return ""


def _numbers(text: str) -> Iterator[Fraction | None]:
    """Values of all candidates in order; None for one that cannot be read whole."""
    for match in _TOKEN.finditer(text):
        yield _value(match)


def _only_number(region: str) -> Fraction | None:
    """The value of a box that holds one number, with a unit or `x =` about it at most."""
    matches = list(_TOKEN.finditer(region))
    if len(matches) != 1:
        return None
    rest = region[: matches[0].start()] + region[matches[0].end() :]
    return _value(matches[0]) if _PLAIN_REST.fullmatch(_DECORATION.sub("", rest)) else None


def _value(match: re.Match[str]) -> Fraction | None:
    signs = [sign for sign in (match["sign"], match["sign2"]) if sign]
    if match["glued"] or match["inside"] or len(signs) > 1 or len(match[0]) > MAX_DIGITS:
        return None
    number = _fraction(match["over"], match["under"]) if match["frac"] else _decimal(match["run"])
    return -number if number is not None and signs and signs[0] != "+" else number


def _fraction(over: str | None, under: str | None) -> Fraction | None:
    if over is None or under is None or not _integer(under):
        return None
    return Fraction(_integer(over), _integer(under))


def _integer(text: str) -> int:
    return int(re.sub(f"[{_MINUS}]", "-", text))


def _decimal(run: str) -> Fraction | None:
    match = _NUMBER.fullmatch(run)
    if match is None or (match["whole"] is None and match["part"] is None):
        return None
    exponent = _integer(match["exponent"] or "0")
    under = int(match["under"] or "1")
    if abs(exponent) > MAX_EXPONENT or under == 0:
        return None
    digits = re.sub(r"[^0-9]", "", match["whole"] or "0")
    part = match["part"] or ""
    return Fraction(int(digits + part), 10 ** len(part)) * Fraction(10) ** exponent / under
