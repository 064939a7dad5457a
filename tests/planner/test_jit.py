"""Inner loops give the same numbers compiled, uncompiled, and where numba is not installed."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
{before}
import numpy as np
from ropewalk.planner.jit import COMPILED, njit

@njit
def plain(values):
    return values.sum() + 1

@njit(boundscheck=True)
def outer(values):
    return 2 * plain(values)

sys.stdout.write(f"{{COMPILED}} {{outer(np.arange(4))}}")
"""
WITHOUT = {
    "numba absent": "sys.modules['numba'] = None",
    "numba told to stay out": "import os; os.environ['NUMBA_DISABLE_JIT'] = '1'",
}


def run(before: str) -> str:
    # cache=True needs a file to lie beside: a program on the command line has none, so the fallback is seen too
    program = PROGRAM.format(before=before)
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("before", WITHOUT.values(), ids=WITHOUT)
def test_without_a_compiler_functions_run_as_they_stand(before: str) -> None:
    assert run(before) == "False 14"


def test_with_numba_they_are_compiled_even_where_nothing_can_be_kept() -> None:
    pytest.importorskip("numba")
    assert run("") == "True 14"
