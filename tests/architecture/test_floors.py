"""The import contracts and the lint bans fire: a planted violation of each is found."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(sys.executable).parent

VIOLATIONS = {
    "floors": ("records", "from ropewalk.plan import graph"),
    "no torch in light packages": ("tasks", "import torch"),
    "the planner is for the cli only": ("runtime", "from ropewalk import planner"),
    "nobody below runtime logs": ("training", "from ropewalk import monitors"),
    "rollout knows no algorithm": ("rollout", "from ropewalk import algorithms"),
    "training knows no task": ("training", "from ropewalk import tasks"),
    "data is read by tasks and from runtime up": ("models", "from ropewalk import data"),
    "plan is arithmetic over records": ("plan", "from ropewalk import config"),
    "tasks and monitors know no plan": ("tasks", "from ropewalk import plan"),
}
"""Contract -> (package to plant in, the line that breaks it)."""


def lint_imports(folder: Path) -> str:
    command = [TOOLS / "lint-imports", "--no-logo", "--no-cache"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"}
    )
    return done.stdout + done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "ropewalk", tmp_path / "ropewalk", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return tmp_path


def test_every_contract_fires(copy: Path) -> None:
    (copy / "ropewalk" / "planner").mkdir(exist_ok=True)
    (copy / "ropewalk" / "planner" / "__init__.py").write_text("")
    for number, (package, line) in enumerate(VIOLATIONS.values()):
        (copy / "ropewalk" / package / f"planted_{number}.py").write_text(line + "\n")
    said = lint_imports(copy)
    silent = [contract for contract in VIOLATIONS if f"{contract} BROKEN" not in said]
    assert not silent, said


def test_every_contract_is_planted_against() -> None:
    names = [line.split("= ")[1] for line in (ROOT / ".importlinter").read_text().splitlines() if line[:5] == "name "]
    assert sorted(names) == sorted(VIOLATIONS)


def test_a_package_without_a_floor_is_refused(copy: Path) -> None:
    (copy / "ropewalk" / "attic").mkdir()
    (copy / "ropewalk" / "attic" / "__init__.py").write_text("")
    assert "attic" in lint_imports(copy)


@pytest.mark.parametrize(
    ("path", "line", "allowed"),
    [
        ("ropewalk/algorithms/x.py", "import torch.distributed as dist", False),
        ("ropewalk/models/x.py", "from torch import distributed", False),
        ("ropewalk/parallel/x.py", "import torch.distributed as dist", True),
        ("ropewalk/runtime/x.py", "import torch.distributed as dist", True),
        ("ropewalk/records/x.py", "import pickle", False),
        ("tests/data/x.py", "from unittest import mock", False),
    ],
)
def test_banned_modules(path: str, line: str, allowed: bool) -> None:
    command = [TOOLS / "ruff", "check", "--no-cache", "--select", "TID251", "--stdin-filename", ROOT / path, "-"]
    done = subprocess.run(command, cwd=ROOT, input=line, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is allowed, done.stdout + done.stderr
