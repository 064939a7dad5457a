"""Tests of a prompt are read strictly: what cannot be used is named when it is loaded."""

import json

import pytest

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Prompt
from ropewalk.tasks.scoring.code.suite import Output, Test, Value, free_names, suite_of
from ropewalk.tasks.scoring.sandbox.program import Call, Script, TestCode


def prompt(tests: Json) -> Prompt:
    return Prompt(id="p", dialogue="?", info={"tests": tests})


def test_the_three_forms() -> None:
    suite = suite_of(
        prompt(
            {
                "public": [{"stdin": "1\n", "stdout": "2\n", "tolerance": 0.1}],
                "hidden": [
                    {"call": "Solution().f", "args": [1, [2]], "kwargs": {"k": 3}, "expected": [4], "unordered": True},
                    {"assert": ["assert f(1) == 2", "assert g(f(2)) == 3"], "setup": "def g(x): return x"},
                    {"assert": "assert candidate(1)", "names": {"candidate": "f"}},
                ],
            }
        )
    )
    assert suite.public == (Test(Script("1\n"), Output("2\n", tolerance=0.1)),)
    assert suite.hidden == (
        Test(Call("Solution().f", [1, [2]], {"k": 3}), Value([4], unordered=True)),
        Test(TestCode("assert f(1) == 2\nassert g(f(2)) == 3", {"f": "f"}, "def g(x): return x")),
        Test(TestCode("assert candidate(1)", {"candidate": "f"})),
    )


FAULTS: list[tuple[Json, str]] = [
    (None, "has no tests"),
    ({"visible": []}, "has no tests"),
    ({}, "empty list of tests"),
    ({"public": {}}, "public tests of prompt 'p' are no list"),
    ({"public": [1]}, "public test 0 of prompt 'p' is no object"),
    ({"public": [{"input": 1}]}, "has none of the keys stdin, call, assert"),
    ({"hidden": [{"stdin": ""}]}, "hidden test 0 of prompt 'p' lacks stdout"),
    ({"hidden": [{"stdin": "", "stdout": "", "time": 1}]}, "has the unknown time"),
    ({"hidden": [{"stdin": 3, "stdout": ""}]}, "stdin is no text"),
    ({"hidden": [{"stdin": "", "stdout": "", "tolerance": -1}]}, "tolerance is a number"),
    ({"hidden": [{"stdin": "", "stdout": "", "tolerance": True}]}, "tolerance is a number"),
    ({"hidden": [{"call": "f", "args": 3, "expected": 1}]}, "args is a list"),
    ({"hidden": [{"call": "f", "args": [3], "argument": 1, "expected": 1}]}, "argument is the place"),
    ({"hidden": [{"call": "f", "expected": 1, "unordered": True}]}, "unordered needs a list"),
    ({"hidden": [{"call": "f", "expected": [0] * 501, "unordered": True}]}, "at most 500"),
    ({"hidden": [{"assert": "assert f("}]}, "cannot be used"),
    ({"hidden": [{"assert": "assert 1 == 1"}]}, "no name of the program"),
    ({"hidden": [{"assert": "assert f(1)", "setup": "def"}]}, "cannot be used"),
]


@pytest.mark.parametrize(("tests", "told"), FAULTS)
def test_what_cannot_be_used_is_refused_with_its_place(tests: Json, told: str) -> None:
    with pytest.raises(InputError, match=told):
        suite_of(prompt(tests))


@pytest.mark.parametrize("tests", [{"public": [{"call": "f", "expected": {"a": [1.5, None]}}]}, {"hidden": []}, [], 3])
def test_a_table_of_text_has_tests_as_their_json(tests: Json) -> None:
    """What is wrong with the tests is wrong with their text in the same words."""

    def read(given: Json) -> object:
        try:
            return suite_of(prompt(given))
        except InputError as error:
            return str(error)

    assert read(json.dumps(tests)) == read(tests)
    assert "has no tests" in str(read("[" * 100_000)) and "has no tests" in str(read("{"))


def test_free_names_are_what_the_code_leaves_to_the_program() -> None:
    lines = ["import math", "from os import path", "x = 3", "class A: y = f(x)", "def check(candidate, *more):"]
    lines += ["    local = [g(item) for item in more]", "    assert candidate(local) == math.pi + z"]
    code = "\n".join([*lines, "assert all(h(v) == len(path) for v in [1])", "check(f)"])
    assert sorted(free_names(code)) == ["f", "g", "h", "z"]
