"""Tests of a prompt: what is asked of a program, and what is expected. Read from `info["tests"]`, or its JSON text.

    {"public": [...], "hidden": [...]}, each test one of
    {"stdin": "2 3\\n", "stdout": "5\\n"}                                    compared outside
    {"call": "add", "args": [2, 3], "kwargs": {}, "expected": 5}             compared outside
    {"assert": "assert add(2, 3) == 5", "names": {"add": "add"}, "setup": ""}  runs beside the program

Options: `exact` (stdout byte for byte), `tolerance` (numbers in stdout, floats in values), `unordered` (a list's items
in any order), `argument` (the answer is this argument after the call). Without `names` the names that an assertion
uses and nobody defines are the program's.
"""

import ast
import builtins
import json
import symtable
from collections.abc import Mapping
from dataclasses import dataclass

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Prompt
from ropewalk.tasks.scoring.sandbox.program import Call, Request, Script, TestCode

MAX_UNORDERED = 500
"""Longest list that is compared in any order: every item is held against every other."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a script must print: equal line by line but for white space at line ends and empty lines at the end."""

    text: str
    exact: bool = False
    """Byte for byte."""
    tolerance: float | None = None
    """Words that are numbers may differ by this much, absolute or relative."""


@dataclass(frozen=True, slots=True)
class Value:
    """What a call must return. A tuple counts as a list; True and 1 are different; floats may differ by `tolerance`."""

    value: Json
    unordered: bool = False
    """The items of the list, or of the set, in any order."""
    tolerance: float = 1e-9
    """Absolute or relative, where one of two numbers is a float."""


@dataclass(frozen=True, slots=True)
class Test:
    """One test; `expected` is None where the test code itself compares."""

    __test__ = False  # pytest collects classes of this name

    request: Request
    expected: Output | Value | None = None


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of one prompt."""

    public: tuple[Test, ...] = ()
    """Shown to the policy, as examples in the prompt."""
    hidden: tuple[Test, ...] = ()


def suite_of(prompt: Prompt) -> Suite:
    """The tests of a prompt. Raises InputError naming the prompt and the test that cannot be used."""
    given = _as_data(prompt.info.get("tests"))
    if not isinstance(given, Mapping) or set(given) - {"public", "hidden"}:
        raise InputError(
            f'prompt {prompt.id!r} has no tests: give info["tests"] = {{"public": [...], "hidden": [...]}}'
        )
    parts: dict[str, tuple[Test, ...]] = {}
    for part in ("public", "hidden"):
        tests = given.get(part, [])
        if not isinstance(tests, list | tuple):
            raise InputError(f"the {part} tests of prompt {prompt.id!r} are no list")
        parts[part] = tuple(_test(test, f"{part} test {n} of prompt {prompt.id!r}") for n, test in enumerate(tests))
    suite = Suite(parts["public"], parts["hidden"])
    if not suite.public and not suite.hidden:
        raise InputError(f"prompt {prompt.id!r} has an empty list of tests: a program cannot be scored by none")
    return suite


def _as_data(given: Json) -> Json:
    """The tests themselves, also where a table of rows has them as their JSON text."""
    if not isinstance(given, str):
        return given
    try:
        found: Json = json.loads(given)
    except (ValueError, RecursionError):
        return given
    return found


def _test(given: Json, where: str) -> Test:
    if not isinstance(given, Mapping):
        raise InputError(f"{where} is no object")
    known = next((kind for kind in _KINDS if kind in given), None)
    if known is None:
        raise InputError(f"{where} has none of the keys {', '.join(_KINDS)}")
    required, allowed, make = _KINDS[known]
    missing, unknown = required - set(given), set(given) - required - allowed
    if missing or unknown:
        told = f"lacks {', '.join(sorted(missing))}" if missing else f"has the unknown {', '.join(sorted(unknown))}"
        raise InputError(f"{where} {told}")
    try:
        return make(given)
    except (TypeError, ValueError, SyntaxError) as error:
        raise InputError(f"{where} cannot be used: {error}") from None


def _script(given: Mapping[str, Json]) -> Test:
    tolerance = given.get("tolerance")
    output = Output(
        _text(given, "stdout"), bool(given.get("exact", False)), None if tolerance is None else _number(tolerance)
    )
    return Test(Script(_text(given, "stdin")), output)


def _call(given: Mapping[str, Json]) -> Test:
    args, kwargs, argument = given.get("args", []), given.get("kwargs", {}), given.get("argument")
    if not isinstance(args, list) or not isinstance(kwargs, Mapping):
        raise TypeError("args is a list and kwargs an object")
    if not (argument is None or (isinstance(argument, int) and 0 <= argument < len(args))):
        raise TypeError("argument is the place of one of args")
    if given.get("unordered") and (not isinstance(given["expected"], list) or len(given["expected"]) > MAX_UNORDERED):
        raise ValueError(f"unordered needs a list of at most {MAX_UNORDERED} items")
    expected = Value(given["expected"], bool(given.get("unordered", False)), _number(given.get("tolerance", 1e-9)))
    return Test(Call(_text(given, "call"), args, dict(kwargs), argument), expected)


def _asserts(given: Mapping[str, Json]) -> Test:
    code = given["assert"]
    code = "\n".join(map(str, code)) if isinstance(code, list) else _text(given, "assert")
    setup = str(given.get("setup", ""))
    names = given.get("names") or {name: name for name in free_names(f"{setup}\n{code}")}
    if not isinstance(names, Mapping) or not names:
        raise ValueError("no name of the program is used in it")
    ast.parse(setup)
    ast.parse(code)
    return Test(TestCode(code, {str(alias): str(name) for alias, name in names.items()}, setup))


_KINDS = {
    "stdin": ({"stdin", "stdout"}, {"exact", "tolerance"}, _script),
    "call": ({"call", "expected"}, {"args", "kwargs", "argument", "unordered", "tolerance"}, _call),
    "assert": ({"assert"}, {"setup", "names"}, _asserts),
}


def free_names(code: str) -> list[str]:
    """Names that the code uses, that it does not define on its top level, and that are not built in."""
    top = symtable.symtable(code, "tests", "exec")
    defined = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    used: dict[str, None] = {}
    waiting = [top]
    while waiting:
        table = waiting.pop(0)
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (table is top or symbol.is_global()):
                used[symbol.get_name()] = None
        waiting += table.get_children()
    return [name for name in used if name not in defined and not hasattr(builtins, name)]


def _text(given: Mapping[str, Json], key: str) -> str:
    text = given[key]
    if not isinstance(text, str):
        raise TypeError(f"{key} is no text")
    return text


def _number(given: Json) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < float("inf"):
        raise TypeError("tolerance is a number, 0 or more")
    return float(given)
