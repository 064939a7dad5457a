"""Tool calls written as a Python list of calls: `[f(a=1), g(b="x")]`.

Only literals are read: texts, numbers, True, False, None (true, false, null, too), lists, tuples and dicts of them.
The text is parsed, never compiled and never run; what is shown to the parser is bounded in length and depth. Arguments
whose names are no identifiers are written as `**{"a-b": 1}`.
"""

import ast
import json
import keyword
import math
import re
from collections.abc import Mapping, Sequence

from ropewalk.records.prompt import Json
from ropewalk.tasks.environments.protocol import ToolCall, Unread

START = r"\[\s*[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\s*\("
MAX_LENGTH = 20_000
"""Characters of one list."""
MAX_DEPTH = 64
"""Brackets inside brackets."""

_SHOWN = 300
_SCANNED = re.compile(r"""(?<![A-Za-z])(?P<prefix>[A-Za-z]*+)(?P<quote>\"{3}|'{3}|"|')|[\[({]|[\])}]""")
_NUMBER = re.compile(r"(?<![\w.])\d[\w.]*(?:(?<=[eE])[+-]\d\w*)?")
_WHOLE_NUMBER = re.compile(r"\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?")
_SIGNS = re.compile(r"(?:[-+~]\s*){3}")
_ESCAPES = frozenset("\n\r\\'\"abfnrtv01234567xNuU")
_NAMED: Mapping[str, Json] = {"true": True, "false": False, "null": None}


class _Unreadable(Exception):
    """One sentence for the policy."""


def read_at(text: str, at: int) -> tuple[Sequence[ToolCall | Unread], int]:
    """The calls of the list that begins at `at` with a name and a bracket, and where to read on.

    In the middle of a line, `[f(x)]` is prose unless an argument is named.
    """
    try:
        source, end = _span(text, at)
        alone = not text[text.rfind("\n", 0, at) + 1 : at].strip()
        if not alone and "=" not in source and "()" not in source:
            return [], end
        return _calls(source), end
    except _Unreadable as error:
        end = min(_line_end(text, at), at + _SHOWN)
        return [Unread(text[at:end], str(error))], end


def write(calls: Sequence[ToolCall]) -> str:
    """Calls as one list."""
    return f"[{', '.join(map(_written, calls))}]" if calls else ""


def _written(call: ToolCall) -> str:
    plain = {name: value for name, value in call.arguments.items() if _is_plain(name)}
    parts = [f"{name}={_value(value)}" for name, value in plain.items()]
    others = {name: value for name, value in call.arguments.items() if name not in plain}
    return f"{call.name}({', '.join([*parts, *([f'**{_value(others)}'] if others else [])])})"


def _is_plain(name: str) -> bool:
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def _value(value: Json) -> str:
    if isinstance(value, str):
        # What JSON escapes means the same in Python.
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_value(name)}: {_value(inner)}' for name, inner in value.items())}}}"
    return repr(value)


def _span(text: str, at: int) -> tuple[str, int]:
    """The list with its brackets, safe for the parser, and its end."""
    parts: list[str] = []
    opened: list[str] = []
    place = last = at
    limit = min(len(text), at + MAX_LENGTH)
    while (found := _SCANNED.search(text, place, limit)) is not None:
        if found["quote"]:
            parts.append(_code(text[last : found.start()]))
            string, place = _string(text, found, limit)
            parts.append(string)
            last = place
            continue
        place = found.end()
        if found[0] in "[({":
            opened.append({"[": "]", "(": ")", "{": "}"}[found[0]])
            if len(opened) > MAX_DEPTH:
                raise _Unreadable(f"the list of calls is deeper than {MAX_DEPTH} brackets")
        elif not opened or opened.pop() != found[0]:
            raise _Unreadable("the brackets of the list of calls do not match")
        if not opened:
            parts.append(_code(text[last:place]))
            return "".join(parts), place
    if limit < len(text):
        raise _Unreadable(f"the list of calls is longer than {MAX_LENGTH} characters")
    raise _Unreadable("the list of calls is not closed")


def _code(part: str) -> str:
    """What stands between texts, if the parser has nothing to warn of or to trip over."""
    if "#" in part or "\\" in part or _SIGNS.search(part):
        raise _Unreadable("a list of calls holds calls with literal arguments and nothing else")
    for number in _NUMBER.finditer(part):
        if _WHOLE_NUMBER.fullmatch(number[0]) is None:
            raise _Unreadable(f"{number[0][:40]!r} is no number")
    return part


def _string(text: str, found: re.Match[str], limit: int) -> tuple[str, int]:
    """A text of the source with its quotes, and its end. A backslash that escapes nothing stands for itself."""
    if found["prefix"].lower() not in ("", "r", "u"):
        raise _Unreadable(f"{found['prefix'][:20]}{found['quote']} begins no plain text")
    quote, raw = found["quote"], found["prefix"].lower() == "r"
    parts = [found[0]]
    place = found.end()
    stop = re.compile(rf"\\|{quote}" if len(quote) == 3 else rf"\\|{quote}|\n")
    while (next_one := stop.search(text, place, limit)) is not None:
        parts.append(text[place : next_one.start()])
        if next_one[0] == quote:
            return "".join([*parts, quote]), next_one.end()
        if next_one[0] == "\n":
            # A model writes a line break where Python wants its name.
            parts.append("\n" if raw else "\\n")
            place = next_one.end()
            continue
        escaped = text[next_one.end() : next_one.end() + 1]
        if not raw and escaped not in _ESCAPES:
            parts.append("\\")
        parts.append(f"\\{escaped}")
        place = next_one.end() + len(escaped)
    raise _Unreadable("a text in the list of calls is not closed")


def _calls(source: str) -> list[ToolCall | Unread]:
    try:
        tree = ast.parse(source, mode="eval").body
    except SyntaxError as error:
        raise _Unreadable(f"the list of calls is no Python: {error.msg}"[:200]) from None
    except (ValueError, MemoryError, RecursionError):
        raise _Unreadable("the list of calls is no Python that can be read") from None
    if not isinstance(tree, ast.List):
        raise _Unreadable("calls stand in one list: [f(a=1), g(b=2)]")
    return [_call(node, source) for node in tree.elts]


def _call(node: ast.expr, source: str) -> ToolCall | Unread:
    shown = (ast.get_source_segment(source, node) or source)[:_SHOWN]
    try:
        if not isinstance(node, ast.Call):
            raise _Unreadable("every item of the list is a call: [f(a=1), g(b=2)]")
        if node.args:
            raise _Unreadable("every argument is given by its name: f(a=1)")
        return ToolCall(_name(node.func), _arguments(node.keywords))
    except _Unreadable as error:
        return Unread(shown, str(error))


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    raise _Unreadable("what is called is a name")


def _arguments(keywords: Sequence[ast.keyword]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for each in keywords:
        value = _literal(each.value)
        if each.arg is None and not isinstance(value, dict):
            raise _Unreadable("behind ** stands a dict")
        new = value if each.arg is None and isinstance(value, dict) else {str(each.arg): value}
        if twice := sorted(found.keys() & new.keys()):
            raise _Unreadable(f"the argument {twice[0]!r} is given twice")
        found |= new
    return found


def _literal(node: ast.expr) -> Json:
    match node:
        case ast.Constant(value=str() as text):
            return _whole(text)
        case ast.Constant(value=bool() | int() | None as value):
            return value
        case ast.Constant(value=float() as number) if math.isfinite(number):
            return number
        case ast.Name(id=("true" | "false" | "null") as name):
            return _NAMED[name]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant(value=int() | float() as number)):
            if not isinstance(number, bool) and math.isfinite(number):
                return -number if isinstance(node.op, ast.USub) else number
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_literal(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return _dict(keys, values)
    raise _Unreadable("arguments are literals: texts, numbers, True, False, None, lists and dicts of them")


def _dict(keys: Sequence[ast.expr | None], values: Sequence[ast.expr]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for key, value in zip(keys, values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            raise _Unreadable("the keys of a dict are texts")
        if key.value in found:
            raise _Unreadable("a key is given twice in a dict")
        found[_whole(key.value)] = _literal(value)
    return found


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Unreadable("a text has half a character (a lone surrogate)") from None
    return text


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
