r"""One spelling for what can be written in many: full-width and other Unicode signs, LaTeX spacing, `$` around maths.

Every step is a bounded pass over at most MAX_LENGTH characters.
"""

import re
import unicodedata

from ropewalk.tasks.scoring.maths.chinese import arabic
from ropewalk.tasks.scoring.maths.limits import MAX_LENGTH, TooLarge

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
_LOWERED = re.compile("[₀₁₂₃₄₅₆₇₈₉]+")
_NARROW_SPACE = re.compile("(?<=[0-9])[\u202f\u2009\u00a0](?=[0-9]{3})")
_VULGAR = {"½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5), "⅗": (3, 5)}
_VULGAR |= {"⅘": (4, 5), "⅙": (1, 6), "⅚": (5, 6), "⅛": (1, 8), "⅜": (3, 8), "⅝": (5, 8), "⅞": (7, 8)}
_SIGNS = {
    **dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d", "-"),
    **dict.fromkeys("×✕∗", "\\times "),
    **dict.fromkeys("·⋅∙•", "\\cdot "),
    **dict.fromkeys("。．", "."),
    **dict.fromkeys("、；", ";"),
    **{sign: rf"\frac{{{over}}}{{{under}}}" for sign, (over, under) in _VULGAR.items()},
    "÷": "\\div ",
    "∕": "/",
    "⁄": "/",
    "≤": "\\le ",
    "⩽": "\\le ",
    "≥": "\\ge ",
    "⩾": "\\ge ",
    "≠": "\\ne ",
    "∞": "\\infty ",
    "∪": "\\cup ",
    "∩": "\\cap ",
    "∈": "\\in ",
    "±": "\\pm ",
    "∓": "\\mp ",
    "≈": "\\approx ",
    "∅": "\\emptyset ",
    "ℝ": "\\mathbb{R}",
    "√": "\\sqrt ",
    "°": "\\degree ",
    "′": "'",
    "∖": "\\setminus ",
    "或": " or ",
    "和": " and ",
    "£": "\\pounds ",
    "€": "\\euro ",
    "¥": "\\yen ",
    "¢": "\\cents ",
    "\u200b": "",
    "\ufeff": "",
}
_TABLE = str.maketrans(_SIGNS)
_MINUS_WORD = re.compile(r"(?<![A-Za-z\\])(?:negative|minus) +(?=[0-9$\\(.])", re.IGNORECASE)
_HALF_OF_DAY = re.compile(r"\b([ap])\. ?m\b\.?", re.IGNORECASE)
_MATHS = re.compile(r"\$\$?(?=[^\s$])([^$]+)(?<=\S)\$\$?(?![0-9])")
_BRACKETED = re.compile(r"[(\[][^()\[\]{}]*[)\]]|\\\{[^()\[\]{}\\]*\\\}")
_GLUED_COMMA = re.compile(r"(?<=[0-9]),(?=[0-9])")
_LATEX_COMMA = re.compile(r"\{,\}|,?\\!|(?<=[0-9])\\,(?=[0-9]{3})")
_REALS = re.compile(r"\\mathbb\s*(?:R(?![A-Za-z])|\{R\})")
_DELIMITERS = (re.compile(r"(?<!\\)\\[()]"), re.compile(r"(?<!\\)\\[\[\]]"))
_IN_BRACKETS = re.compile(r"(?<![0-9.,])([0-9]{1,60}\.[0-9]{0,60})\(([0-9]{1,60})\)(?![0-9(^!])")
_DOTTED = re.compile(
    r"(?<![0-9.,])([0-9]{1,60}\.[0-9]{0,60})\\dot\s*\{([0-9])\}([0-9]{0,60})\\dot\s*\{([0-9])\}(?![0-9])"
)
_ELLIPSIS = re.compile(
    r"(?<![0-9.,])([0-9]{1,20}\.[0-9]{0,12}?)(?:([0-9])\2{2,60}|([0-9]{2,12}?)\3{1,20})(?:\.\.\.|\s?\\[lc]?dots)"
)
"""A part that is written twice at least, or a digit three times; other decimals that go on are not read."""
_SPACING = re.compile(
    r"\\(?:left|right|[bB]igg?[lr]?|displaystyle|quad|qquad|limits|rm|bf|it)(?![A-Za-z])\.?|(?<!\\)\\[,;: ]|~"
)


def plain(text: str) -> str:
    """The text in plain spelling. Raises TooLarge if it is longer than an answer can be."""
    if text.startswith(("\\boxed{", "\\fbox{")) and text.endswith("}"):
        text = text[text.index("{") + 1 : -1]
    text = _HALF_OF_DAY.sub(r"\1m", text)
    text = _MINUS_WORD.sub("-", text.strip())
    if len(text) > MAX_LENGTH:
        raise TooLarge("too long")
    if not text.isascii():
        text = _ascii_signs(text)
    if "$" in text:
        text = _MATHS.sub(r" \1 ", text)
    if "." in text and ("(" in text or "..." in text or "dot" in text):
        text = _repeating(text)
    if "\\" in text or "{,}" in text:
        if "\\(" in text or "\\[" in text:
            text = _delimited(text)
        if "mathbb" in text:
            text = _REALS.sub("ℝ", text)
        text = _SPACING.sub(" ", _LATEX_COMMA.sub(_comma, text))
    if "," in text:
        text = _BRACKETED.sub(_list_in_brackets, text)
    return text


def _delimited(text: str) -> str:
    r"""Without `\(..\)` and `\[..\]`, if each that opens also closes."""
    for form in _DELIMITERS:
        opened = [match[0] for match in form.finditer(text)]
        if opened and opened[::2] == opened[:1] * (len(opened) // 2) and opened[1::2] == opened[1:2] * len(opened[::2]):
            text = form.sub(" ", text)
    return text


def _repeating(text: str) -> str:
    r"""`0.(3)`, `0.333...` and `0.\dot{1}4285\dot{7}` in the one spelling with `\overline`."""
    text = _IN_BRACKETS.sub(r"\1\\overline{\2}", text)
    text = _DOTTED.sub(r"\1\\overline{\2\3\4}", text)
    return _ELLIPSIS.sub(lambda match: f"{match[1]}\\overline{{{match[2] or match[3]}}}", text)


def _comma(match: re.Match[str]) -> str:
    return "" if match[0] == "\\!" else ","


def _list_in_brackets(match: re.Match[str]) -> str:
    """In `(1,200)` the comma separates; in `(1,200, 3)`, where another one has a space, it groups digits."""
    inside = match[0]
    return inside if ", " in inside or ";" in inside else _GLUED_COMMA.sub(", ", inside)


def _ascii_signs(text: str) -> str:
    text = _NARROW_SPACE.sub("'", text)
    text = _RAISED.sub(lambda match: "^{" + match[0].translate(_SUPERSCRIPTS) + "}", text)
    text = _LOWERED.sub(lambda match: "_{" + match[0].translate(_SUBSCRIPTS) + "}", text)
    text = unicodedata.normalize("NFKC", text.translate(_TABLE)).replace("\u2212", "-")
    if len(text) > 2 * MAX_LENGTH:
        raise TooLarge("too long")
    return arabic(text)
