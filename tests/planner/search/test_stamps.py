"""Compiled loops are kept on disk and renewed when their own file changes, not when what they were compiled with does:
so each file names the digest of what it takes from another, and has to be changed with it."""

import hashlib
from pathlib import Path

from ropewalk.planner.search import branching, kernels, problem


def digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]


def constants() -> dict[str, float]:
    """Numbers of problem.py, all of which may be compiled into a loop."""
    return {name: value for name, value in sorted(vars(problem).items()) if name.isupper() and not callable(value)}


def test_the_loops_of_the_proof_are_compiled_with_these_kernels() -> None:
    wanted = digest(Path(kernels.__file__).read_bytes())
    assert wanted == branching.KERNELS, f'kernels.py has changed: write KERNELS = "{wanted}" in branching.py'


def test_the_kernels_are_compiled_with_these_constants() -> None:
    assert {"FAR", "SECONDS", "STREAMED", "WIDTH"} <= set(constants())
    wanted = digest(repr(constants()).encode())
    assert wanted == kernels.CONSTANTS, f'constants have changed: write CONSTANTS = "{wanted}" in kernels.py'
