"""Scorers of programs: shares, all or nothing, the layered reward, one run per completion, counts kept apart."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Abstain, Failed, Outcome, Score
from ropewalk.tasks.scoring.code.scorer import (
    CodeEvaluator,
    CodeScorer,
    Extraction,
    code_scorers,
    layered_scorers,
)
from ropewalk.tasks.scoring.run import outcome_metrics, score_sample
from ropewalk.tasks.scoring.sandbox.box import Box, SandboxFault
from ropewalk.tasks.scoring.sandbox.pool import SandboxPool
from ropewalk.tasks.task import Task
from tests.tasks.samples import sample
from tests.tasks.scoring.sandbox.pools import PATIENT, ROOMY, bubblewrap_pool

PROMPT = Prompt(
    id="p",
    dialogue="Fibonacci",
    info={
        "tests": {
            "public": [
                {"call": "f", "args": [10], "expected": 55},
                {"call": "f", "args": [20], "expected": 6765},
            ],
            "hidden": [
                {"call": "f", "args": [11], "expected": 89},
                {"assert": "assert f(12) == 144"},
            ],
        }
    },
)
GOOD = "def f(n):\n    a, b = 0, 1\n    for _ in range(n): a, b = b, a + b\n    return a\n"
PUBLIC_ONLY = "def f(n): return {9 + 1: 50 + 5, 19 + 1: 6760 + 5}.get(n, 0)\n"
TABLE = "def f(n): return {10: 55, 20: 6765}.get(n, 0)\n"
LOOPS_ON_20 = GOOD + "g = f\ndef f(n):\n    while n == 20: pass\n    return g(n)\n"


def worth(outcome: Outcome) -> float:
    assert isinstance(outcome, Score), outcome
    return outcome.value


def said(code: str) -> Sample:
    return sample(f"So:\n\n```python\n{code}\n```")


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with bubblewrap_pool(2, ROOMY) as made:
        yield made


def all_outcomes(pool: SandboxPool, given: Sample, **options: object) -> dict[str, Outcome]:
    task = Task("t", [PROMPT], layered_scorers(pool, **options))  # type: ignore[arg-type]
    return dict(score_sample(task, PROMPT, given).scores)


def test_layers_of_programs_of_rising_worth(pool: SandboxPool) -> None:
    none = all_outcomes(pool, sample("no code"))
    broken = all_outcomes(pool, said("def f(:"))
    table = all_outcomes(pool, said(TABLE))
    public = all_outcomes(pool, said(PUBLIC_ONLY))
    good = all_outcomes(pool, said(GOOD))
    judged = all_outcomes(pool, said(GOOD), judge=lambda prompt, sample: 0.5)
    assert [found["code"] for found in (none, broken, table)] == [Score(0.0), Score(0.1), Score(0.0)]
    assert worth(public["code"]) == pytest.approx(0.6) and public["code_hidden"] == Score(0.0)
    assert worth(good["code"]) == pytest.approx(0.9) and isinstance(good["code_judge"], Abstain)
    assert worth(judged["code"]) == pytest.approx(0.95) and judged["code_judge"] == Score(0.5)
    assert broken["code_compile"] == Score(0.0) and isinstance(broken["code_public"], Abstain)


def test_a_limit_is_a_wrong_answer_with_a_count_of_its_own() -> None:
    with bubblewrap_pool(2, replace(PATIENT, cpu_seconds=1)) as pool:
        found = all_outcomes(pool, said(LOOPS_ON_20))
    assert found["code_public"] == Score(0.5) and worth(found["code"]) == pytest.approx(0.35)
    assert found["code_timeout"] == Score(0.5) and found["code_raised"] == Score(0.0)
    metrics = outcome_metrics([found])
    assert metrics["score/code_timeout"].value == 0.5 and metrics["score/code/failed"].value == 0.0


def test_the_plain_scorer_gives_all_or_a_share_and_names_a_missing_program(pool: SandboxPool) -> None:
    evaluator = CodeEvaluator(pool)
    whole, share = CodeScorer(evaluator), CodeScorer(evaluator, "share")
    assert (whole(PROMPT, said(GOOD)), share(PROMPT, said(GOOD))) == (Score(1.0), Score(1.0))
    assert (whole(PROMPT, said(PUBLIC_ONLY)), share(PROMPT, said(PUBLIC_ONLY))) == (Score(0.0), Score(0.5))
    assert whole(PROMPT, sample("no code")) == Failed("wrong_format", "no block of code")


def test_a_judge_is_asked_once_and_only_about_what_the_gates_let_through(pool: SandboxPool) -> None:
    asked = []

    def judge(prompt: Prompt, given: Sample) -> float:
        asked.append(given.text)
        return 1.0

    scorers = layered_scorers(pool, judge=judge)
    task = Task("t", [PROMPT], scorers)
    for code in (GOOD, TABLE, PUBLIC_ONLY, "def f(:"):
        score_sample(task, PROMPT, said(code))
    assert asked == [said(GOOD).text]


class CountingPool:
    """A pool that counts, in front of a real one."""

    def __init__(self, pool: SandboxPool, fault: bool = False) -> None:
        self.pool, self.runs, self.fault, self.lock = pool, 0, fault, threading.Lock()

    def run(self, work: Callable[[Box], object]) -> object:
        with self.lock:
            self.runs += 1
        if self.fault:
            raise SandboxFault("no sandbox today")
        return self.pool.run(work)


def test_every_scorer_and_thread_shares_one_run_of_a_completion(pool: SandboxPool) -> None:
    counting = CountingPool(pool)
    task = Task("t", [PROMPT], layered_scorers(counting))  # type: ignore[arg-type]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: score_sample(task, PROMPT, said(GOOD)).scores, range(4)))
    assert counting.runs == 1
    assert all(each == found[0] for each in found)


def test_a_sandbox_that_does_not_work_is_our_fault_and_not_remembered(pool: SandboxPool) -> None:
    counting = CountingPool(pool, fault=True)
    scorers = code_scorers(counting)  # type: ignore[arg-type]
    assert scorers["code"](PROMPT, said(GOOD)) == Failed("crashed", "no sandbox today")
    counting.fault = False
    assert scorers["code"](PROMPT, said(GOOD)) == Score(1.0)


def test_a_test_that_cannot_be_put_to_a_program_is_refused(pool: SandboxPool) -> None:
    prompt = Prompt("q", "?", info={"tests": {"hidden": [{"assert": "assert f(print) is None"}]}})
    assert code_scorers(pool)["code"](prompt, said("def f(x): return x(1)")) == Failed(
        "refused", "an object of type builtin_function_or_method is no plain data"
    )


def test_where_the_program_is(pool: SandboxPool) -> None:
    prompt = Prompt("c", "def f(n):\n", info={"prefix": "def f(n):\n", "prelude": "import math", **PROMPT.info})
    continuation = Extraction("continuation")
    assert continuation.program(prompt, "    return n") == "def f(n):\n    return n"
    assert Extraction().program(prompt, "```\nx\n```") == "import math\nx"
    scorers = code_scorers(pool, credit="share", extraction=continuation)
    body = GOOD.partition("\n")[2]
    assert scorers["code"](prompt, sample(body)) == Score(1.0)


def test_scripts_are_compared_outside(pool: SandboxPool) -> None:
    tests = [{"stdin": "2 3\n", "stdout": "5\n"}, {"stdin": "4 5\n", "stdout": "9\n"}]
    prompt = Prompt("s", "?", info={"tests": {"hidden": [*tests]}})
    scorer = code_scorers(pool, credit="share")["code"]
    assert scorer(prompt, said("print(sum(map(int, input().split())))")) == Score(1.0)
    assert scorer(prompt, said("input()\nprint(5)")) == Score(0.5)
    assert scorer(prompt, said("print(sum(map(int, input().split())))\nraise SystemExit(1)")) == Score(0.0)


def test_what_a_program_printed_and_returned_is_not_kept(pool: SandboxPool) -> None:
    """Fault O2: thousands of evaluations are remembered, each of which may have printed a megabyte a test."""
    loud = "print('x' * 500_000)\ndef f(n): return ['y' * 400_000]\n"
    tests = [{"stdin": "", "stdout": "x" * 500_000}, {"call": "f", "args": [1], "expected": ["y" * 400_000]}]
    asked = Prompt("loud", "?", info={"tests": {"public": tests}})
    found = CodeEvaluator(pool)(asked, said(loud))
    assert found is not None and not isinstance(found, Failed) and found.public is not None
    assert found.public.passed == (True, True)
    assert [(f.status, f.stdout, f.stderr, f.value) for f in found.public.findings] == [("done", "", "", None)] * 2
