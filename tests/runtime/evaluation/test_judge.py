"""A reward model as judge: fair to both sides, and never the one that a run was trained to please."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ropewalk.models.chat import supervised_ids
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample, SamplingRecord
from ropewalk.runtime.evaluation.evaluate import evaluate
from ropewalk.runtime.evaluation.judge import check_judge, text_row, win_rate
from ropewalk.runtime.jobs.export import export
from ropewalk.runtime.prepare import language_of
from ropewalk.runtime.recipe import read_recipe
from ropewalk.runtime.roles import FromPolicy
from ropewalk.runtime.run import Run
from ropewalk.runtime.train import train
from tests.runtime.conftest import copy_of


@pytest.fixture(scope="module")
def pleaser(tiny_policy: Path, tiny_reward_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PPO run of one iteration against the tiny reward model."""
    settings: dict[str, Any] = {
        "start_from": str(tiny_policy),
        "reward_model": str(tiny_reward_model),
        "rollout.prompts": 4,
        "stop.iterations": 1,
        "ppo.epochs": 1,
        "hardware.threads": 1,
    }
    return train("city-ppo", set=settings, out=tmp_path_factory.mktemp("pleaser") / "r").folder


@pytest.fixture(scope="module")
def other_judge(tiny_policy: Path, tiny_pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another reward model on the same pairs: other seed, other weights."""
    settings: dict[str, Any] = {
        "start_from": str(tiny_policy),
        "data.path": str(tiny_pairs / "pairs.jsonl"),
        "pairwise.epochs": 1,
        "seed": 5,
        "hardware.threads": 1,
    }
    return train("city-reward-model", set=settings, out=tmp_path_factory.mktemp("judge") / "r").folder


def test_the_own_reward_model_is_refused_wherever_it_lies(
    pleaser: Path, tiny_reward_model: Path, tmp_path: Path
) -> None:
    """By run, by either of its folders, by a copy, and by a copy in bfloat16."""
    shutil.copytree(tiny_reward_model, tmp_path / "run-copy")
    shutil.copytree(tiny_reward_model / "best", tmp_path / "folder-copy")
    export(tiny_reward_model, tmp_path / "half", dtype="bfloat16")
    (tmp_path / "link").symlink_to(tiny_reward_model)
    for judge in (
        tiny_reward_model,
        f"{tiny_reward_model}@best",
        tiny_reward_model / "model",
        tmp_path / "run-copy",
        tmp_path / "folder-copy",
        tmp_path / "half",
        tmp_path / "link",
    ):
        with pytest.raises(InputError, match="cannot be its judge"):
            evaluate(pleaser, judge=judge)


def test_a_copy_is_known_by_the_lineage_when_the_original_is_gone(
    pleaser: Path, tiny_reward_model: Path, tmp_path: Path
) -> None:
    run = copy_of(pleaser, tmp_path / "r")
    gone = tmp_path / "gone"
    recipe = read_recipe(run.recipe_file, {"reward_model": str(gone)})
    shutil.copytree(tiny_reward_model / "model", tmp_path / "copy")
    with pytest.raises(InputError, match="cannot be its judge"):
        check_judge(recipe, run, str(tmp_path / "copy"))  # type: ignore[arg-type]


def test_another_reward_model_judges_and_both_stand_in_the_table(
    pleaser: Path, other_judge: Path, tmp_path: Path
) -> None:
    run = copy_of(pleaser, tmp_path / "r")
    found = evaluate(run, judge=other_judge, prompts=8, samples=2)
    measures = [measure.name for measure in found["city"].measures]
    assert measures == ["truth", "grammatical", "reward_model", "pass@1", "pass@2", "win rate"]
    assert found.judge == str(other_judge / "model")
    assert found["city"]["win rate"].after.count == 8


def test_a_judge_of_one_model_finds_only_ties(pleaser: Path, other_judge: Path, tmp_path: Path) -> None:
    run = copy_of(pleaser, tmp_path / "r")
    found = evaluate(run, judge=other_judge, model=run.model, prompts=6, samples=2)["city"]
    assert found["win rate"].after.value == 0.5 and found.about["judge's ties"] == 12


def test_the_own_reward_model_gone_leaves_its_scores_out(pleaser: Path, tmp_path: Path) -> None:
    run = copy_of(pleaser, tmp_path / "r")
    text = run.recipe_file.read_text()
    recipe = read_recipe(run.recipe_file)
    run.recipe_file.write_text(text.replace(str(recipe.reward_model), "nowhere"))  # type: ignore[union-attr]
    found = evaluate(run, prompts=4, samples=1)["city"]
    assert "reward_model" not in [measure.name for measure in found.measures]


def test_the_win_rate_is_fair_to_both_sides() -> None:
    """Swapping the sides gives one minus the rate; a tie is half a win; prompts are the observations."""
    generator = np.random.default_rng(1)
    first, second = generator.integers(0, 5, (2, 60)).astype(float)
    (rate, ties), (other, _) = win_rate(first, second, 3), win_rate(second, first, 3)
    assert rate.after.value + other.after.value == pytest.approx(1) and ties == (first == second).sum()
    expected = (second > first).mean() + (second == first).mean() / 2
    assert rate.after.value == pytest.approx(expected) and rate.after.count == 20


def test_text_is_read_again_as_the_policy_said_it(tiny_policy: Path) -> None:
    """For a judge of the same words the two ways of reading agree; a cut answer gets no end."""
    language = language_of(FromPolicy(str(Run(tiny_policy).model)))
    ids, mask = supervised_ids(language.tokenizer, "[ austin", "has music .", language.eos_ids)
    tokens = np.array(ids)
    sample = Sample(
        prompt_id="p",
        group_id="p",
        index=0,
        seed=0,
        tokens_T=tokens,
        policy_mask_T=np.array(mask),
        logprobs_T=np.zeros(len(ids), np.float32),
        versions_T=np.zeros(len(ids), np.int64),
        finish="stop",
        sampling=SamplingRecord(1.0, 9, language.eos_ids),
        text="has music",
    )
    prompt = Prompt("p", "[ austin")
    assert np.array_equal(text_row(language, prompt.dialogue, sample)[0], tokens)
    cut = Sample(**{**{name: getattr(sample, name) for name in sample.__slots__}, "finish": "length"})
    assert np.array_equal(text_row(language, prompt.dialogue, cut)[0], tokens[:-1])
