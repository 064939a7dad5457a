"""A working directory of its own for every test, and a tiny policy made once by the command line itself."""

import shutil
from pathlib import Path

import pytest

from ropewalk.cli.app import run
from tests.cli.commands import TINY, Command, settings


@pytest.fixture
def ropewalk(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command line, in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    return Command(capsys)


@pytest.fixture(scope="session")
def tiny_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folder of a policy that knows the city language a little. It is only read."""
    folder = tmp_path_factory.mktemp("tiny") / "policy"
    assert run(["train", "city-pretrain", "--out", str(folder), *settings(TINY)]) == 0
    return folder


@pytest.fixture
def model_copy(tiny_policy: Path, tmp_path: Path) -> Path:
    """The tiny policy's model folder, to be damaged."""
    return Path(shutil.copytree(tiny_policy / "model", tmp_path / "model"))
