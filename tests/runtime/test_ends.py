"""How a run ends: by its rules, by a diagnosis with a name, by a signal."""

import signal
from pathlib import Path
from typing import Any

import pytest

from ropewalk.records.errors import Interrupted, RunStopped
from ropewalk.runtime.run import Run
from ropewalk.runtime.train import train
from tests.runtime.runs import At, Crash, lines

SMALL: dict[str, Any] = {
    "rollout.prompts": 4,
    "stop.iterations": 4,
    "checkpoint.every": 2,
    "hardware.threads": 1,
    "task.prompts": 64,
}


def settings(policy: Path, **more: Any) -> dict[str, Any]:
    return {**SMALL, "start_from": str(policy), **{name.replace("__", "."): value for name, value in more.items()}}


class Told:
    """Progress that remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def begin(self, what: str, total: int, done: int = 0) -> None: ...

    def advance(self, done: int, note: str = "") -> None: ...

    def say(self, line: str) -> None:
        self.said.append(line)


# --- a dead run -----------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", ["city-grpo", "city-ppo"])
def test_a_cap_that_cuts_every_sample_ends_with_a_named_diagnosis(
    tmp_path: Path, tiny_policy: Path, tiny_reward_model: Path, recipe: str
) -> None:
    """Fault Q4: two tokens on a task that needs more: all rewards are equal, and the run says so and why."""
    own = settings(tiny_policy, sampling__max_new_tokens=2, health__window=3, stop__iterations=40)
    if recipe == "city-ppo":
        own |= {"reward_model": str(tiny_reward_model), "reward.components.truth.weight": 1.0}
        own |= {"reward.components.reward_model": {"weight": 0.0, "normalise": {"kind": "raw"}}}
    out = tmp_path / "run"
    with pytest.raises(RunStopped, match=r"for 3 iterations.*: nearly every sample is cut off .*max_new_tokens"):
        train(recipe, set=own, out=out)
    run = Run(out)
    assert len(run.metrics()) == 3
    assert run.status()["state"] == "stopped" and "max_new_tokens" in str(run.status()["reason"])
    assert {row["truncated"] for row in run.metrics()} == {1.0}
    assert any(line["iteration"] == 3 for line in lines(run.samples_file)), "the last samples are there to be read"


def test_a_diagnosis_is_found_at_the_same_iteration_after_a_resume(tmp_path: Path, tiny_policy: Path) -> None:
    """Faults I1, Q4: the window of a rule reaches back over the resume."""
    own = settings(tiny_policy, sampling__max_new_tokens=2, health__window=4, stop__iterations=40)
    with pytest.raises(Crash):
        train("city-grpo", set=own, out=tmp_path / "run", progress=At(3, "crash"))
    with pytest.raises(RunStopped, match="max_new_tokens"):
        train("", resume=tmp_path / "run")
    assert [row["iteration"] for row in Run(tmp_path / "run").metrics()] == [1, 2, 3, 4]


def test_a_diagnosis_at_the_last_iteration_is_said_all_the_same(tmp_path: Path, tiny_policy: Path) -> None:
    own = settings(tiny_policy, sampling__max_new_tokens=2, health__window=4)
    with pytest.raises(RunStopped, match="max_new_tokens"):
        train("city-grpo", set=own, out=tmp_path / "run")
    assert not (tmp_path / "run" / "model").exists()


def test_a_warning_is_said_once_and_the_run_goes_on(tmp_path: Path, tiny_policy: Path) -> None:
    told = Told()
    own = settings(tiny_policy, sampling__max_new_tokens=2, health__window=1)
    own |= {"health.no_variance": "warn", "health.zero_gradient": "warn", "checkpoint.best_by": "no/such"}
    train("city-grpo", set=own, out=tmp_path / "run", progress=told)
    assert len([line for line in told.said if "cut off" in line]) == 1
    assert len([line for line in told.said if "no metric is called no/such" in line]) == 1


# --- stop rules -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "reason", "iterations"),
    [
        ({}, "all 4 iterations are done", 4),
        ({"stop.reward": -3.0}, "the mean reward reached -3", 1),
        (
            {"stop.kl": 1e-3, "actor.optimizer.lr": 1e-2},
            "the KL to the reference exceeded 0.001 nats per sequence",
            None,
        ),
        ({"stop.minutes": 1e-6}, "1e-06 minutes are over", 1),
        ({"stop.reward": 100.0, "stop.kl": 1e6, "stop.minutes": 1e3}, "all 4 iterations are done", 4),
    ],
    ids=["iterations", "reward", "kl", "minutes", "none-holds"],
)
def test_a_run_ends_by_the_first_rule_that_holds(
    tmp_path: Path, tiny_policy: Path, rule: dict[str, Any], reason: str, iterations: int | None
) -> None:
    """A run ended by a rule is finished: model, best, report, and the reason in its status."""
    run = train("city-grpo", set={**settings(tiny_policy), **rule}, out=tmp_path / "run")
    done = len(run.metrics())
    assert done == iterations if iterations is not None else done < 4
    assert run.status() == {"state": "finished", "reason": reason, "iterations": done}
    assert (run.model / "config.json").exists() and (run.best / "config.json").exists() and run.report_file.exists()


@pytest.mark.parametrize("rule", ["stop.reward", "stop.minutes"])
def test_a_rule_that_held_before_a_crash_holds_after_it(tmp_path: Path, tiny_policy: Path, rule: str) -> None:
    """Fault I1: killed between the last save and the end, a resumed run ends, and trains no further iteration."""
    own = {**settings(tiny_policy), rule: -3.0 if rule == "stop.reward" else 1e-6}
    run = train("city-grpo", set=own, out=tmp_path / "run")
    run.write("status.json", {"state": "running"})
    resumed = train("", resume=tmp_path / "run")
    assert resumed.status()["state"] == "finished" and len(resumed.metrics()) == 1


def test_sft_ends_by_its_minutes(tmp_path: Path, tiny_policy: Path) -> None:
    own = {"model": "none", "start_from": str(tiny_policy), "data.sentences": 200, "stop_minutes": 1e-6}
    run = train("city-pretrain", set=own, out=tmp_path / "run")
    assert len(run.metrics()) == 1 and run.status()["reason"] == "1e-06 minutes are over"


# --- signals --------------------------------------------------------------------------------------


class Signals(Told):
    """Sends signals when iteration 3 of a run is written down."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        self.numbers, self.training = numbers, False

    def begin(self, what: str, total: int, done: int = 0) -> None:
        self.training = what == "training"

    def advance(self, done: int, note: str = "") -> None:
        if self.training and done == 3:
            for number in self.numbers:
                signal.raise_signal(number)


@pytest.mark.parametrize(
    ("numbers", "saved"),
    [((signal.SIGTERM,), 3), ((signal.SIGINT,), 3), ((signal.SIGINT, signal.SIGINT), 2)],
    ids=["term", "ctrl-c", "twice"],
)
def test_a_signal_ends_a_run_with_a_save_and_two_end_it_at_once(
    tmp_path: Path, tiny_policy: Path, numbers: tuple[int, ...], saved: int
) -> None:
    out = tmp_path / "run"
    with pytest.raises(Interrupted, match=rf"^stopped by .*; go on with: ropewalk train --resume {out}$"):
        train("city-grpo", set=settings(tiny_policy), out=out, progress=Signals(*numbers))
    assert (out / "checkpoints" / f"step-{saved:08d}" / "manifest.json").exists()
    assert Run(out).status()["state"] == "stopped"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_in_the_last_iteration_lets_the_run_finish(tmp_path: Path, tiny_policy: Path) -> None:
    own = settings(tiny_policy, stop__iterations=3)
    run = train("city-grpo", set=own, out=tmp_path / "run", progress=Signals(signal.SIGTERM))
    assert run.status()["state"] == "finished"
