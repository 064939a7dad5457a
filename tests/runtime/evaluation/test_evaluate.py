"""Before against after: the same prompts and seeds, prompts as the unit, and every refusal in one sentence."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ropewalk.config.load import ConfigError
from ropewalk.data.intervals import bootstrap_mean
from ropewalk.data.passk import pass_at_k
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample, SamplingRecord
from ropewalk.records.score import Failed, Outcome, Score
from ropewalk.records.version import Draw
from ropewalk.runtime.evaluation import policies
from ropewalk.runtime.evaluation.evaluate import evaluate
from ropewalk.runtime.evaluation.findings import Measure, SetFinding, rows
from ropewalk.runtime.evaluation.pairs import pair_finding
from ropewalk.runtime.evaluation.policies import Drawn, compared, task_measures
from ropewalk.runtime.evaluation.suite import read_suite
from ropewalk.runtime.evaluation.tasks import with_reward
from ropewalk.runtime.recipe import GRPORecipe, read_recipe
from ropewalk.runtime.run import Run, open_run
from ropewalk.runtime.train import train
from ropewalk.tasks.task import Task
from tests.runtime.conftest import copy_of

CITY_SUITE = """
[[set]]
name = "city"
task = { kind = "city" }
"""


def grpo_settings(start: Path, **more: Any) -> dict[str, Any]:
    few = {"rollout.prompts": 4, "stop.iterations": 2, "grpo.epochs": 1, "hardware.threads": 1}
    return {"start_from": str(start), **few, **more}


@pytest.fixture(scope="module")
def online(tiny_policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GRPO run of two iterations that evaluated itself after each."""
    every = {"evaluate": {"kind": "every", "iterations": 1, "prompts": 12, "samples": 2}}
    return train(
        "city-grpo", set=grpo_settings(tiny_policy, **every), out=tmp_path_factory.mktemp("online") / "r"
    ).folder


@pytest.fixture(scope="module")
def babbler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that learned nearly nothing."""
    small = {"model.width": 48, "model.layers": 1, "model.heads": 2, "model.kv_heads": 2, "model.ffn": 96}
    settings = {**small, "data.sentences": 20, "sft.epochs": 1, "hardware.threads": 1}
    return train("city-pretrain", set=settings, out=tmp_path_factory.mktemp("babbler") / "r").folder


def suite_file(tmp_path: Path, text: str = CITY_SUITE) -> Path:
    path = tmp_path / "suite.toml"
    path.write_text(text)
    return path


# --- what is measured ------------------------------------------------------------------------------


def test_a_model_against_itself_differs_by_exactly_nothing(online: Path, tmp_path: Path) -> None:
    run = copy_of(online, tmp_path / "r")
    found = evaluate(run, model=run.model, prompts=10, samples=2)
    for measure in found["city"].measures:
        assert measure.before == measure.after
        assert (measure.difference.value, measure.difference.low, measure.difference.high) == (0, 0, 0)
    assert found.fell == []


def test_the_evaluation_after_is_the_last_one_inside_training_on_samples_of_its_own(
    online: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same held-out prompts, same weights, and on the same draw the same numbers: but the best save may be chosen by
    that draw, so another is measured."""
    run = copy_of(online, tmp_path / "r")
    last = run.metrics()[-1]
    assert evaluate(run, prompts=12, samples=2)["city"]["truth"].after.value != last["eval/score/truth"]
    monkeypatch.setattr(policies, "Draw", SimpleNamespace(EVALUATION=Draw.INSIDE_TRAINING))
    found = evaluate(run, prompts=12, samples=2)["city"]
    assert found["truth"].after.value == pytest.approx(last["eval/score/truth"], abs=1e-12)
    assert found["grammatical"].after.value == pytest.approx(last["eval/score/grammatical"], abs=1e-12)
    assert found["pass@1"].after.value == pytest.approx(last["eval/pass_at_1"], abs=1e-12)


def test_evaluating_inside_training_changes_no_weight(tiny_policy: Path, online: Path, tmp_path: Path) -> None:
    without = train("city-grpo", set=grpo_settings(tiny_policy), out=tmp_path / "r")
    weights = [(folder / "model" / "model.safetensors").read_bytes() for folder in (without.folder, online)]
    assert weights[0] == weights[1]


def test_a_set_that_fell_is_named_and_written_down(tiny_policy: Path, babbler: Path, tmp_path: Path) -> None:
    run = copy_of(babbler, tmp_path / "r")
    found = evaluate(run, suite=suite_file(tmp_path), model=tiny_policy, prompts=16, samples=2)
    assert found.fell == ["city"]
    assert found["city"]["grammatical"].fell
    assert found.lines()[-1] == "city fell beyond its interval" and str(found).count("worse") >= 2
    written = json.loads((run.folder / "eval.json").read_text())
    assert written["fell beyond its interval"] == "city" and written["about"]["city"]["holds"] is False
    assert written["sets"]["city"]["truth"]["difference"] == found["city"]["truth"].difference.value
    assert "fell beyond its interval" in run.report_file.read_text()


def test_fresh_weights_have_nothing_before_them(tiny_policy: Path, tmp_path: Path) -> None:
    run = copy_of(tiny_policy, tmp_path / "r")
    found = evaluate(run, suite=suite_file(tmp_path), prompts=4, samples=1)
    assert found.before is None and found["city"]["truth"].difference is None
    assert found.fell == []


def test_a_suite_changes_prompts_samples_and_sampling(tiny_policy: Path, tmp_path: Path) -> None:
    suite = suite_file(
        tmp_path,
        CITY_SUITE + 'prompts = 3\nsamples = 1\nsampling = { temperature = 0 }\n\n[[set]]\nname = "warm"\n'
        'samples = 2\ntask = { kind = "city" }\n\n[[pairs]]\nname = "unused"\npath = "nowhere.jsonl"\n',
    )
    run = copy_of(tiny_policy, tmp_path / "r")
    found = evaluate(run, suite=suite, prompts=5)
    assert found["city"].about == {"prompts": 3, "samples": 1}
    assert found["warm"].about == {"prompts": 5, "samples": 2}
    greedy = evaluate(run, suite=suite, prompts=5)
    assert greedy["city"]["truth"].after == found["city"]["truth"].after


# --- a Task object ---------------------------------------------------------------------------------


def brevity(prompt: Prompt, sample: Sample) -> float | None:
    return None if prompt.dialogue == "[ austin" else 1.0 / sample.completion_tokens


BRIEF = Task(
    name="brief",
    prompts={"train": ["[ austin", "[ boston"], "heldout": [Prompt("a", "[ austin"), Prompt("b", "[ boston")]},
    scorers={"reward": brevity},
    solved=lambda outcome: isinstance(outcome, Score) and outcome.value > 0.2,
)


def test_a_run_carries_its_task_object_and_a_path_does_not(tiny_policy: Path, tmp_path: Path) -> None:
    settings = grpo_settings(tiny_policy, **{"rollout.prompts": 2})
    run = train("city-grpo", task=BRIEF, set=settings, out=tmp_path / "r")
    found = evaluate(run, samples=1)["brief"]
    assert found.about == {"prompts": 2, "samples": 1, "reward abstained": 2}
    assert found["reward"].after.count == 1 and found["pass@1"].after.count == 2
    with pytest.raises(InputError, match=r"Python object: hand it to ropewalk.evaluate"):
        evaluate(run.folder)
    assert evaluate(run.folder, suite=BRIEF, samples=1)["brief"]["reward"].after == found["reward"].after


# --- the arithmetic --------------------------------------------------------------------------------


def said(prompt: str, outcomes: Mapping[str, Outcome], index: int = 0) -> Sample:
    ids = np.arange(3)
    return Sample(
        prompt_id=prompt,
        group_id=prompt,
        index=index,
        seed=0,
        tokens_T=ids,
        policy_mask_T=ids > 0,
        logprobs_T=np.zeros(3, np.float32),
        versions_T=ids,
        finish="stop",
        sampling=SamplingRecord(1.0, 4, (0,)),
        text="",
        scores=outcomes,
    )


def drawn(values: Sequence[Sequence[Outcome]]) -> Drawn:
    """One row of outcomes a prompt, all of one scorer."""
    prompts = [Prompt(str(i), "x") for i in range(len(values))]
    samples = [said(str(i), {"s": outcome}, j) for i, row in enumerate(values) for j, outcome in enumerate(row)]
    return Drawn(prompts, samples, len(values[0]))


TASK = Task(name="t", prompts=["x", "y"], scorers={"s": lambda prompt, sample: 0.0})


def scores(rows: Sequence[Sequence[float]]) -> list[list[Outcome]]:
    return [[Score(float(value)) for value in row] for row in rows]


def test_samples_of_one_prompt_are_one_observation() -> None:
    """Copies of a sample change neither value nor interval."""
    single = task_measures(TASK, None, drawn(scores([[0], [1], [3]])))[0]
    copied = task_measures(TASK, None, drawn(scores([[0] * 4, [1] * 4, [3] * 4])))[0]
    assert single.after == copied.after and single.after.count == 3


def test_pass_at_k_is_the_unbiased_one_over_prompts() -> None:
    passes = [[1, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]]
    found = {m.name: m for m in task_measures(TASK, None, drawn(scores(passes)))}
    assert list(found) == ["s", "pass@1", "pass@2", "pass@4", "pass@6"]
    for k in (1, 2, 4, 6):
        expected = np.mean([pass_at_k(6, sum(row), k) for row in passes])
        assert found[f"pass@{k}"].after.value == pytest.approx(expected)


def test_what_is_no_score_is_left_out_on_both_sides() -> None:
    before = drawn([[Score(1.0)], [Failed("crashed")], [Score(2.0)]])
    after = drawn([[Score(2.0)], [Score(9.0)], [Score(4.0)]])
    found = task_measures(TASK, before, after)[0]
    assert (found.before.value, found.after.value, found.difference.value) == (1.5, 3.0, 1.5)
    assert found.difference.count == 2


def test_a_difference_is_paired_and_drawn_over_prompts() -> None:
    """The paired interval is that of the differences, far inside what two independent intervals would give."""
    generator = np.random.default_rng(0)
    before = generator.normal(size=40)
    after = before + 0.1 + 0.01 * generator.normal(size=40)
    found = compared("m", before, after)
    assert found is not None and found.difference is not None
    assert found.difference == bootstrap_mean(after - before)
    assert found.rose and not found.fell
    assert found.difference.high - found.difference.low < 0.1 * (found.after.high - found.after.low)


def test_lower_is_better_turns_rise_and_fall_round() -> None:
    values = np.linspace(0, 1, 20)
    worse = compared("nll", values, values + 1, higher_is_better=False)
    assert worse is not None and worse.fell and not worse.rose
    assert rows(SetFinding("s", [worse]))[0][-1] == "worse"


def test_one_prompt_decides_nothing() -> None:
    found = compared("m", np.array([0.0]), np.array([1.0]))
    assert found is not None and not found.rose and found.difference is not None and found.difference.high == np.inf


def test_all_solved_is_not_certain() -> None:
    found = compared("pass@1", None, np.ones(20))
    assert found is not None and found.after.value == 1 and 0.8 < found.after.low < 0.9


def test_the_composed_reward_stands_beside_its_parts(tiny_policy: Path) -> None:
    weights = {"truth": {"weight": 2.0}, "grammatical": {"weight": -1.0}}
    recipe = read_recipe("city-grpo", grpo_settings(tiny_policy, **{"reward.components": weights}))
    assert isinstance(recipe, GRPORecipe)
    sample = said("0", {"truth": Score(3.0), "grammatical": Score(1.0)})
    one = Drawn([Prompt("0", "x")], [sample], 1)
    assert with_reward(recipe, TASK, one).samples[0].scores["reward"] == Score(5.0)
    broken = replace(one, samples=[sample.with_scores(truth=Failed("crashed"))])
    assert not isinstance(with_reward(recipe, TASK, broken).samples[0].scores["reward"], Score)


def test_findings_are_plain_finite_json() -> None:
    nothing = Measure("m", compared("m", None, np.array([np.nan, 1.0])).after)  # type: ignore[union-attr]
    assert json.loads(json.dumps(nothing.to_json(), allow_nan=False))["n"] == 1


# --- reward models and texts -----------------------------------------------------------------------


def test_a_reward_model_is_right_as_often_as_its_training_said(
    tiny_policy: Path, tiny_pairs: Path, tmp_path: Path
) -> None:
    settings = {
        "start_from": str(tiny_policy),
        "data.path": str(tiny_pairs / "pairs.jsonl"),
        "data.held_out": 0.3,
        "pairwise.epochs": 1,
        "evaluate": {"kind": "every", "iterations": 1},
        "hardware.threads": 1,
    }
    run = train("city-reward-model", set=settings, out=tmp_path / "r")
    found = evaluate(run)["held-out pairs"]
    last = run.metrics()[-1]
    assert found["pair accuracy"].after.value == pytest.approx(last["eval/pair_accuracy"])
    assert found.about["ties"] == last["eval/pair_ties"] * found.about["pairs"]
    same = evaluate(run, model=run.model, prompts=5)["held-out pairs"]
    assert same["pair accuracy"].difference.value == 0 and same.about["pairs"] == 5
    suite = suite_file(tmp_path, f'[[pairs]]\nname = "all"\npath = "{tiny_pairs / "pairs.jsonl"}"\nlimit = 30\n')
    assert evaluate(run, suite=suite)["all"].about["pairs"] == 30


def test_a_judge_of_length_is_found_out() -> None:
    """Scores that are the length correlate with it by 1, and are of no use at like length."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(5, 200, (60, 2)).astype(float)
    lengths[:20, 1] = lengths[:20, 0]
    found = pair_finding("p", lengths, None, lengths)
    assert found["score ~ length (Pearson)"].after.value == pytest.approx(1)
    assert found["score ~ length (Spearman)"].after.value == pytest.approx(1)
    assert found["margin ~ difference of lengths (Pearson)"].after.value == pytest.approx(1)
    assert found["pair accuracy"].after == found["accuracy of preferring the longer"].after
    assert found.about["ties"] == 20 and found["pair accuracy"].after.count == 40


def test_ties_are_neither_right_nor_wrong() -> None:
    lengths = np.tile([3.0, 9.0], (4, 1))
    found = pair_finding("p", lengths, None, np.array([[1.0, 0.0], [0.0, 0.0], [2.0, 3.0], [5.0, 1.0]]))
    assert found["pair accuracy"].after.value == pytest.approx(2 / 3) and found.about["ties"] == 1


def test_held_out_rows_of_sft_are_those_its_training_read(tiny_policy: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "texts.jsonl"
    words = [(c, n, s) for c in ("austin", "boston") for n in ("music", "parks", "wine") for s in ("winter", "spring")]
    corpus.write_text("".join(json.dumps({"text": f"[ {c} has {n} every {s} ."}) + "\n" for c, n, s in words))
    recipe = tmp_path / "sft.toml"
    recipe.write_text(
        f'method = "sft"\nstart_from = "{tiny_policy}"\ndata = {{ kind = "documents", path = "{corpus}", '
        'held_out = 0.4 }\nevaluate = { kind = "every", iterations = 1 }\nsft = { rows_per_step = 4 }\n'
        "actor = { optimizer = { lr = 1e-3 } }\n"
    )
    run = train(recipe, out=tmp_path / "r")
    found = evaluate(run)["held-out rows"].measures[0]
    assert found.after.value == pytest.approx(run.metrics()[-1]["eval/nll_per_token"], rel=1e-5)
    assert found.rose and found.difference.value < 0
    again = evaluate(
        run, suite=suite_file(tmp_path, f'[[text]]\nname = "all"\ndata = {{kind = "documents", path = "{corpus}"}}')
    )
    assert again["all"].about["rows"] == len(words)


# --- refusals --------------------------------------------------------------------------------------


def test_what_cannot_be_evaluated_is_refused_in_a_sentence(
    tiny_policy: Path, tiny_pairs: Path, tiny_reward_model: Path, tmp_path: Path
) -> None:
    greedy = suite_file(tmp_path, CITY_SUITE + "sampling = { temperature = 0 }")
    cases: list[tuple[Path, dict[str, Any], str]] = [
        (tmp_path / "nowhere", {}, "no run folder"),
        (tiny_policy, {}, "held out no rows"),
        (tiny_pairs, {}, "trained nothing"),
        (tiny_policy, {"suite": greedy}, "temperature 0"),
        (tiny_reward_model, {"samples": 2}, "answers nothing"),
        (tiny_reward_model, {"judge": tiny_reward_model}, "answers nothing"),
        (tiny_reward_model, {"suite": greedy}, r"no \[\[pairs\]\]"),
        (tiny_policy, {"suite": suite_file(tmp_path / "..", CITY_SUITE), "judge": tiny_reward_model}, "two models"),
    ]
    for folder, settings, sentence in cases:
        with pytest.raises(InputError, match=sentence):
            evaluate(folder, **settings)
    assert not (tiny_policy / "eval.json").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("", "names no set"), (2 * CITY_SUITE, "two sets named 'city'"), (CITY_SUITE + "prompt = 3", "prompts")],
)
def test_a_wrong_suite_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises((InputError, ConfigError), match=sentence):
        read_suite(suite_file(tmp_path, text))


def test_a_chain_names_its_stages(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(
        'method = "stages"\n[[stage]]\nname = "one"\nrecipe = "city-pretrain"\n[[stage]]\nname = "two"\nrecipe = "x"\n'
    )
    with pytest.raises(InputError, match="two"):
        evaluate(tmp_path)
    assert open_run(tmp_path) == Run(tmp_path)
