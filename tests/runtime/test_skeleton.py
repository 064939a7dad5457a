"""The walking skeleton of the long hall: city GRPO on two processes is city GRPO on one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ropewalk.records.files import read_samples, rollout_file
from ropewalk.runtime.train import train
from tests.runtime.runs import first_batch, parts

SETTINGS: dict[str, Any] = {
    "rollout.prompts": 3,
    "rollout.group_size": 3,
    "stop.iterations": 2,
    "checkpoint.every": 2,
    "record.rollouts": True,
    "hardware.threads": 1,
    "hardware.micro_batch_tokens": 60,
}


def test_city_grpo_on_two_processes(tmp_path: Path, tiny_policy: Path) -> None:
    """Faults A1, J1: dp = 2 through the same `Crew.call`: samples token-equal, the first iteration's gradients equal
    to 1e-6, and the whole command trains, saves and exports."""
    settings = {**SETTINGS, "start_from": str(tiny_policy)}
    gradients, batches = [], []
    for processes in (1, 2):
        own = {**settings, "hardware.processes": processes}
        with parts("city-grpo", own, tmp_path / f"parts-{processes}") as made:
            assert made.crew.size == processes
            assert {plan.layout.dp for plan in made.loop.plan.calls.values()} == {processes}
            experience = first_batch(made)
            batches.append(experience.batch)
            call = made.crew.call("gradients", role="actor", batch=experience.batch, sampling=experience.sampling)
            gradients.append(call.result())
    one, two = batches
    assert np.array_equal(one.tokens_T, two.tokens_T) and np.array_equal(one.segments_S3, two.segments_S3)
    assert np.array_equal(one.row_columns["rewards"], two.row_columns["rewards"])
    assert one.token_columns["advantages"] == pytest.approx(two.token_columns["advantages"], abs=1e-6)
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        largest = float(np.abs(gradient).max())
        assert largest > 0, f"{name} gets no gradient: the test would prove nothing"
        assert float(np.abs(gradient - gradients[1][name]).max()) <= 1e-6 * max(largest, 1e-3), name

    alone, together = (
        train("city-grpo", set={**settings, "hardware.processes": n}, out=tmp_path / f"run-{n}") for n in (1, 2)
    )
    first = [read_samples(rollout_file(run.rollouts, 1)) for run in (alone, together)]
    assert [s.tokens_T.tolist() for s in first[0]] == [s.tokens_T.tolist() for s in first[1]]
    rows = alone.metrics()[0], together.metrics()[0]
    assert rows[0].keys() == rows[1].keys()
    for name, value in rows[0].items():
        if isinstance(value, float) and not name.startswith(("time", "tokens_per_second", "engine/")):
            assert rows[1][name] == pytest.approx(value, rel=1e-3, abs=1e-5), name
    assert (together.model / "model.safetensors").exists() and together.status()["state"] == "finished"
