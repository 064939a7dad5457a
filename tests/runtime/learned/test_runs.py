"""Runs against several learned rewards: from labelled steps to a policy, resumed, replayed, evaluated, on two ranks."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ropewalk.records.errors import InputError
from ropewalk.records.files import read_samples, rollout_file
from ropewalk.runtime.evaluation.evaluate import evaluate
from ropewalk.runtime.jobs.export import export
from ropewalk.runtime.jobs.replay import replay
from ropewalk.runtime.look.dryrun import dry_run
from ropewalk.runtime.look.sizes import sizes_of
from ropewalk.runtime.recipe import read_recipe
from ropewalk.runtime.train import train
from tests.runtime.conftest import copy_of
from tests.runtime.learned.conftest import STEP, Rewards
from tests.runtime.runs import At, Crash, differences, lines, resumed, story

SMALL: dict[str, Any] = {
    "rollout.prompts": 4,
    "rollout.group_size": 3,
    "task.prompts": 64,
    "stop.iterations": 2,
    "checkpoint.every": 1,
    "record.samples_every": 1,
    "record.rollouts": True,
    "hardware.threads": 1,
}


def settings(rewards: Rewards, **more: Any) -> dict[str, Any]:
    """GRPO against a process reward model and a rule; the others are measured."""
    weights = {"process": {"weight": 1.0}, "grammatical": {"weight": 0.3}}
    rest = {f"reward.components.{name}": component for name, component in weights.items()}
    return {**SMALL, "start_from": str(rewards.policy), **rewards.sections(), **rest, **more}


@pytest.fixture(scope="module")
def trained(rewards: Rewards, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train("city-grpo", set=settings(rewards), out=tmp_path_factory.mktemp("learned") / "run").folder


def test_from_labelled_steps_to_a_policy_and_resumed_it_is_the_same(
    rewards: Rewards, trained: Path, tmp_path: Path
) -> None:
    """Fault I1, I5: sampled, labelled, learnt, used; a run that was ended in the middle goes on to the same end."""
    with pytest.raises(Crash):
        train("city-grpo", set=settings(rewards), out=tmp_path / "ended", progress=At(2, "crash"))
    assert not differences(story(resumed(tmp_path / "ended")), story(copy_of(trained, tmp_path / "whole")))
    metrics = lines(trained / "metrics.jsonl")
    assert len(metrics) == 2 and all(row["reward/part/process"] is not None for row in metrics)
    assert metrics[0]["loss/policy"] is not None and metrics[1]["grad_norm/actor"] > 0


def test_a_member_that_changed_is_not_resumed_with(rewards: Rewards, tmp_path: Path) -> None:
    """Fault C3: every member is known by its weights."""
    member = tmp_path / "member"
    shutil.copytree(rewards.second / "model", member)
    change = {"reward_models.both.folders": [str(rewards.first), str(member)]}
    with pytest.raises(Crash):
        train("city-grpo", set=settings(rewards, **change), out=tmp_path / "run", progress=At(2, "crash"))
    shutil.rmtree(member)
    shutil.copytree(rewards.process / "model", member)
    with pytest.raises(InputError, match="reward/both/1"):
        resumed(tmp_path / "run")


def test_every_part_of_a_score_is_on_record(trained: Path) -> None:
    rows = lines(trained / "samples.jsonl")
    assert len(rows) == 24
    for row in rows:
        found, scores = row["learned"], row["scores"]
        first, second = found["both"]["members"]
        spread = abs(first - second) / 2
        assert found["both"]["spread"] == pytest.approx(spread, abs=1e-9)
        assert scores["both"] == pytest.approx((first + second) / 2 - 0.5 * spread, abs=1e-9)
        heads = found["wide"]["heads"]
        assert list(heads) == ["help", "safe", "spare"] and heads["safe"] == pytest.approx(-heads["help"], abs=1e-5)
        assert heads["help"] == pytest.approx(first, abs=1e-5), "the first head is the first member's"
        assert scores["wide"] == pytest.approx(heads["help"] + 0.5 * heads["safe"], abs=1e-9)
        values = found["process"]["steps"]
        assert scores["process"] == pytest.approx(float(np.prod(values)), abs=1e-9)
        said = row["completion"].split(STEP)
        assert len(values) <= len(said) and all(0 < value < 1 for value in values)
    metrics = lines(trained / "metrics.jsonl")[0]
    first_rows = [row for row in rows if row["iteration"] == 1]
    spreads = [row["learned"]["both"]["spread"] for row in first_rows]
    assert metrics["score/both/spread"] == pytest.approx(sum(spreads) / len(spreads))
    assert metrics["score/both/spread_max"] == pytest.approx(max(spreads))
    counts = [len(row["learned"]["process"]["steps"]) for row in first_rows]
    assert metrics["score/process/steps"] == pytest.approx(sum(counts) / len(counts))
    assert "time/reward/both/1_seconds" in metrics and "time/reward/process_seconds" in metrics
    frozen = json.loads((trained / "lineage.json").read_text())["frozen"]
    assert {"reward/both/0", "reward/both/1", "reward/wide", "reward/process"} <= set(frozen)


def test_a_replay_reads_the_same_scores_anew(trained: Path, tmp_path: Path) -> None:
    """Learned scores of recorded ids are those of the run, to round-off."""
    again = replay(trained, out=tmp_path / "again").folder
    mine, theirs = lines(again / "metrics.jsonl"), lines(trained / "metrics.jsonl")
    for name in ("score/both/mean", "score/wide/head/spare", "score/process/step_value", "loss/policy"):
        assert [row[name] for row in mine] == pytest.approx([row[name] for row in theirs], abs=1e-5), name


def test_an_evaluation_shows_every_learned_reward(trained: Path, tmp_path: Path, rewards: Rewards) -> None:
    run = copy_of(trained, tmp_path / "run")
    found = evaluate(run.folder, prompts=6, samples=2).sets[0]
    assert {"both", "wide", "process"} <= {measure.name for measure in found.measures}
    for own in (rewards.first, rewards.second, rewards.heads):
        with pytest.raises(InputError, match="cannot be its judge"):
            evaluate(run.folder, judge=own, prompts=2, samples=1)


def test_what_the_models_are_is_checked_before_anything_runs(rewards: Rewards, tmp_path: Path) -> None:
    """Fault N3, Q2: the vocabulary of each member, the names of heads, the names of scorers."""
    other = tmp_path / "other"
    shutil.copytree(rewards.second / "model", other)
    text = (other / "tokenizer.json").read_text()
    (other / "tokenizer.json").write_text(text.replace('"boston"', '"swapped"'))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"reward_models.both.folders": [str(rewards.first), str(other)]}, "reward/both/1 model reads other words"),
        ({"reward_models.wide.read.weights": {"hlep": 1.0}}, "did you mean 'help'"),
        ({"reward_model": str(rewards.heads)}, "3 labels"),
        ({"reward_models.truth.folders": [str(rewards.first)]}, "scorer called 'truth'"),
        ({"reward_models.process.read.step": "|"}, "learnt from steps that ' and' separates"),
        ({"reward_model": str(rewards.process)}, "has no one score"),
        ({"reward_models.both.folders": [str(rewards.first), f"{rewards.first}/model"]}, "both twice"),
        ({"reward_models.gone.folders": [str(tmp_path / "gone")]}, "no run or model folder"),
    ]
    for change, says in cases:
        with pytest.raises(InputError, match=says):
            train("city-grpo", set=settings(rewards, **change), out=tmp_path / "never")
        looked = dry_run(read_recipe("city-grpo", settings(rewards, **change))).problems
        assert looked, "a dry run sees it, too"
        assert not (tmp_path / "never").exists()


def test_a_dry_run_and_the_planner_see_every_member(rewards: Rewards) -> None:
    recipe = read_recipe("city-grpo", settings(rewards))
    found = dry_run(recipe)
    assert found.problems == []
    facts = dict(found.facts)
    assert {"reward/both/0", "reward/both/1", "reward/wide", "reward/process"} <= set(facts)
    assert facts["calls"].count("reward/both/") == 4
    bill = "\n".join(about for what, about in found.facts if what == "memory")
    assert all(
        f"{role} weights" in bill for role in ("reward/both/0", "reward/both/1", "reward/wide", "reward/process")
    )
    shapes = sizes_of(recipe).shapes
    assert (shapes["reward/both/1"].scalar_heads, shapes["reward/wide"].scalar_heads) == (1, 3)
    bad = read_recipe("city-grpo", settings(rewards, **{"reward.components.proces.weight": 1.0}))
    assert any("did you mean 'process'" in problem for problem in dry_run(bad).problems)


@pytest.mark.parametrize("start", ["both/1", "process"])
def test_a_critic_starts_from_a_member_and_initial_means_are_taken(
    rewards: Rewards, tmp_path: Path, start: str
) -> None:
    normalise = {"kind": "initial_mean", "samples": 8}
    more = {
        "reward_model": str(rewards.first),
        "reward.components.reward_model": {"weight": 0.5, "normalise": normalise},
        "reward.components.both": {"normalise": normalise},
        "critic.start": start,
        "rollout.group_size": 1,
        "stop.iterations": 1,
    }
    run = train("city-ppo", set={**settings(rewards), **more}, out=tmp_path / "ppo")
    statistics = run.lineage()["reward_statistics"]
    assert isinstance(statistics, dict) and set(statistics) == {"reward_model", "both"}
    assert run.metrics()[0]["value/mean"] != 0


def test_a_critic_of_several_heads_is_refused(rewards: Rewards, tmp_path: Path) -> None:
    named = {"reward_models.reward_model": rewards.sections()["reward_models.both"]}
    with pytest.raises(InputError, match="one head, and this one has 3"):
        train("city-ppo", set={**settings(rewards), **PPO, **named, "critic.start": "wide"}, out=tmp_path / "ppo")


PPO: dict[str, Any] = {
    "reward_model": "none",
    "reward.components": {"both": {}},
    "rollout.group_size": 1,
    "stop.iterations": 1,
}


@pytest.mark.slow
def test_two_ranks_reward_as_one(rewards: Rewards, trained: Path, tmp_path: Path) -> None:
    """Fault P1: rows, heads and tokens come back to their places from ranks that had other rows."""
    change = {"hardware.processes": 2, "stop.iterations": 1}
    two = train("city-grpo", set=settings(rewards, **change), out=tmp_path / "two").metrics()[0]
    one = lines(trained / "metrics.jsonl")[0]
    compared = [name for name in one if name.startswith(("score/", "reward/", "group/"))]
    assert len(compared) > 20
    for name in compared:
        assert two[name] == pytest.approx(one[name], abs=2e-5), name


def test_shared_prompts_are_rewarded_as_repeated_ones(rewards: Rewards, trained: Path, tmp_path: Path) -> None:
    shared = settings(rewards, **{"rollout.share_prompts": True, "stop.iterations": 1})
    mine = train("city-grpo", set=shared, out=tmp_path / "shared").metrics()[0]
    for name, value in lines(trained / "metrics.jsonl")[0].items():
        if name.startswith(("score/", "reward/")):
            assert mine[name] == pytest.approx(value, abs=2e-5), name


# --- the process reward model ---------------------------------------------------------------------


def test_a_process_reward_model_starts_at_ln_2_learns_and_is_measured(rewards: Rewards, tmp_path: Path) -> None:
    metrics = lines(rewards.process / "metrics.jsonl")
    assert metrics[0]["loss/steps"] == pytest.approx(np.log(2), abs=1e-6)
    assert np.mean([row["loss/steps"] for row in metrics[-5:]]) < metrics[0]["loss/steps"]
    assert any(row.get("eval/step_calibration_error") is not None for row in metrics)
    run = copy_of(rewards.process, tmp_path / "run")
    found = evaluate(run.folder, model=rewards.first).sets[0]
    assert [measure.name for measure in found.measures] == ["step accuracy", "Brier score", "cross-entropy"]
    assert 0 <= float(str(found.about["calibration error"])) <= 1 and found.measures[0].before is not None
    with pytest.raises(InputError, match="steps that its run held out"):
        evaluate(run.folder, samples=2)


def test_an_exported_process_reward_model_rewards_as_the_run(rewards: Rewards, trained: Path, tmp_path: Path) -> None:
    """Fault I6: exported, it is a reward of the same values."""
    folder = export(rewards.process, tmp_path / "exported")
    change = {"reward_models.process.folders": [str(folder)], "stop.iterations": 1}
    mine = train("city-grpo", set=settings(rewards, **change), out=tmp_path / "run").metrics()[0]
    theirs = lines(trained / "metrics.jsonl")[0]
    assert all(mine[name] == theirs[name] for name in theirs if name.startswith("score/process"))


def test_a_process_reward_model_resumes_to_the_same_weights(rewards: Rewards, tmp_path: Path) -> None:
    """Fault I1, I6: over the end of an epoch, head included."""
    recipe = read_recipe(rewards.process / "recipe.toml")
    assert recipe.method == "process_reward_model"
    own = {"checkpoint.every": 2, "process.epochs": 2, "data.limit": 30}
    whole = train(rewards.process / "recipe.toml", set=own, out=tmp_path / "whole")
    with pytest.raises(Crash):
        train(rewards.process / "recipe.toml", set=own, out=tmp_path / "ended", progress=At(5, "crash"))
    assert not differences(story(resumed(tmp_path / "ended")), story(whole))


def test_other_separators_refuse_rows_and_say_why(rewards: Rewards, tmp_path: Path) -> None:
    """Fault A8: a row whose steps are other ones for this separator is no row."""
    change = {"data.step": "the", "data.held_out": 0.0, "evaluate": {"kind": "off"}}
    with pytest.raises(InputError, match=r"no usable row.*2 steps are 3 by the separator 'the'"):
        rows = [{"prompt": "[ boston", "steps": ["has the parks", "the shops"], "labels": [1, 0]}]
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        train(
            rewards.process / "recipe.toml",
            set={**change, "data.path": str(tmp_path / "rows.jsonl")},
            out=tmp_path / "never",
        )


def test_the_recorded_rollouts_hold_every_score(trained: Path) -> None:
    samples = read_samples(rollout_file(trained / "rollouts", 1))
    assert all({"truth", "grammatical", "both", "wide", "process"} == set(sample.scores) for sample in samples)
