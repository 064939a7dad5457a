"""What a run does to the world around it: nothing. No network, no global state, no growing memory."""

import gc
import json
import multiprocessing
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ropewalk.runtime.train import train
from tests.runtime.runs import CASES, PRELOAD, Starts, first_batch, parts, settings_of

# --- the network ----------------------------------------------------------------------------------

OFFLINE = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
NEWUSER, NEWNET = 0x10000000, 0x40000000
alone = any(libc.unshare(flags) == 0 for flags in (NEWNET, NEWUSER | NEWNET))
asked = []
sys.addaudithook(lambda event, given: asked.append([event, repr(given)]) if event.startswith("socket.") else None)
from ropewalk.runtime.train import train
for recipe, settings, out in json.loads(sys.argv[1]):
    train(recipe, set=settings, out=out)
asked = [one for one in asked if one[0] in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname")]
print(json.dumps({"alone": alone, "asked": asked}))
"""


def test_nothing_is_looked_up(tmp_path: Path, tiny_policy: Path) -> None:
    """Pretraining, sampling, a reward model and GRPO in an empty network namespace, with every library at its own
    defaults about the hub: no name is resolved and no connection tried."""
    start = {"start_from": str(tiny_policy), "hardware.threads": 1}
    pairs = str(tmp_path / "pairs" / "pairs.jsonl")
    jobs = [
        ("city-pretrain", {**start, "model": "none", "data.sentences": 60}, str(tmp_path / "sft")),
        ("city-pairs", {**start, "rollout.prompts": 60}, str(tmp_path / "pairs")),
        ("city-reward-model", {**start, "data.path": pairs, "pairwise.epochs": 1}, str(tmp_path / "rm")),
        ("city-grpo", {**start, "rollout.prompts": 2, "stop.iterations": 1}, str(tmp_path / "grpo")),
    ]
    told = {name: value for name, value in os.environ.items() if "OFFLINE" not in name and name != "HF_HOME"}
    home = {**told, "HF_HOME": str(tmp_path / "hub"), "HOME": str(tmp_path)}
    command = [sys.executable, "-c", OFFLINE, json.dumps(jobs)]
    done = subprocess.run(command, env=home, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["asked"] == []
    if not found["alone"]:
        pytest.skip("this system allows no network namespace of one's own; no look-up was seen, but none was prevented")


# --- global state ---------------------------------------------------------------------------------


def global_state() -> dict[str, Any]:
    """Everything global that a library can change behind its user's back."""
    name, keys, position, *_ = np.random.get_state()
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": (name, np.asarray(keys).tobytes(), position),
        "random": random.getstate(),
        "grad": torch.is_grad_enabled(),
        "dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul": torch.get_float32_matmul_precision(),
        "folder": os.getcwd(),
        "environment": dict(os.environ),
    }


@pytest.fixture(scope="module")
def starts(tiny_policy: Path, tiny_pairs: Path, tiny_reward_model: Path) -> Starts:
    return Starts(tiny_policy, tiny_pairs, tiny_reward_model)


@pytest.mark.parametrize("case", CASES)
def test_global_state_modes_and_configs_stay_as_they_were(tmp_path: Path, case: str, starts: Starts) -> None:
    """Faults H6, I5: building every part of a run, and running it, draws from no global generator, changes no
    switch; every network keeps its config and its mode, which is eval."""
    recipe, settings = settings_of(case, starts)
    before = global_state()
    with parts(recipe, settings, tmp_path / "run") as made:
        assert global_state() == before, "building a part changed global state"
        networks = {name: role.model.network for name, role in made.crew.worker.roles.items()}  # type: ignore[attr-defined]
        configs = {name: network.config.to_dict() for name, network in networks.items()}
        first_batch(made)
        made.loop.run(made.state)
        assert {name: network.config.to_dict() for name, network in networks.items()} == configs
        for name, network in networks.items():
            training = [part for part, module in network.named_modules() if module.training]
            assert not training, f"{name} has parts in training mode: {training[:3]}"
            assert all(parameter.grad is None for parameter in network.parameters())
    assert global_state() == before


def test_a_whole_command_leaves_global_state_alone(tmp_path: Path, starts: Starts) -> None:
    """Fault I5: report, exports and locks included."""
    before = global_state()
    recipe, settings = settings_of("ppo", starts)
    train(recipe, set=settings, out=tmp_path / "whole")
    assert global_state() == before


# --- memory ---------------------------------------------------------------------------------------

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


class Gauge:
    """Notes resident memory and the number of live objects at some iterations."""

    def __init__(self, at: tuple[int, ...]) -> None:
        self.at, self.training, self.seen = at, False, dict[int, tuple[int, int]]()

    def begin(self, what: str, total: int, done: int = 0) -> None:
        self.training = what == "training"

    def advance(self, done: int, note: str = "") -> None:
        if self.training and done in self.at:
            gc.collect()
            self.seen[done] = (resident_bytes(), len(gc.get_objects()))

    def say(self, line: str) -> None: ...


def _measure(pipe: Any, settings: Mapping[str, Any], out: str, at: tuple[int, ...]) -> None:
    gauge = Gauge(at)
    train("city-grpo", set=settings, out=out, progress=gauge)
    pipe.send(gauge.seen)


def check_memory(tmp_path: Path, policy: Path, early: int, late: int) -> None:
    settings = {
        "start_from": str(policy),
        "rollout.prompts": 2,
        "stop.iterations": late,
        "checkpoint.every": 5,
        "record.rollouts": True,
        "record.samples_every": 1,
        "evaluate": {"kind": "every", "iterations": 5, "prompts": 2},
        "health.no_variance": "warn",
        "health.zero_gradient": "warn",
        "hardware.threads": 1,
    }
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_measure, args=(theirs, settings, str(tmp_path / "run"), (early, late)))
    child.start()
    theirs.close()
    seen = ours.recv()
    child.join()
    (bytes_early, objects_early), (bytes_late, objects_late) = seen[early], seen[late]
    assert objects_late <= 1.005 * objects_early, f"{objects_early} objects became {objects_late}"
    assert bytes_late <= 1.01 * bytes_early, f"{bytes_early >> 20} MiB became {bytes_late >> 20} MiB"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_flat(tmp_path: Path, tiny_policy: Path) -> None:
    """Fault O2, short: with rollouts, samples, evaluations and saves on."""
    check_memory(tmp_path, tiny_policy, 10, 30)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_flat_over_a_long_run(tmp_path: Path, tiny_policy: Path) -> None:
    """Fault O2: between iterations 50 and 200 less than 1 % more memory."""
    check_memory(tmp_path, tiny_policy, 50, 200)
