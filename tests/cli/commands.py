"""The command line in this process and in one of its own, and what every failure must look like."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from ropewalk.cli.app import run

TINY = {
    "model.width": 48,
    "model.layers": 1,
    "model.heads": 2,
    "model.kv_heads": 2,
    "model.ffn": 96,
    "data.sentences": 4000,
    "sft.epochs": 2,
    "actor.optimizer.lr": 1e-2,
    "hardware.threads": 1,
}
TINY_GRPO = {"rollout.prompts": 4, "stop.iterations": 6, "checkpoint.every": 2, "hardware.threads": 1}


@dataclass(frozen=True)
class Told:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Command:
    """Runs a command in this process."""

    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: object) -> Told:
        self.capsys.readouterr()
        code = run([str(word) for word in words])
        said = self.capsys.readouterr()
        return Told(code, said.out, said.err)


def settings(values: Mapping[str, object]) -> list[str]:
    """As --set options."""
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def grpo(start: Path, out: Path, **more: object) -> list[str]:
    """Arguments of a tiny GRPO run."""
    values = {"start_from": start, **TINY_GRPO, **{key.replace("__", "."): value for key, value in more.items()}}
    return ["train", "city-grpo", "--out", str(out), *settings(values)]


def failed(told: Told, code: int, *words: str, sentences: int = 1) -> None:
    """One sentence (or as many as problems), all on stderr, naming the thing and the mend; no traceback."""
    assert told.code == code, told
    assert "Traceback" not in told.err, told.err
    assert not told.out, told.out
    lines = told.err.splitlines()
    assert len(lines) == sentences, lines
    for word in words:
        assert word in told.err, (word, told.err)
    assert plain(told.err)


def plain(text: str) -> bool:
    """Nothing in it drives a terminal."""
    return all(c.isprintable() or c == "\n" for c in text)


def process(*words: object, cwd: Path, **options: object) -> "subprocess.Popen[str]":
    """The command in a process of its own; stdout and stderr are pipes."""
    command = [sys.executable, "-m", "ropewalk", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(command, cwd=cwd, text=True, env=environment, **pipes)  # type: ignore[call-overload,no-any-return]
