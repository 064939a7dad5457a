"""Without a compiler the planner says the same, more slowly."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ropewalk.planner.jit import COMPILED
from ropewalk.planner.search.kernels import DRAWS, Chains, evaluate, scratch, temper
from ropewalk.planner.search.problem import FAR
from ropewalk.planner.search.prove import prove
from ropewalk.planner.search.temper import few_orders
from tests.planner.search.problems import any_problem, plans_in

ROOT = Path(__file__).resolve().parents[3]
SEEDS = range(5)
FAST = (
    "tests/planner/oracle/test_brute.py::test_what_is_proven_is_true_of_odd_call_graphs",
    "tests/planner/search/test_prove.py::test_a_proof_that_is_cut_short_claims_too_little_never_too_much",
    "tests/planner/search/test_symmetry.py::test_a_symmetry_that_does_not_hold_proves_falsehoods",
)


def said() -> str:
    """Proofs, judgements and chains of some problems, to the last bit."""
    lines = []
    for seed in SEEDS:
        problem = any_problem(seed, most_plays=3_000)
        proof = prove(problem, budget_seconds=1e9)
        lines.append(f"{seed} {proof.plan} {proof.period_seconds!r} {proof.bound_seconds!r} {proof.nodes}")
        if proof.plan[0] < 0 or plans_in(problem) < 20:
            continue
        few, rng, room = few_orders(problem), np.random.default_rng(seed), scratch(problem.tables)
        plans = np.array([proof.plan] * 3)
        chains = Chains(
            plans,
            np.full(3, proof.period_seconds),
            np.array([50.0, 10.0, 2.0]) / proof.period_seconds,
            plans.copy(),
            np.full(3, FAR),
            np.zeros(3, dtype=np.int64),
        )
        temper(problem.tables, few, chains, room, rng.random((60, DRAWS)))
        judged = [float(evaluate(problem.tables, problem.orders, plan, room)[0]) for plan in chains.plan]
        lines.append(f"{judged!r} {chains.tally.tolist()}")
    return "\n".join(lines)


def without_compiler(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False, env=environment
    )


@pytest.mark.skipif(not COMPILED, reason="this is the run without a compiler")
def test_it_says_the_same_to_the_last_bit() -> None:
    program = "import sys\nfrom tests.planner.search.test_uncompiled import said\nsys.stdout.write(said())"
    done = without_compiler("-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout == said()


@pytest.mark.skipif(not COMPILED, reason="this is the run without a compiler")
def test_it_passes_some_of_these_tests() -> None:
    done = without_compiler("-m", "pytest", "-q", "-p", "no:cacheprovider", *FAST)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not COMPILED, reason="this is the run without a compiler")
def test_it_passes_all_tests_of_the_planner() -> None:
    # what test_jit says of a present compiler cannot hold where there is none
    which = ("-m", "not slow", "--ignore", "tests/planner/test_jit.py", "tests/planner")
    done = without_compiler("-m", "pytest", "-q", "-p", "no:cacheprovider", *which)
    assert done.returncode == 0, done.stdout
