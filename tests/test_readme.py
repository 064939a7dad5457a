"""The README's examples run as they stand, the one that trains on the small real model."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"


@pytest.mark.real
@pytest.mark.slow
def test_the_own_reward_of_the_readme_runs(tmp_path: Path, smollm2: Path) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "smollm2-135m").symlink_to(smollm2)
    (tmp_path / "own.py").write_text(source, "utf-8")
    done = subprocess.run(
        [sys.executable, "own.py"], cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "brevity" in done.stdout


def test_the_own_reward_of_the_readme_is_about_fifteen_lines() -> None:
    (source,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert len([line for line in source.splitlines() if line.strip()]) <= 15


def test_the_price_of_the_readme_is_what_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    command, shown = re.findall(
        r"```sh\n(ropewalk cost.*?)\n```\n\n```text\n(.*?)```", README.read_text("utf-8"), re.DOTALL
    )[0]
    program = [sys.executable, "-c", "from ropewalk.cli.main import main; main()"]
    done = subprocess.run([*program, *command.split()[1:]], capture_output=True, text=True, timeout=280, check=True)
    lines = [line for line in shown.splitlines() if line != "..."]
    assert len(lines) > 3
    assert [line for line in done.stdout.splitlines() if line in lines] == lines
