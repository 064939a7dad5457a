"""Whatever happens is one sentence and an exit code."""

import ctypes
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from ropewalk.cli import app
from ropewalk.cli.failures import Terminated, failure_of
from ropewalk.config.load import ConfigError
from ropewalk.records.errors import InputError, Interrupted, RunStopped
from tests.cli.commands import Command, failed, process

COMMANDS = (
    "demo",
    "train",
    "sample",
    "score",
    "eval",
    "replay",
    "report",
    "recipes",
    "export",
    "chat",
    "plan",
    "cost",
    "advise",
)


def test_no_arguments_are_a_call_for_help(ropewalk: Command) -> None:
    told = ropewalk()
    assert told.code == 0
    assert all(command in told.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(ropewalk: Command, command: str) -> None:
    told = ropewalk(command, "--help")
    assert told.code == 0
    assert f"ropewalk {command}" in told.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trian"], "'train'"),
        (["train", "x", "--dry-rnu"], "--dry-run"),
        (["sample", "city-pairs"], "ropewalk sample --help"),
        (["eval"], "RUN"),
        (["demo", "--seed", "many"], "'--seed'"),
        (["train", "city-gpro"], "city-grpo"),
        (["recipes", "city-gpro"], "city-grpo"),
        (["train"], "ropewalk recipes"),
        (["train", "--resume", "x", "--overwrite"], "--resume"),
        (["train", "city-grpo", "--overwrite"], "--out"),
    ],
)
def test_wrong_use_names_what_is_near(ropewalk: Command, words: list[str], said: str) -> None:
    failed(ropewalk(*words), 2, said)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("the thing is wrong: mend it"), 2, "the thing is wrong: mend it"),
        (ConfigError(["one", "two"]), 2, "one|two"),
        (RunStopped("the run is dead: lower the rate"), 1, "the run is dead: lower the rate"),
        (Interrupted("stopped; resume", signal.SIGINT), 130, "stopped; resume"),
        (Interrupted("stopped; resume", signal.SIGTERM), 143, "stopped; resume"),
        (KeyboardInterrupt(), 130, "Ctrl-C"),
        (Terminated(), 143, "SIGTERM"),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
        (OSError(28, "No space left on device", "runs/x"), 1, "no room to write runs/x"),
        (PermissionError(13, "Permission denied", "runs/x"), 2, "runs/x cannot be used (Permission denied)"),
        (MemoryError(), 1, "memory ran out"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), 1, "memory ran out"),
        (KeyError("x"), 70, "a fault of ropewalk: KeyError: 'x'; run again with --debug"),
        (RuntimeError("rank 1 failed:\nTraceback (most recent call last)\n  ...\nKeyError: 3"), 70, "KeyError: 3;"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_each_failure_has_its_code_and_sentence(error: BaseException, code: int, said: str) -> None:
    failure = failure_of(error)
    assert failure.code == code
    assert said in "|".join(failure.sentences)
    assert all("\n" not in sentence for sentence in failure.sentences)


@pytest.mark.parametrize("place", ["before", "behind"])
def test_debug_shows_where_an_error_comes_from(ropewalk: Command, place: str) -> None:
    words = ["report", "nowhere"]
    told = ropewalk(*(["--debug", *words] if place == "before" else [*words, "--debug"]))
    assert told.code == 2
    assert "Traceback" in told.err
    assert told.err.splitlines()[-1].startswith("there is no run folder nowhere")


def test_a_reader_who_goes_away_is_no_error(tmp_path: Path) -> None:
    with process("recipes", "city-grpo", cwd=tmp_path) as started:
        started.stdout.close()
        said = started.stderr.read()
    assert (started.returncode, said) == (141, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_a_callback_from_c_drops_is_still_one(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As when loops are compiled: what called back fails later, of something else."""

    def compiling(words: Sequence[str]) -> int:
        ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(number))()
        raise RuntimeError("no compiled object yet")

    monkeypatch.setattr(app, "_invoke", compiling)
    assert app.run(["plan"]) == 128 + number
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("stopped by")
