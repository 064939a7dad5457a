"""Checks of our own for those generators of reasoning-gym whose verifiers evaluate the answer as code.

What holds: nothing of an answer is evaluated in this process. Arithmetic is read by a grammar of numbers, + - * / and
brackets; lists by the rules of JSON. Integrals need an algebra system: an answer that is nothing but numbers, the
variable, known functions and operators is handed to sympy in a sandbox, all others are unparsable. Scores are those
of the package, partial credit included, but for answers that it takes for right although they are not: other numbers
than those of the puzzle (`puzzle24`), the integral itself as its own solution.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from ropewalk.records.prompt import Json
from ropewalk.records.score import Failed
from ropewalk.tasks.scoring.rules.structured import NotJson, parse
from ropewalk.tasks.scoring.sandbox.box import SandboxFault
from ropewalk.tasks.scoring.sandbox.jail import Isolation
from ropewalk.tasks.scoring.sandbox.limits import Limits
from ropewalk.tasks.scoring.sandbox.program import Call
from ropewalk.tasks.scoring.sandbox.shared import SharedPool, Shutting

Entry: TypeAlias = Mapping[str, Any]
Check: TypeAlias = Callable[[str, Entry], float | Failed]

_NOTHING, _SOMETHING = 0.01, 0.05
"""What the package gives for an answer that cannot be read, and for one that is wrong, to puzzles of numbers."""
_TOKEN = re.compile(r"\s*(?:([0-9]{1,12})|([-+*/()]))")
_LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2, "negate": 3}

INTEGRALS = ("simple_integration",)
"""Generators whose answers are checked in a sandbox."""
MOST_LETTERS = 400
"""Characters of an answer that sympy is shown."""
_TRIGONOMETRY = ("sin", "cos", "tan", "sec", "csc", "cot", "asin", "acos", "atan", "sinh", "cosh", "tanh")
_WORDS = frozenset({"C", "E", "pi", "exp", "log", "sqrt", *_TRIGONOMETRY})
_PIECE = re.compile(r"\s+|[0-9]{1,12}(?:\.[0-9]{1,12})?|[A-Za-z]+|\*\*|[-+*/()]")
PACKAGES = ("sympy", "mpmath")
_LIMITS = Limits(test_seconds=5.0, program_seconds=10.0)
_DERIVES = """\
import sympy
def derives(answer, variable, integrand):
    x = sympy.Symbol(variable)
    names = {variable: x, "C": sympy.Symbol("C")}
    try:
        found = sympy.diff(sympy.parse_expr(answer, local_dict=names), x)
        return bool(sympy.simplify(found - sympy.parse_expr(integrand, local_dict=names)) == 0)
    except Exception:
        return None
"""


def checks(isolation: Isolation) -> Mapping[str, Check]:
    """The check of each generator that is not judged by its own verifier."""
    return {**_CHECKS, **dict.fromkeys(INTEGRALS, Integral(isolation))}


def value_of(text: str) -> Fraction | None:
    """The value of whole numbers joined by + - * / and brackets; None for anything else, and for division by 0."""
    values: list[Fraction] = []
    waiting: list[str] = []
    place, number_due = 0, True
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            return None
        place, (number, sign) = match.end(), match.groups()
        if number is not None or sign == "(":
            if not number_due:
                return None
            number_due = number is None
            values += [Fraction(int(number))] if number is not None else []
            waiting += ["("] if number is None else []
        elif number_due and sign in "+-":
            waiting += ["negate"] if sign == "-" else []
        elif number_due or not _apply(values, waiting, 0 if sign == ")" else _LEVELS[sign]):
            return None
        elif sign != ")":
            waiting.append(sign)
            number_due = True
        elif not waiting or waiting.pop() != "(":
            return None
    if number_due or not _apply(values, waiting, 0) or waiting:
        return None
    return values[0]


def _apply(values: list[Fraction], waiting: list[str], level: int) -> bool:
    """Carry out waiting operations that bind at least so strongly, up to an open bracket; False if one cannot be."""
    while waiting and waiting[-1] != "(" and _LEVELS[waiting[-1]] >= level:
        operation, right = waiting.pop(), values.pop()
        if operation == "negate":
            values.append(-right)
            continue
        left = values.pop()
        if operation == "/" and not right:
            return False
        values.append(_result(operation, left, right))
    return True


def _result(operation: str, left: Fraction, right: Fraction) -> Fraction:
    match operation:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    return left / right


def _countdown(answer: str, entry: Entry) -> float:
    value = value_of(answer)
    if value is None:
        return _NOTHING
    right = value == Fraction(str(entry["metadata"]["target"]))
    return 1.0 if right and _uses(answer, entry) else _SOMETHING


def _puzzle24(answer: str, entry: Entry) -> float:
    return 1.0 if value_of(answer) == 24 and _uses(answer, entry) else _NOTHING


def _uses(answer: str, entry: Entry) -> bool:
    """Every number of the puzzle, each once, and no other."""
    return sorted(map(int, re.findall(r"[0-9]+", answer))) == sorted(map(int, entry["metadata"]["numbers"]))


def _matrix(answer: str, entry: Entry) -> float:
    gold = str(entry["answer"])
    return 1.0 if answer == gold else 0.1 if _board(answer) == gold else 0.0


def _queens(answer: str, entry: Entry) -> float:
    right = entry["metadata"]["valid_answers"]
    return 1.0 if answer in right else 0.5 if _board(answer) in right else 0.0


def _spiral(answer: str, entry: Entry) -> float:
    gold = str(entry["answer"]).strip()
    listed = _listed(answer) or _listed(f"[{answer}]")
    return 1.0 if answer.strip() == gold else 0.1 if _joined(listed, " ") == gold else 0.0


def _insertion(answer: str, entry: Entry) -> float:
    gold = str(entry["answer"])
    return 1.0 if answer == gold else 0.1 if _joined(_listed(answer), "") == gold else 0.0


def _board(answer: str) -> str | None:
    """A list of rows as the package writes it."""
    rows = [_joined(row, " ") for row in _listed(answer) or ()]
    return None if None in rows or not rows else "\n".join(str(row) for row in rows)


def _joined(items: Json, by: str) -> str | None:
    if not isinstance(items, list) or not all(isinstance(item, int | str) for item in items):
        return None
    return by.join(map(str, items))


def _listed(answer: str) -> list[Json] | None:
    """A list in the spelling of Python or of JSON."""
    try:
        found = parse(answer.replace("'", '"'))
    except NotJson:
        return None
    return found if isinstance(found, list) else None


@dataclass(frozen=True, slots=True)
class Integral:
    """1 if the answer's derivative is what was to be integrated, else 0; found by sympy in a sandbox."""

    isolation: Isolation

    def __call__(self, answer: str, entry: Entry) -> float | Failed:
        variable = str(entry["metadata"]["variable"])
        if not readable(answer, variable):
            return Failed("unparsable", "it is more than numbers, the variable, known functions and + - * / **")
        pool = SharedPool(Shutting(_LIMITS, self.isolation, PACKAGES))
        try:
            (finding,) = pool.test(_DERIVES, [Call("derives", [answer, variable, str(entry["metadata"]["integrand"])])])
        except SandboxFault as fault:
            return Failed("crashed", str(fault)[:200])
        if finding.status == "broken":
            return Failed("crashed", f"sympy cannot be loaded in the sandbox: {finding.detail}")
        if finding.status != "done":
            return Failed("timeout" if finding.status == "timeout" else "refused", f"sympy: {finding.detail}"[:200])
        return Failed("unparsable", "sympy cannot read it") if finding.value is None else float(finding.value is True)


def readable(answer: str, variable: str) -> bool:
    """Whether an answer is made of nothing but numbers, the variable, known functions and operators."""
    pieces = _PIECE.findall(answer)
    if len(answer) > MOST_LETTERS or "".join(pieces) != answer or not answer.strip():
        return False
    return all(piece in _WORDS or piece == variable for piece in pieces if piece.isalpha())


_CHECKS: Mapping[str, Check] = {
    "binary_matrix": _matrix,
    "countdown": _countdown,
    "n_queens": _queens,
    "puzzle24": _puzzle24,
    "spiral_matrix": _spiral,
    "string_insertion": _insertion,
}
