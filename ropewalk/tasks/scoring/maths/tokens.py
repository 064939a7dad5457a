r"""From plain text to tokens, in one linear pass. A sign or a command that is not listed is refused.

A token is (kind, text, spaced). Kinds: `num` (text in canonical digits: `1234.5`, `1e5`, `.(3)` for a repeating part),
`word`, `name` (a letter with a mark, such as `\vec{v}`), `text` (the inside of `\text{}`), `begin` / `end` (of an
environment), and `sign`, whose text is the sign.
"""

import re
from typing import NamedTuple

from ropewalk.tasks.scoring.maths.limits import Unreadable
from ropewalk.tasks.scoring.maths.policy import Digits
from ropewalk.tasks.scoring.maths.tree import FUNCTIONS
from ropewalk.tasks.scoring.maths.units import is_unit


class Token(NamedTuple):
    """One piece of an answer."""

    kind: str
    text: str
    spaced: bool
    """A space stands before it."""


END = Token("end of text", "", False)

_ALONE = (
    "div / pm ± mp ∓ lt < gt > in ∈ cup ∪ cap ∩ infty ∞ sqrt sqrt % % $ $ pounds £ euro € yen ¥ cents ¢ lfloor ⌊ "
    "rfloor ⌋ lceil ⌈ rceil ⌉ lbrack [ rbrack ] prime ' cdots ... ldots ... dots ... colon : langle ⟨ rangle ⟩ "
    "& and land and lor or"
)
COMMANDS = {
    **dict.fromkeys(("times", "cdot", "ast", "bullet"), "*"),
    **dict.fromkeys(("frac", "dfrac", "tfrac", "cfrac"), "frac"),
    **dict.fromkeys(("binom", "dbinom", "tbinom"), "binom"),
    **dict.fromkeys(("le", "leq", "leqslant"), "<="),
    **dict.fromkeys(("ge", "geq", "geqslant"), ">="),
    **dict.fromkeys(("ne", "neq"), "!="),
    **dict.fromkeys(("approx", "simeq", "doteq"), "≈"),
    **dict.fromkeys(("circ", "degree", "degrees"), "°"),
    **dict.fromkeys(("emptyset", "varnothing"), "∅"),
    **dict.fromkeys(("lvert", "rvert", "vert", "mid", "|"), "|"),
    **dict.fromkeys(("setminus", "backslash"), "∖"),
    **dict(zip(_ALONE.split()[::2], _ALONE.split()[1::2], strict=True)),
    "{": "\\{",
    "}": "\\}",
    "lbrace": "\\{",
    "rbrace": "\\}",
    "\\": "row",
}
_GREEK = (
    "alpha α beta β gamma γ delta δ epsilon ε zeta ζ eta η theta θ iota ι kappa κ lambda λ mu μ nu ν xi ξ pi π rho ρ "
    "sigma σ tau τ upsilon υ phi φ chi χ psi ψ omega ω varepsilon ε vartheta θ varphi φ Gamma Γ Delta Δ Theta Θ "
    "Lambda Λ Xi Ξ Pi Π Sigma Σ Phi Φ Psi Ψ Omega Ω ell ℓ"
)
GREEK = dict(zip(_GREEK.split()[::2], _GREEK.split()[1::2], strict=True))
SIGNS = frozenset("+-*/^_()[]{}|,;:=<>!%&'$.") | {"<=", ">=", "!=", "**", "==", "..."}
_SAME = {"**": "^", "==": "="}

_EXPONENT = r"(?:[eE][-+]?[0-9]+(?![0-9A-Za-z]))?"
_REPEATING = r"[0-9]*\.[0-9]*\\(?:overline|bar|dot)\s*\{[0-9]+\}"
_ENGLISH = (
    rf"{_REPEATING}|(?:[0-9]{{1,3}}([,'])[0-9]{{3}}(?:\3[0-9]{{3}})*(?![0-9]|,[0-9])|[0-9]+)"
    rf"(?:\.[0-9]+)?{_EXPONENT}|\.[0-9]+{_EXPONENT}"
)
_EUROPEAN = (
    r"(?:[0-9]{1,3}([ .'])[0-9]{3}(?:\3[0-9]{3})*(?![0-9])|[0-9]+)"
    rf"(?:,[0-9]+)?{_EXPONENT}|,[0-9]+"
)
_REST = (
    r"|([A-Za-z\u00c0-\u024f]+|[\u4e00-\u9fff]+|[^\W\d_])"
    r"|\\(?:text|mathrm|textbf|mathbf|textit|mathit|operatorname|mbox|textrm|mathsf|mathbb|boldsymbol|bm|hbox)\s*"
    r"\{([^{}]*)\}"
    r"|\\((?:vec|hat|bar|tilde|overline|overrightarrow|widehat)\s*\{[A-Za-z]{1,3}\})"
    r"|\\(begin|end)\s*\{([A-Za-z]+)\*?\}(?:\{[lcr|]*\})?"
    r"|\\([A-Za-z]+|.)"
    r"|(<=|>=|!=|\*\*|==|\.\.\.|.)"
)
_LEXERS = {
    "english": re.compile(rf"(\s+)|({_ENGLISH}){_REST}", re.DOTALL),
    "european": re.compile(rf"(\s+)|({_EUROPEAN}){_REST}", re.DOTALL),
}
_SPACE, _NUMBER, _GROUPING, _WORD, _TEXT, _MARKED, _ENVIRONMENT, _NAME, _COMMAND, _SIGN = range(1, 11)
_GROUPS = re.compile("[,']")
_EUROPEAN_GROUPS = re.compile("[ .']")
_LETTERS = re.compile(r"[A-Z](?:\s*(?:,|and|or)\s*[A-Z])+")
_WORDS = re.compile(r"[^\W\d_][^\d_(){}\[\]=<>+*|\\]*")


def tokens(text: str, digits: Digits = "english") -> list[Token]:
    """The tokens of plain text. Raises Unreadable for a sign or command that is in no answer."""
    found: list[Token] = []
    spaced = False
    for match in _LEXERS[digits].finditer(text):
        kind = match.lastindex
        if kind == _SPACE:
            spaced = True
            continue
        if kind == _NUMBER:
            number = match[_NUMBER]
            found.append(Token("num", number if number.isdigit() else _canonical(number, digits), spaced))
        elif kind == _WORD:
            found.append(Token("word", GREEK.get(match[_WORD], match[_WORD]), spaced))
        elif kind == _TEXT:
            found += _inside_text(match[_TEXT], spaced, digits)
        else:
            found.append(_other(match, kind or 0, spaced))
        spaced = False
    return found


def _other(match: re.Match[str], kind: int, spaced: bool) -> Token:
    if kind == _SIGN:
        sign = match[_SIGN]
        if sign not in SIGNS:
            raise Unreadable(f"the sign {sign!r}")
        return Token("sign", _SAME.get(sign, sign), spaced)
    if kind == _MARKED:
        return Token("name", match[_MARKED].replace(" ", ""), spaced)
    if kind == _NAME:
        return Token(match[_ENVIRONMENT], match[_NAME], spaced)
    return _command(match[_COMMAND], spaced)


def _command(name: str, spaced: bool) -> Token:
    if name in COMMANDS:
        sign = COMMANDS[name]
        return Token("word" if sign in ("and", "or") else "sign", sign, spaced)
    if name in GREEK:
        return Token("word", GREEK[name], spaced)
    if name in FUNCTIONS:
        return Token("word", name, spaced)
    raise Unreadable(f"the command \\{name[:20]}")


def _inside_text(inside: str, spaced: bool, digits: Digits) -> list[Token]:
    """Words stay together as one token; anything else is read as if `\\text` were not there."""
    words = inside.replace("~", " ").strip()
    if words.lower() in ("and", "or"):
        return [Token("word", words.lower(), True)]
    if (_WORDS.fullmatch(words) and not _LETTERS.fullmatch(words)) or is_unit(words):
        return [Token("text", words, spaced or inside[0].isspace())]
    return tokens(inside, digits)


def _canonical(number: str, digits: Digits) -> str:
    if "\\" in number:
        head, _, repeated = number.partition("\\")
        return f"{head}({repeated[repeated.index('{') + 1 : -1]})"
    if digits == "european":
        return _EUROPEAN_GROUPS.sub("", number).replace(",", ".")
    return _GROUPS.sub("", number)
