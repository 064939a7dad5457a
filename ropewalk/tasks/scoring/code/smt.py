"""Constraints and proofs: a model's values or term, checked by z3 inside the sandbox.

`info["smt"]`: {"kind": "values", "problem": "(declare-const x Int) (assert (> x 3))"}: the answer assigns every
constant. {"kind": "term", "problem": "… (assert (not (= ANSWER (* 2 x))))"}: the answer's term takes the place of
ANSWER, and what is left must have no model. The answer is the last fenced block, or the whole text.
"""

from functools import cache
from pathlib import Path

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Failed, Outcome, Score
from ropewalk.tasks.scoring.code.extract import blocks
from ropewalk.tasks.scoring.sandbox.box import SandboxFault
from ropewalk.tasks.scoring.sandbox.program import Call
from ropewalk.tasks.scoring.sandbox.shared import Pool

KINDS = ("values", "term")
TAGS = ("smt", "smt2", "smtlib", "lisp", "text", "")


class SmtScorer:
    """1 for an answer that z3 finds right, 0 for a wrong one; unparsed and undecided answers are Failed.

    The pool must show z3: `SandboxPool(packages=["z3"])`, with the package `z3-solver` of ropewalk[tasks].
    """

    def __init__(self, pool: Pool, *, solver_seconds: float = 2.0) -> None:
        if solver_seconds >= pool.limits.test_seconds:
            raise InputError(
                f"z3 is given {solver_seconds:g} s and its sandbox {pool.limits.test_seconds:g} s: raise test_seconds"
            )
        self._pool = pool
        self._milliseconds = round(solver_seconds * 1000)

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome:
        kind, problem = smt_problem(prompt)
        fitting = [block for block in blocks(sample.text) if block.tag in TAGS]
        answer = fitting[-1].code if fitting else sample.text
        try:
            (finding,) = self._pool.test(_checker(), [Call("check", [kind, problem, answer, self._milliseconds])])
        except SandboxFault as fault:
            return Failed("crashed", str(fault)[:200])
        if finding.status == "broken":
            return Failed("crashed", f"z3 cannot be loaded in the sandbox: {finding.detail}")
        if finding.status != "done":
            # z3 itself fell over the answer, or over the problem: either way nothing was decided.
            return Failed("timeout" if finding.status == "timeout" else "crashed", finding.detail)
        if finding.value == "unknown":
            return Failed("timeout", "z3 could not decide")
        return Failed("unparsable", "no values or term") if finding.value == "unparsed" else _score(finding.value)


def smt_problem(prompt: Prompt) -> tuple[str, str]:
    """Kind and text of a prompt's problem. Raises InputError naming the prompt."""
    given = prompt.info.get("smt")
    if not isinstance(given, dict) or given.get("kind") not in KINDS or not isinstance(given.get("problem"), str):
        raise InputError(
            f'prompt {prompt.id!r} has no problem: give info["smt"] = {{"kind": "values" or "term", "problem": …}}'
        )
    kind, problem = str(given["kind"]), str(given["problem"])
    if (kind == "term") != ("ANSWER" in problem):
        raise InputError(f"prompt {prompt.id!r}: a problem of kind term, and only that, names ANSWER")
    return kind, problem


def _score(verdict: object) -> Outcome:
    return Score(float(verdict == "right"))


@cache
def _checker() -> str:
    return (Path(__file__).parent / "smt_check.py").read_text("utf-8")
