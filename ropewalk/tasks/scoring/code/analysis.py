"""What a program's text gives away: does it compile, what it must not use, answers written into it.

This file runs in the sandbox, as a trusted program of its own, because parsing a hostile text can bring an interpreter
down. Its answers are heuristics with reasons, not proofs. A table of answers is found where the text links a rich
input of a public example to its output (`if x == [3, 1]: return 4`, a match case, an entry of a dict) or holds a rich
output by itself. Rich: not one of the small constants that base cases are made of.
"""

import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Example = tuple[list[Any], Any]

_SMALL = 9
_TELLING_LETTERS = 20
_SKIPPED = object()


def analyse(source: str, forbidden: "dict[str, list[str]]", examples: "list[Any]") -> "dict[str, Any]":
    """compiles (bool), fault (text), forbidden (what was found), answers (places of examples that are written down).

    `examples` are ["pair", inputs, output] or ["code", test code to take pairs from].
    """
    try:
        compile(source, "program.py", "exec", dont_inherit=True)
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return {"compiles": False, "fault": f"{type(error).__name__}: {error}"[:200], "forbidden": [], "answers": []}
    pairs = [pair for example in examples for pair in _pairs(example)]
    return {"compiles": True, "fault": "", "forbidden": _forbidden(tree, forbidden), "answers": _answers(tree, pairs)}


def _pairs(example: "list[Any]") -> "list[Example]":
    if example[0] == "pair":
        return [(list(example[1]), example[2])]
    found: list[Example] = []
    for node in ast.walk(ast.parse(example[1])):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.Is):
            call, other = node.left, node.comparators[0]
            call, other = (call, other) if isinstance(call, ast.Call) else (other, call)
            value = _literal(other)
            if isinstance(call, ast.Call) and value is not _SKIPPED:
                inputs = [_literal(argument) for argument in call.args]
                found.append(([each for each in inputs if each is not _SKIPPED], value))
    return found


def _forbidden(tree: ast.AST, forbidden: "dict[str, list[str]]") -> list[str]:
    modules, attributes, names = (set(forbidden.get(kind, ())) for kind in ("modules", "attributes", "names"))
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update((f"import {a.name}", None) for a in node.names if a.name.split(".")[0] in modules)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in modules:
            found[f"import {node.module}"] = None
        elif isinstance(node, ast.ImportFrom):
            found.update((f"{node.module}.{a.name}", None) for a in node.names if a.name in attributes)
        elif isinstance(node, ast.Attribute) and node.attr in attributes:
            found[f".{node.attr}"] = None
        elif isinstance(node, ast.Name) and node.id in names:
            found[node.id] = None
    return list(found)


def _answers(tree: ast.AST, pairs: "list[Example]") -> list[int]:
    """Places of the pairs that the program has written down."""
    links = list(_links(tree))
    literals = [value for node in ast.walk(tree) if (value := _literal(node)) is not _SKIPPED]
    found = []
    for place, (inputs, output) in enumerate(pairs):
        linked = any(_same(answer, output) and any(_same(key, each) for each in _keys(inputs)) for key, answer in links)
        rich = _rich(output) or any(map(_rich, inputs))
        alone = _telling(output) and any(_same(value, output) for value in literals)
        if (linked and rich) or alone:
            found.append(place)
    return found


def _keys(inputs: "list[Any]") -> "list[Any]":
    """How a program may name the inputs of an example: one of them, all as a tuple, or a number within a text."""
    keys = [*inputs, tuple(inputs), list(inputs)]
    for text in inputs:
        if isinstance(text, str):
            words = text.split()
            keys += [text.strip(), *(int(word) for word in words if word.lstrip("-").isdecimal() and len(word) < 40)]
    return keys


def _links(tree: ast.AST) -> "Iterator[tuple[Any, Any]]":
    """(input, output) literals that the text ties together."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp):
            keys = list(_compared(node.test))
            body = node.body if isinstance(node.body, list) else [node.body]
            yield from ((key, answer) for key in keys for answer in _given(body))
        elif isinstance(node, ast.match_case) and isinstance(node.pattern, ast.MatchValue):
            yield from ((_literal(node.pattern.value), answer) for answer in _given(node.body))
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is not None:
                    yield _literal(key), _literal(value)


def _compared(test: ast.AST) -> "Iterator[Any]":
    for node in ast.walk(test):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.In | ast.Is) for op in node.ops):
            for side in (node.left, *node.comparators):
                value = _literal(side)
                if value is not _SKIPPED:
                    yield value
                    if isinstance(value, list | tuple | set):
                        yield from value


def _given(body: "list[Any]") -> "Iterator[Any]":
    """Literals in these statements: what they return, print or assign."""
    for statement in body:
        for node in ast.walk(statement):
            value = _literal(node)
            if value is not _SKIPPED:
                yield value


def _literal(node: ast.AST) -> "Any":
    if not isinstance(node, ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.Set | ast.UnaryOp):
        return _SKIPPED
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return _SKIPPED


def _same(a: "Any", b: "Any") -> bool:
    """Equal, lists and tuples alike; a printed text equals the value it shows."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, str) and isinstance(b, str):
        return a.strip() == b.strip()
    if isinstance(b, str) and not isinstance(a, str):
        return repr(a) == b.strip() if not isinstance(a, int) or abs(a) < 10**100 else False
    return type(a) is type(b) and bool(a == b)


def _rich(value: "Any") -> bool:
    """More than base cases are made of."""
    if isinstance(value, bool) or value is None:
        return False
    if isinstance(value, int | float):
        return abs(value) > _SMALL
    if isinstance(value, str):
        text = value.strip().lstrip("-")
        return len(text) > 2 or (len(text) == 2 and text.isdecimal())
    return len(value) > 1 or any(map(_rich, value))


def _telling(value: "Any") -> bool:
    """So special that it can hardly stand in an honest program by accident; words like IMPOSSIBLE are not."""
    if isinstance(value, str):
        text = value.strip()
        return len(text) >= _TELLING_LETTERS or (len(text) >= 4 and any(letter.isdigit() for letter in text))
    if isinstance(value, bool | int | float) or value is None:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) > 10_000
    return len(value) > 2 and any(map(_rich, value))
