"""Ctrl-C and SIGTERM in the middle: one sentence, the right exit code, and `--resume` finishes the run."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import tomli_w

from ropewalk.runtime.run import Run
from tests.cli.commands import Command, grpo, plain, process
from tests.cli.test_full_disk import whole

ITERATIONS = 40
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


def lines(run: Path) -> int:
    path = run / "metrics.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


def begun(pid: int) -> bool:
    """Whether the command itself runs. Before, Python starts, and a signal ends it however Python likes."""
    return "pydantic_core" in Path(f"/proc/{pid}/maps").read_text()


def interrupted(words: list[str], cwd: Path, number: signal.Signals, when: Callable[[], bool]) -> str:
    """Send a signal to a command's whole group, as a terminal does, once `when` holds; what it said on stderr."""
    with process(*words, cwd=cwd, start_new_session=True) as started:
        while not (begun(started.pid) and when()):
            assert started.poll() is None, started.communicate()
            time.sleep(0.01)
        os.killpg(started.pid, number)
        out, err = started.communicate()
    assert (started.returncode, out) == (CODES[number], ""), err
    return str(err)


def check_resumes(ropewalk: Command, run: Path, iterations: int) -> None:
    whole(run)
    told = ropewalk("train", "--resume", run)
    assert told.code == 0, told
    assert [row["iteration"] for row in Run(run).metrics()] == list(range(1, iterations + 1))
    assert (run / "model" / "model.safetensors").is_file()


def check_said(err: str, number: signal.Signals, run: Path) -> None:
    said = err.splitlines()[-1]
    assert said == f"stopped by {NAMES[number]}; go on with: ropewalk train --resume {run}"
    assert "Traceback" not in err
    assert plain(err)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)], ids=lambda n: n.name
)
def test_a_run_ends_after_its_iteration(
    ropewalk: Command, tiny_policy: Path, tmp_path: Path, number: signal.Signals
) -> None:
    run = tmp_path / "run"
    words = grpo(tiny_policy, run, stop__iterations=ITERATIONS, checkpoint__every=10)
    err = interrupted(words, tmp_path, number, lambda: lines(run) >= 3)
    check_said(err, number, run)
    assert Run(run).status()["state"] == "stopped"
    assert 3 <= lines(run) < ITERATIONS
    assert any((run / "checkpoints").glob("step-*")), "an interrupted run saves what it has"
    check_resumes(ropewalk, run, ITERATIONS)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)], ids=lambda n: n.name
)
def test_a_run_that_is_still_loading_ends_at_once(
    ropewalk: Command, tiny_policy: Path, tmp_path: Path, number: signal.Signals
) -> None:
    run = tmp_path / "run"
    err = interrupted(grpo(tiny_policy, run), tmp_path, number, lambda: (run / "status.json").exists())
    check_said(err, number, run)
    check_resumes(ropewalk, run, 6)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.3, 1.0, 2.0])
def test_nothing_is_made_by_a_command_that_is_ended_early(tmp_path: Path, tiny_policy: Path, seconds: float) -> None:
    end = time.monotonic() + seconds
    err = interrupted(grpo(tiny_policy, tmp_path / "run"), tmp_path, signal.SIGINT, lambda: time.monotonic() > end)
    assert "Traceback" not in err
    assert len(err.splitlines()) <= 1
    assert not (tmp_path / "run").exists() or "--resume" in err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_chain_ends_with_its_running_stages(
    ropewalk: Command, tiny_policy: Path, tmp_path: Path, number: signal.Signals
) -> None:
    values = {"start_from": str(tiny_policy), "stop.iterations": ITERATIONS, "rollout.prompts": 4}
    stages = [{"name": name, "recipe": "city-grpo", "set": {**values, "seed": ord(name)}} for name in "ab"]
    (tmp_path / "chain.toml").write_text(tomli_w.dumps({"method": "stages", "at_once": 2, "stage": stages}))
    chain = tmp_path / "chain"
    err = interrupted(
        ["train", "chain.toml", "--out", str(chain)],
        tmp_path,
        number,
        lambda: min(lines(chain / "a"), lines(chain / "b")) >= 3,
    )
    check_said(err, number, chain)
    told = ropewalk("train", "--resume", chain)
    assert told.code == 0, told
    for name in "ab":
        assert [row["iteration"] for row in Run(chain / name).metrics()] == list(range(1, ITERATIONS + 1))
    assert ropewalk("train", "--resume", chain).out.startswith(f"{chain} is finished")
