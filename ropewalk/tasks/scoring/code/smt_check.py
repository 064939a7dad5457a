"""Checks an answer to a constraint problem with z3; runs in the sandbox, as a trusted program that reads hostile text.

What always holds: the answer is one S-expression or a list of literal values, never a command, so it can add nothing
to the problem and take nothing away. Verdicts: right, wrong, unparsed, unknown (the solver's own time is up).
"""

import z3  # type: ignore[import-untyped]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_LETTERS = 20_000
_OPEN, _CLOSE = "(", ")"


class Unparsed(Exception):
    """The answer is not of the form that is asked for."""


def check(kind: str, problem: str, answer: str, milliseconds: int) -> str:
    """The verdict on an answer.

    values: the answer assigns a literal to every declared constant (`x = 3, y = (- 2)`, or define-fun as z3 prints
    models), and the problem's assertions then hold. term: the problem is SMT-LIB with the name ANSWER once or more;
    with the answer's term in its place it must be unsatisfiable (state the negation of what is to be proved).
    """
    try:
        claim = _with_values(problem, answer) if kind == "values" else _with_term(problem, answer)
        found = _satisfiable(claim, milliseconds)
    except (Unparsed, z3.Z3Exception):
        return "unparsed"
    return {"unsat": "right", "sat": "wrong"}.get(found, "unknown")


def _satisfiable(claim: "list[Any]", milliseconds: int) -> str:
    solver = z3.Solver()
    solver.set("timeout", milliseconds)
    solver.add(claim)
    return str(solver.check())


def _with_values(problem: str, answer: str) -> "list[Any]":
    """The equations, and that some assertion is false: no model of that may be left.

    Not merely a model of equations and assertions: division by 0 has any value that suits, and an answer must not
    make use of it.
    """
    sorts = declared(problem)
    values = assigned(answer)
    if set(values) != set(sorts):
        raise Unparsed
    lines = [f"(assert (= {name} {_literal(values[name], sorts[name])}))" for name in sorts]
    claims = z3.parse_smt2_string("\n".join([problem, *lines]))
    known = len(z3.parse_smt2_string(problem))
    return [*claims[known:], z3.Not(z3.And(list(claims[:known])))]


def _with_term(problem: str, answer: str) -> "list[Any]":
    tokens = expressions(answer)
    if len(tokens) != 1:
        raise Unparsed
    return list(z3.parse_smt2_string(problem.replace("ANSWER", written(tokens[0]))))


def declared(problem: str) -> "dict[str, str]":
    """Constants of a problem and their sorts."""
    found = {}
    for command in expressions(problem):
        if isinstance(command, list) and command[:1] == ["declare-const"] and len(command) == 3:
            found[command[1]] = written(command[2])
        elif isinstance(command, list) and command[:1] == ["declare-fun"] and len(command) == 4 and command[2] == []:
            found[command[1]] = written(command[3])
    return found


def assigned(answer: str) -> "dict[str, Any]":
    """Names and values of an answer: `x = 3, y = 4`, one a line, or define-fun without arguments. Twice is unparsed."""
    tokens = expressions(answer.replace(",", " ").replace(";", " "))
    if len(tokens) == 1 and isinstance(tokens[0], list) and tokens[0] and isinstance(tokens[0][0], list):
        tokens = tokens[0]
    found: dict[str, Any] = {}
    pairs = _definitions(tokens) if any(isinstance(token, list) for token in tokens[:1]) else _equations(tokens)
    for name, value in pairs:
        if not isinstance(name, str) or name in found:
            raise Unparsed
        found[name] = value
    return found


def _definitions(tokens: "list[Any]") -> "list[tuple[Any, Any]]":
    pairs = []
    for token in tokens:
        if not isinstance(token, list) or token[:1] != ["define-fun"] or len(token) != 5 or token[2] != []:
            raise Unparsed
        pairs.append((token[1], token[4]))
    return pairs


def _equations(tokens: "list[Any]") -> "list[tuple[Any, Any]]":
    if len(tokens) % 3 or any(sign not in ("=", ":=") for sign in tokens[1::3]):
        raise Unparsed
    return list(zip(tokens[::3], tokens[2::3], strict=True))


def _literal(value: "Any", sort: str) -> str:
    """A literal of the sort as SMT-LIB, and nothing that is computed: no names, no functions but - and /."""
    text = value if isinstance(value, str) else ""
    if sort == "Bool" and text.lower() in ("true", "false"):
        return text.lower()
    if sort in ("Int", "Real"):
        return _number(value, sort)
    if text[:2] in ("#b", "#x") and all(letter in "0123456789abcdefABCDEF" for letter in text[2:]) and text[2:]:
        return text
    if sort == "String" and text[:1] == '"':
        return text
    if sort.startswith("(_ BitVec ") and text.isdecimal():
        return f"(_ bv{text} {sort.split()[-1].rstrip(_CLOSE)})"
    raise Unparsed


def _number(value: "Any", sort: str) -> str:
    if isinstance(value, list):
        if value[:1] == ["-"] and len(value) == 2:
            return f"(- {_number(value[1], sort)})"
        if value[:1] == ["/"] and len(value) == 3 and sort == "Real":
            over, under = _number(value[1], sort), _number(value[2], sort)
            if under.strip("(-)/ 0.") == "":
                raise Unparsed
            return f"(/ {over} {under})"
        raise Unparsed
    sign = value.startswith("-")
    whole, slash, under = value.removeprefix("-").partition("/")
    digits, _, part = whole.partition(".")
    if not digits.isdecimal() or not digits.isascii() or (part and not (part.isdecimal() and part.isascii())):
        raise Unparsed
    if (slash and not (under.isdecimal() and under.isascii() and under.strip("0"))) or (
        sort == "Int" and (slash or part.strip("0"))
    ):
        raise Unparsed
    number = digits if sort == "Int" else f"(/ {whole} {under})" if slash else whole
    return f"(- {number})" if sign else number


def expressions(text: str) -> "list[Any]":
    """The S-expressions of a text: atoms as str, lists as list. Raises Unparsed where brackets do not match."""
    if len(text) > MAX_LETTERS:
        raise Unparsed
    stack: list[list[Any]] = [[]]
    for token in _tokens(text):
        if token == _OPEN:
            stack.append([])
        elif token == _CLOSE:
            if len(stack) == 1:
                raise Unparsed
            stack[-2].append(stack.pop())
        else:
            stack[-1].append(token)
    if len(stack) != 1 or len(stack[0]) > MAX_LETTERS:
        raise Unparsed
    return stack[0]


def _tokens(text: str) -> "list[str]":
    tokens, place = [], 0
    while place < len(text):
        letter = text[place]
        if letter.isspace():
            place += 1
        elif letter in (_OPEN, _CLOSE):
            tokens.append(letter)
            place += 1
        elif letter in ('"', "|"):
            end = text.find(letter, place + 1)
            if end < 0:
                raise Unparsed
            tokens.append(text[place : end + 1])
            place = end + 1
        elif letter == ";":
            end = text.find("\n", place)
            place = len(text) if end < 0 else end
        else:
            end = place
            while end < len(text) and not text[end].isspace() and text[end] not in '()";|':
                end += 1
            tokens.append(text[place:end])
            place = end
    return tokens


def written(token: "Any") -> str:
    """An S-expression as text."""
    return token if isinstance(token, str) else f"({' '.join(map(written, token))})"
