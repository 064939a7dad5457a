"""Before the first update: ratio 1, no KL to the reference, engine and trainer agree; else the run stops."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.metric import Metric
from ropewalk.records.prompt import Json
from ropewalk.runtime.experience import Experience, Source
from ropewalk.runtime.guard import TOLERANCE, ratio_fault, tolerance_of
from ropewalk.runtime.recipe import read_recipe
from ropewalk.runtime.train import train
from tests.fakes import nudge
from tests.runtime.runs import At, first_batch, parts

SMALL: dict[str, Any] = {"rollout.prompts": 4, "stop.iterations": 3, "checkpoint.every": 3, "hardware.threads": 1}


def first_row(recipe: str, settings: Mapping[str, Any], out: Path) -> dict[str, Any]:
    once = {**settings, "stop.iterations": 1, "task.prompts": 16}
    return train(recipe, set=once, out=out).metrics()[0]


@pytest.fixture(scope="module", params=["as it is", "dropout 0.1"])
def policy(request: pytest.FixtureRequest, tiny_policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny policy, and the same one with dropout in its config."""
    if request.param == "as it is":
        return tiny_policy / "model"
    folder = tmp_path_factory.mktemp("dropout") / "model"
    shutil.copytree(tiny_policy / "model", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "attention_dropout": 0.1, "hidden_dropout": 0.1}))
    return folder


@pytest.mark.parametrize("share_prompts", [False, True])
def test_grpo_starts_on_policy(tmp_path: Path, policy: Path, share_prompts: bool) -> None:
    """Faults B3, C2: one step: ratio exactly 1 everywhere, nothing clipped, KL to the reference exactly 0, whatever
    dropout the model's config asks for and however the batch is cut."""
    settings = {**SMALL, "start_from": str(policy), "grpo.epochs": 1, "hardware.micro_batch_tokens": 40}
    row = first_row("city-grpo", {**settings, "rollout.share_prompts": share_prompts}, tmp_path / "run")
    assert (row["policy/ratio_min"], row["policy/ratio_max"], row["policy/clip_fraction"]) == (1, 1, 0)
    assert row["reference_kl_k3"] == pytest.approx(0, abs=1e-12) and row["loss/kl"] == pytest.approx(0, abs=1e-12)
    assert abs(row["kl/token"]) < 1e-6 and row["engine/logprob_gap_max"] < 1e-5


@pytest.mark.parametrize("minibatches", [1, 2])
def test_ppo_starts_on_policy(tmp_path: Path, policy: Path, tiny_reward_model: Path, minibatches: int) -> None:
    """Faults B3, C2, K4: with minibatches the ratio of later ones is taken from log-probs scored before the first,
    which agree with the first step's own."""
    settings = {**SMALL, "start_from": str(policy), "ppo.epochs": 1, "ppo.minibatches": minibatches}
    settings |= {"reward_model": str(tiny_reward_model), "reward.components.reward_model.normalise.samples": 16}
    row = first_row("city-ppo", settings, tmp_path / "run")
    assert abs(row["kl/token"]) < 1e-6 and abs(row["kl/sequence"]) < 1e-5
    assert row["engine/logprob_gap_max"] < 1e-5
    if minibatches == 1:
        assert (row["policy/ratio_min"], row["policy/ratio_max"]) == (1, 1)
        assert "policy/old_logprob_gap_max" not in row
    else:
        assert row["policy/old_logprob_gap_max"] < 1e-5
        assert row["policy/ratio_max"] > 1 > row["policy/ratio_min"], "the second minibatch is off-policy and knows it"


@dataclass(frozen=True)
class Shifted:
    """A source whose engine reports other log-probs than it sampled from."""

    source: Source
    by: float

    def gather(
        self, iteration: int, ledger: Mapping[str, Json], rewards: Mapping[str, Any]
    ) -> tuple[Experience, Mapping[str, Json]]:
        experience, after = self.source.gather(iteration, ledger, rewards)
        column = experience.batch.token_columns["rollout_logprobs"].copy()
        column[int(np.flatnonzero(np.isfinite(column))[3])] += self.by
        batch = experience.batch.with_columns(tokens={"rollout_logprobs": column})
        return replace(experience, batch=batch), after


@pytest.mark.parametrize("shift", [0.01, -0.5, np.inf, np.nan])
def test_an_engine_that_is_off_stops_the_run_before_anything_is_saved(
    tmp_path: Path, tiny_policy: Path, shift: float
) -> None:
    """Fault B3: one token of one sample suffices; the sentence names the metric and the mend."""
    with parts("city-grpo", {**SMALL, "start_from": str(tiny_policy)}, tmp_path / "run") as made:
        loop = replace(made.loop, source=Shifted(made.work.source, shift))
        with pytest.raises(RunStopped, match=r"engine/logprob_gap_max is .* before the first update .*every update"):
            loop.run(made.state)
        assert (tmp_path / "run" / "metrics.jsonl").read_text().count("\n") == 1
        assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize("shift", [0.0, TOLERANCE / 2])
def test_round_off_is_no_fault(tmp_path: Path, tiny_policy: Path, shift: float) -> None:
    with parts("city-grpo", {**SMALL, "start_from": str(tiny_policy)}, tmp_path / "run") as made:
        replace(made.loop, source=Shifted(made.work.source, shift)).run(made.state)


def test_the_first_ratio_is_judged_by_what_was_recorded() -> None:
    """Fault B3: NaN is a fault too; metrics a method does not have are none."""
    assert ratio_fault({}) is None
    assert ratio_fault({"engine/logprob_gap_max": Metric.max(9e-4)}) is None
    fault = ratio_fault({"policy/old_logprob_gap_max": Metric.max(float("nan"))})
    assert fault is not None and "dropout" in fault


def test_low_precision_has_no_such_alarm() -> None:
    """In bf16 round-off on single tokens is larger than a fault need be."""
    start = {"start_from": "x"}
    assert tolerance_of(read_recipe("city-grpo", start)) == TOLERANCE  # type: ignore[arg-type]
    assert tolerance_of(read_recipe("city-grpo", {**start, "precision.dtype": "bf16"})) is None  # type: ignore[arg-type]
    stored = {"start_from": "none", "model": {"kind": "folder", "path": "x", "dtype": "bfloat16"}}
    assert tolerance_of(read_recipe("city-grpo", stored)) is None  # type: ignore[arg-type]


def test_a_bf16_run_trains(tmp_path: Path, tiny_policy: Path) -> None:
    row = first_row("city-grpo", {**SMALL, "start_from": str(tiny_policy), "precision.dtype": "bf16"}, tmp_path / "r")
    assert row["engine/logprob_gap_max"] > 0


def test_a_worker_probes_its_engine(tmp_path: Path, tiny_policy: Path) -> None:
    """Fault H1: weights that changed behind the engine's back are never sampled from."""
    with parts("city-grpo", {**SMALL, "start_from": str(tiny_policy)}, tmp_path / "run") as made:
        worker = made.crew.worker  # type: ignore[attr-defined]
        nudge(worker.roles["actor"].model.network, seed=1)
        with pytest.raises(InputError, match="publish"):
            made.loop.source.gather(0, made.state.ledger)


def test_the_reference_does_not_move(tmp_path: Path, tiny_policy: Path) -> None:
    """Faults C2, C3: after three steps the actor has moved and the reference, a copy of its own, has not."""
    with parts("city-grpo", {**SMALL, "start_from": str(tiny_policy)}, tmp_path / "run") as made:
        fingerprint = {role: made.crew.call("fingerprint", role=role).result() for role in ("actor", "reference")}
        batch = first_batch(made).batch
        made.loop.run(made.state)
        after = {role: made.crew.call("fingerprint", role=role).result() for role in ("actor", "reference")}
        assert after["reference"] == fingerprint["reference"] == made.state.fingerprints["reference"]
        assert after["actor"] != fingerprint["actor"]
        again = made.crew.call(
            "forward",
            role="reference",
            batch=batch,
            outputs=frozenset({"logprobs"}),
            sampling=made.work.source.rollouts.sampling,  # type: ignore[attr-defined]
        ).result()
        assert np.array_equal(again["logprobs"], batch.token_columns["reference_logprobs"])


def test_stored_generation_settings_are_ignored_and_said_so(tmp_path: Path, tiny_policy: Path) -> None:
    """Fault Q1: near-greedy settings in the folder change nothing: the samples differ, and engine and trainer agree."""
    folder = tmp_path / "model"
    shutil.copytree(tiny_policy / "model", folder)
    stored = json.loads((folder / "generation_config.json").read_text())
    stored |= {"top_k": 1, "repetition_penalty": 1.5, "do_sample": True}
    (folder / "generation_config.json").write_text(json.dumps(stored))
    said = At(0, "crash")
    settings = {**SMALL, "rollout.prompts": 8, "stop.iterations": 1}
    runs = [
        train("city-grpo", set={**settings, "start_from": str(start)}, out=tmp_path / name, progress=said)
        for name, start in (("plain", tiny_policy / "model"), ("stored", folder))
    ]
    rows = [run.metrics()[0] for run in runs]
    assert rows[1]["distinct"] == rows[0]["distinct"] > 0.5
    assert float(str(rows[1]["engine/logprob_gap_max"])) < 1e-5
    assert len([line for line in said.said if "top_k" in line]) == 1
