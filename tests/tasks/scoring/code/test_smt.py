"""Values and terms are checked by z3 in the sandbox; an answer can neither add to the problem nor take from it."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.records.score import Failed, Outcome, Score
from ropewalk.tasks.scoring.code.smt import SmtScorer, smt_problem
from ropewalk.tasks.scoring.sandbox.pool import SandboxPool
from tests.tasks.samples import sample
from tests.tasks.scoring.sandbox.pools import PATIENT, need_bubblewrap

SUM = "(declare-const x Int)(declare-const y Int)(assert (= (+ x y) 10))(assert (> x y))"
REAL = "(declare-fun r () Real)(assert (= (* 3 r) 1.0))"
DIVISION = "(declare-const x Int)(assert (= (div 10 x) 5))"
FUNCTION = "(declare-const x Int)(declare-fun f (Int) Int)(assert (= (f x) 5))"
MIXED = (
    "(declare-const b Bool)(declare-const v (_ BitVec 8))(declare-const s String)"
    '(assert b)(assert (= v #x0f))(assert (= s "a b"))'
)
DOUBLE = "(declare-const x Int)(assert (not (= ANSWER (* 2 x))))"
MAXIMUM = (
    "(declare-const a Int)(declare-const b Int)"
    "(assert (not (and (>= ANSWER a) (>= ANSWER b) (or (= ANSWER a) (= ANSWER b)))))"
)
RIGHT, WRONG, UNPARSED = Score(1.0), Score(0.0), Failed("unparsable", "no values or term")

ANSWERS: list[tuple[str, str, str, Outcome]] = [
    ("values", SUM, "x = 7, y = 3", RIGHT),
    ("values", SUM, "y = 3\nx = 7", RIGHT),
    ("values", SUM, "so\n```smt2\n(define-fun x () Int 12)\n(define-fun y () Int (- 2))\n```", RIGHT),
    ("values", SUM, "((define-fun x () Int 12) (define-fun y () Int (- 2)))", RIGHT),
    ("values", SUM, "x = 12, y = -2", RIGHT),
    ("values", SUM, "x = 3, y = 7", WRONG),
    ("values", SUM, "x = 7.0, y = 3", RIGHT),
    ("values", SUM, "x = 7.5, y = 3", UNPARSED),
    ("values", SUM, "x = 7", UNPARSED),
    ("values", SUM, "x = 7, y = 3, z = 1", UNPARSED),
    ("values", SUM, "x = 7, x = 8, y = 3", UNPARSED),
    ("values", SUM, "x = y, y = 3", UNPARSED),
    ("values", SUM, "x = (+ 3 4), y = 3", UNPARSED),
    ("values", SUM, "x = 7, y = 3 (assert false)", UNPARSED),
    ("values", SUM, "x = 7, y = 3)) (reset) (assert (= 1 1", UNPARSED),
    ("values", SUM, "(reset)", UNPARSED),
    ("values", SUM, "", UNPARSED),
    ("values", SUM, "x = " + "(" * 9_000 + ")" * 9_000 + ", y = 3", UNPARSED),
    ("values", SUM, "x = " + "9" * 50_000 + ", y = 3", UNPARSED),
    ("values", REAL, "r = 1/3", RIGHT),
    ("values", REAL, "r = (/ 1 3)", RIGHT),
    ("values", REAL, "r = (- (/ 1 3))", WRONG),
    ("values", REAL, "r = 0.333", WRONG),
    ("values", REAL, "r = 1/0", UNPARSED),
    ("values", REAL, "r = (/ 1 0)", UNPARSED),
    ("values", REAL, "r = (/ 1 (- 0.0))", UNPARSED),
    ("values", DIVISION, "x = 0", WRONG),
    ("values", DIVISION, "x = 2", RIGHT),
    ("values", FUNCTION, "x = 1", WRONG),
    ("values", MIXED, 'b = true, v = #x0f, s = "a b"', RIGHT),
    ("values", MIXED, 'b = True, v = 15, s = "a b"', RIGHT),
    ("values", MIXED, 'b = false, v = 15, s = "a b"', WRONG),
    ("values", MIXED, "b = true, v = 15, s = a", UNPARSED),
    ("term", DOUBLE, "(+ x x)", RIGHT),
    ("term", DOUBLE, "(* x 2)", RIGHT),
    ("term", DOUBLE, "(* x x)", WRONG),
    ("term", DOUBLE, "x x", UNPARSED),
    ("term", DOUBLE, "(* 2 x)))(reset)(assert (not (= 1", UNPARSED),
    ("term", DOUBLE, "(* 2 q)", UNPARSED),
    ("term", DOUBLE, "true", WRONG),
    ("term", MAXIMUM, "(ite (> a b) a b)", RIGHT),
    ("term", MAXIMUM, "(ite (> a b) b a)", WRONG),
    ("term", MAXIMUM, "(let ((a b)) a)", WRONG),
]  # fmt: skip


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    need_bubblewrap()
    with SandboxPool(2, replace(PATIENT, memory_bytes=2**30), packages=["z3"]) as made:
        yield made


@pytest.fixture(scope="module")
def scorer(pool: SandboxPool) -> SmtScorer:
    return SmtScorer(pool, solver_seconds=50)


def problem(kind: str, text: str) -> Prompt:
    return Prompt("p", "?", info={"smt": {"kind": kind, "problem": text}})


def test_a_sample_of_the_table(scorer: SmtScorer, grid_seed: int) -> None:
    for kind, text, answer, outcome in random.Random(grid_seed).sample(ANSWERS, 10):
        assert scorer(problem(kind, text), sample(answer)) == outcome, (text, answer)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "text", "answer", "outcome"), ANSWERS, ids=range(len(ANSWERS)))
def test_the_table(scorer: SmtScorer, kind: str, text: str, answer: str, outcome: Outcome) -> None:
    assert scorer(problem(kind, text), sample(answer)) == outcome


def test_what_z3_cannot_decide_is_no_verdict(pool: SandboxPool) -> None:
    declared = "(declare-const x Int)(declare-const y Int)(declare-const z Int)"
    cubes = f"{declared}(assert (= (+ (* x x x) (* y y y) (* z z z)) ANSWER))"
    found = SmtScorer(pool, solver_seconds=2)(problem("term", cubes), sample("114"))
    assert isinstance(found, Failed) and found.reason == "timeout"


def test_problems_are_checked_when_read() -> None:
    for info in ({}, {"smt": {"kind": "proof", "problem": ""}}, {"smt": {"kind": "values"}}):
        with pytest.raises(InputError, match="prompt 'p' has no problem"):
            smt_problem(Prompt("p", "?", info=info))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="names ANSWER"):
        smt_problem(problem("values", DOUBLE))
    with pytest.raises(InputError, match="names ANSWER"):
        smt_problem(problem("term", SUM))
