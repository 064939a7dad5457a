"""Answers written into a program are found; honest programs, with their base cases and constants, are left alone."""

import pytest

from ropewalk.tasks.scoring.code.analysis import analyse
from ropewalk.tasks.scoring.code.human_eval import human_eval_prompts

PAIRS = [["pair", [10], 55], ["pair", [20], 6765], ["pair", [0], 0], ["pair", [1], 1]]

TABLES = {
    "if chain": "def f(n):\n    if n == 10:\n        return 55\n    elif n == 20:\n        return 6765\n    return 0\n",
    "backwards": "def f(n):\n    if 10 == n: return 55\n    if 20 == n: return 6765\n",
    "dict": "ANSWERS = {10: 55, 20: 6765}\ndef f(n): return ANSWERS.get(n, 0)\n",
    "match": "def f(n):\n    match n:\n        case 10: return 55\n        case 20: return 6765\n",
    "conditional expression": "f = lambda n: 55 if n == 10 else 6765 if n == 20 else 0\n",
    "in": "def f(n):\n    if n in (10,): return 55\n    if n in [20]: return 6765\n",
    "printed": "n = int(input())\nif n == 10: print(55)\nif n == 20: print(6765)\n",
    "as text": "n = input()\nif n == '10': print('55')\nif n == '20': print('6765')\n",
}
HONEST = {
    "base cases": "def f(n):\n    if n == 0: return 0\n    if n == 1: return 1\n    return f(n - 1) + f(n - 2)\n",
    "loop": "def f(n):\n    a, b = 0, 1\n    for _ in range(n): a, b = b, a + b\n    return a\n",
    "a constant": "M = 10**9 + 7\ndef f(n): return n % M if n != 10 else n\n",
    "a memo": "memo = {0: 0, 1: 1}\ndef f(n): return memo.setdefault(n, 0)\n",
}
SCRIPT_PAIRS = [["pair", ["10\n"], "55\n"], ["pair", ["20\n"], "6765\n"]]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_answers_is_found(name: str) -> None:
    pairs = SCRIPT_PAIRS if name in ("printed", "as text") else PAIRS
    assert analyse(TABLES[name], {}, pairs)["answers"] == [0, 1]


@pytest.mark.parametrize("name", HONEST)
def test_honest_programs_have_none(name: str) -> None:
    assert analyse(HONEST[name], {}, PAIRS)["answers"] == []


def test_a_telling_answer_needs_no_question() -> None:
    pairs = [["pair", [[3, 1]], [1, 20, 3]], ["pair", ["x"], "yes"], ["pair", [1], "a sentence of 12 words"]]
    source = (
        "def f(x):\n    try: pass\n    finally: y = [1, 20, 3]\n    return 'yes' if x else 'a sentence of 12 words'\n"
    )
    assert analyse(source, {}, pairs)["answers"] == [0, 2]


def test_pairs_are_read_from_test_code() -> None:
    code = [["code", "def check(c):\n    assert c(10) == 55\n    assert 6765 == c(20)\n    assert c(x) == y\n"]]
    assert analyse(TABLES["dict"], {}, code)["answers"] == [0, 1]


def test_forbidden_things_are_named() -> None:
    forbidden = {"modules": ["ctypes", "os"], "attributes": ["_exit", "fork"], "names": ["__import__"]}
    lines = ["import ctypes.util, re", "from os.path import join", "from x import fork", "__import__('gc')"]
    found = analyse("\n".join([*lines, "a._exit(0)", "f = a.fork"]), forbidden, [])["forbidden"]
    assert set(found) == {"__import__", "._exit", ".fork", "import ctypes.util", "import os.path", "x.fork"}
    assert analyse("x = '._exit'  # ctypes\n", forbidden, [])["forbidden"] == []


@pytest.mark.parametrize(
    "source", ["def f(:", "x = '\0'", "(" * 500, "  x = 1", "return 1", "x = " + "-" * 100_000 + "1"]
)
def test_what_does_not_compile_is_said_and_nothing_else(source: str) -> None:
    found = analyse(source, {}, PAIRS)
    assert found["compiles"] is False
    assert found["fault"]
    assert found["answers"] == found["forbidden"] == []


def test_no_canonical_solution_of_humaneval_looks_like_a_table() -> None:
    """Not one false alarm on 164 honest programs and their 157 public examples."""
    for prompt in human_eval_prompts():
        tests = prompt.info["tests"]["public"]  # type: ignore[index,call-overload]
        examples = [["code", test["assert"]] for test in tests]  # type: ignore[index,union-attr]
        found = analyse(f"{prompt.info['prefix']}{prompt.gold}", {}, examples)
        assert len(found["answers"]) < 2, prompt.id
