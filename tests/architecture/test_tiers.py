"""The two tiers: a skip passes in the fast one and fails in the full one, and a pinned seed is the seed used."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PLANTED = """
import pytest

def test_missing_model(smollm2):
    assert False

def test_missing_library():
    pytest.importorskip("no_such_library")

@pytest.mark.xfail(reason="known", strict=True)
def test_known_fault():
    assert False

def test_seed(grid_seed):
    assert grid_seed == 77
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_planted.py").write_text(PLANTED)
    return tmp_path


def run_pytest(suite: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", suite, *options, suite]
    environment = {**os.environ, "ROPEWALK_TEST_SEED": "77", "ROPEWALK_SMOLLM2": str(suite / "absent")}
    done = subprocess.run(command, cwd=suite, capture_output=True, text=True, check=False, env=environment)
    return done.stdout


def test_the_fast_tier_skips_with_a_reason(suite: Path) -> None:
    said = run_pytest(suite, "-rs")
    assert "1 passed, 2 skipped, 1 xfailed" in said
    assert "make smollm2" in said
    assert "ROPEWALK_TEST_SEED=77" in said


def test_the_full_tier_refuses_every_skip(suite: Path) -> None:
    said = run_pytest(suite, "--strict-real")
    assert "1 failed, 1 passed, 1 xfailed, 1 error" in said
    assert "every part must be present" in said


def test_the_full_tier_refuses_a_file_that_skips_itself(suite: Path) -> None:
    (suite / "test_planted.py").write_text('import pytest\npytest.importorskip("no_such_library")\n')
    assert "every part must be present" in run_pytest(suite, "--strict-real")
