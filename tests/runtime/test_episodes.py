"""Episodes through the whole line: drawn on every host, scored, trained on by GRPO and PPO, sampled into a file."""

import json
import os
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ropewalk.monitors.timeline import read_timeline
from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.files import read_samples, rollout_files
from ropewalk.records.prompt import Message, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.version import Draw
from ropewalk.rollout.config import Episode, NativeEngineConfig, Sampling
from ropewalk.runtime.config import Hardware
from ropewalk.runtime.evaluation.evaluate import evaluate
from ropewalk.runtime.experience import Experience
from ropewalk.runtime.jobs.sample import sample
from ropewalk.runtime.jobs.score_file import score_file
from ropewalk.runtime.look.dryrun import dry_run
from ropewalk.runtime.look.look import Look
from ropewalk.runtime.look.sizes import sizes_of
from ropewalk.runtime.progress import Silent
from ropewalk.runtime.recipe import read_recipe
from ropewalk.runtime.rewards import rollout_metrics
from ropewalk.runtime.run import Run
from ropewalk.runtime.sampler import Asking, open_sampler
from ropewalk.runtime.train import run_recipe, train
from ropewalk.tasks.environments.calculator import calculator
from ropewalk.tasks.environments.number_guess import NumberGuess
from ropewalk.tasks.environments.protocol import EnvironmentFactory, Response, Turn
from ropewalk.tasks.environments.reward import EpisodeReward
from ropewalk.tasks.environments.tool_use import ToolEnvironment
from ropewalk.tasks.task import Task
from ropewalk.training.packing import pack_samples
from tests.fakes import tiny_llama
from tests.models.folders import policy_folder
from tests.runtime.runs import Parts, first_batch, parts
from tests.threads import threads_left

WORLD = """
from ropewalk.records.prompt import Message, Prompt
from ropewalk.tasks.environments.number_guess import NumberGuess
from ropewalk.tasks.task import Task

def reward(prompt, sample):
    return sample.info["episode"]["reward"] + sum(letter.isascii() for letter in sample.text) / 10

prompts = [Prompt(f"g{n}", (Message("user", "Guess!"),), gold=n) for n in range(1, 9)]
TASK = Task("guess", prompts, {"reward": reward}, environment=NumberGuess)
"""
RECIPE = """
method = "grpo"
[task]
kind = "file"
path = "@task"
[model]
kind = "folder"
path = "@model"
[rollout]
prompts = 3
group_size = 4
[sampling]
max_new_tokens = 6
episode = { turns = 3, cut_turns = "go_on" }
[stop]
iterations = 2
[checkpoint]
every = 2
[actor.optimizer]
lr = 1e-3
[hardware]
threads = 1
[record]
rollouts = true
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny chat model of random weights, a task of number guesses, and a recipe over both."""
    folder = tmp_path_factory.mktemp("episodes")
    model = policy_folder(folder, tiny_llama(1, max_positions=256))
    (folder / "task.py").write_text(WORLD)
    recipe = RECIPE.replace("@task", str(folder / "task.py")).replace("@model", str(model))
    (folder / "recipe.toml").write_text(recipe)
    return folder


def made(place: Path, **changes: Any) -> Any:
    return parts(str(place / "recipe.toml"), {key.replace("__", "."): v for key, v in changes.items()}, place / "x")


def told(sample: Sample) -> Mapping[str, Any]:
    found = sample.info["episode"]
    assert isinstance(found, dict)
    return found


def drawn(run: Parts) -> list[Sample]:
    return list(first_batch(run).samples)


@pytest.fixture(scope="module")
def batch(place: Path) -> Experience:
    with made(place) as run:
        return first_batch(run)


def test_episodes_are_equal_on_one_process_and_on_two(place: Path, batch: Experience) -> None:
    """Faults A1, B6: tokens, masks, what the world said and the scores; whoever scores, however many."""
    with made(place, hardware__processes=2, rollout__scorers=1) as run:
        others = drawn(run)
    assert len(others) == len(batch.samples) == 12
    for mine, theirs in zip(batch.samples, others, strict=True):
        assert mine.tokens_T.tolist() == theirs.tokens_T.tolist()
        assert mine.policy_mask_T.tolist() == theirs.policy_mask_T.tolist()
        assert (mine.info, mine.scores, mine.finish) == (theirs.info, theirs.scores, theirs.finish)
        assert mine.logprobs_T == pytest.approx(theirs.logprobs_T, abs=1e-5, nan_ok=True)
    assert {told(s)["turns"] for s in batch.samples} == {3}, "they go over several turns"
    found = {name: metric.value for name, metric in rollout_metrics(list(batch.samples)).items()}
    assert found["episode/turns"] == 3 and found["episode/ended_turns"] == 1 and found["truncated"] == 0
    assert sum(value for name, value in found.items() if name.startswith("episode/ended")) == 1


def test_the_trainer_gives_sampled_tokens_the_log_probs_they_were_sampled_with(place: Path, batch: Experience) -> None:
    """Faults A1, K3, F6: over all turns, with the groups' openings stored once and not."""
    for shared in (False, True):
        packed = pack_samples(batch.samples, share_prompts=shared)
        with made(place) as run:
            outputs = frozenset({"logprobs"})
            call = run.crew.call("forward", role="actor", batch=packed, outputs=outputs, sampling=batch.sampling)
            found = call.result()["logprobs"]
        policy = packed.token_columns["policy_mask"].astype(bool)
        assert np.abs(found - packed.token_columns["rollout_logprobs"])[policy].max() < 1e-4
        assert policy.sum() == sum(sample.completion_tokens for sample in batch.samples)
    assert packed.tokens < sum(len(sample.tokens_T) for sample in batch.samples)


def gradients(run: Parts, batch: Any, sampling: Any) -> Mapping[str, np.ndarray]:
    found: Mapping[str, np.ndarray] = run.crew.call("gradients", role="actor", batch=batch, sampling=sampling).result()
    return found


def test_what_the_world_said_trains_nothing(place: Path, batch: Experience) -> None:
    """Faults F4 and A2: NaN, or anything, in every column at those tokens changes no gradient; openings that are
    stored once change none either."""
    columns = batch.batch.token_columns
    read = ~columns["policy_mask"].astype(bool)
    floats = [name for name, column in columns.items() if np.issubdtype(column.dtype, np.floating)]
    assert {"advantages", "rollout_logprobs"} <= set(floats)
    with made(place) as run:
        expected = gradients(run, batch.batch, batch.sampling)
        for noise in (np.nan, 1e6):
            noisy = {name: np.where(read, np.float32(noise), columns[name]).astype(np.float32) for name in floats}
            found = gradients(run, batch.batch.with_columns(tokens=noisy), batch.sampling)
            for name, gradient in expected.items():
                assert np.array_equal(found[name], gradient), name
        assert any(np.abs(gradient).max() > 0 for gradient in expected.values())
    with made(place, rollout__share_prompts=True) as run:
        again = first_batch(run)
        assert again.batch.tokens < batch.batch.tokens
        shared = gradients(run, again.batch, again.sampling)
    for name, gradient in expected.items():
        assert np.abs(shared[name] - gradient).max() <= 1e-5 * max(float(np.abs(gradient).max()), 1e-3), name


def rollouts_of(run: Path) -> list[list[Sample]]:
    return [read_samples(path) for _, path in rollout_files(run / "rollouts")]


def metrics_of(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_grpo_trains_on_episodes_alike_on_one_process_and_on_two(place: Path, tmp_path: Path) -> None:
    """Fault A1: two iterations; what is sampled after an update is the same, and so are the losses."""
    runs = []
    for processes in (1, 2):
        out = tmp_path / str(processes)
        train(place / "recipe.toml", set={"hardware.processes": processes}, out=out)
        runs.append((metrics_of(out), rollouts_of(out)))
    (one, one_said), (two, two_said) = runs
    for first, second in zip(one_said, two_said, strict=True):
        assert [s.tokens_T.tolist() for s in first] == [s.tokens_T.tolist() for s in second]
    for first_row, second_row in zip(one, two, strict=True):
        names = [name for name in first_row if name.startswith(("loss", "reward", "score", "ratio"))]
        assert names
        for name in names:
            assert first_row[name] == pytest.approx(second_row[name], rel=1e-3, abs=1e-5), name


def test_ppo_trains_on_episodes(place: Path, tmp_path: Path) -> None:
    """A critic's values and advantages run over the policy's tokens of all turns."""
    text = (place / "recipe.toml").read_text().replace('method = "grpo"', 'method = "ppo"')
    (tmp_path / "ppo.toml").write_text(text)
    run = train(tmp_path / "ppo.toml", out=tmp_path / "run")
    rows = metrics_of(run.folder)
    assert len(rows) == 2 and all(np.isfinite(row["loss/policy"]) for row in rows)


SLOW = """
import time
from ropewalk.records.prompt import Message, Prompt
from ropewalk.tasks.task import Task

def slow(prompt, sample):
    time.sleep(0.02)
    return float(len(sample.text))

TASK = Task("slow", [Prompt(f"p{n}", (Message("user", "Hi"),)) for n in range(12)], {"reward": slow})
"""


def test_scoring_overlaps_generation_and_shows_in_the_timeline(place: Path, tmp_path: Path) -> None:
    """Spans of scoring, in lanes of their own, begin before the generation that feeds them has ended."""
    (tmp_path / "task.py").write_text(SLOW)
    recipe = (place / "recipe.toml").read_text().replace('episode = { turns = 3, cut_turns = "go_on" }\n', "")
    (tmp_path / "slow.toml").write_text(recipe)
    settings = {"task.path": str(tmp_path / "task.py"), "rollout.prompts": 8, "engine.slots": 4, "rollout.scorers": 2}
    run = train(tmp_path / "slow.toml", set=settings, out=tmp_path / "run")
    spans, _ = read_timeline(run.timeline_file)
    generation = [span for span in spans if span.name == "generate"]
    scoring = [span for span in spans if span.name == "score"]
    assert len(generation) == 2 and {span.lane for span in generation} == {"actor"}
    assert {span.lane for span in scoring} == {"scorers/0", "scorers/1"}
    for made_of in generation:
        began = [s for s in scoring if made_of.start_seconds < s.start_seconds < made_of.end_seconds]
        assert began, "scoring waits for the end of generation"
    gathered = [span for span in spans if span.name == "gather"]
    for whole, part in zip(gathered, generation, strict=True):
        assert whole.start_seconds <= part.start_seconds <= part.end_seconds <= whole.end_seconds


FLAKY = WORLD.replace("environment=NumberGuess", "environment=Flaky").replace(
    "def reward",
    """
class Flaky(NumberGuess):
    def reset(self, prompt):
        if prompt.id in {"g1", "g2"} and ALL or prompt.id == "g3" or ALL == "all":
            raise OSError("the database is gone")
        return super().reset(prompt)

def reward""",
)


def test_lost_episodes_are_counted_and_the_run_goes_on(place: Path, tmp_path: Path) -> None:
    """Fault G12: what failed is left out and counted; if nearly all fail the run stops with the world's sentence."""
    (tmp_path / "task.py").write_text(FLAKY.replace("ALL ==", "'' ==").replace("ALL", "''"))
    settings = {"task.path": str(tmp_path / "task.py"), "rollout.prompts": 7}
    run = train(place / "recipe.toml", set=settings, out=tmp_path / "run")
    rows = metrics_of(run.folder)
    assert [len(samples) for samples in rollouts_of(run.folder)] == [24, 24]
    assert all(row["rollout/lost"] == pytest.approx(4 / 28) for row in rows)
    (tmp_path / "all.py").write_text(FLAKY.replace("ALL ==", "'all' ==").replace("ALL", "'all'"))
    with pytest.raises(RunStopped) as caught:
        train(place / "recipe.toml", set=settings | {"task.path": str(tmp_path / "all.py")}, out=tmp_path / "stopped")
    assert str(caught.value) == (
        "28 of 28 episodes failed, 28 times with OSError: the database is gone: mend the environment, then resume"
    )


def test_one_bad_prompt_drawn_later_does_not_stop_the_run(place: Path) -> None:
    """Fault G12: a further round of an iteration may be one prompt; if its world is at fault, it is lost, no more."""

    class Broken(NumberGuess):
        def reset(self, prompt: Prompt) -> Any:
            raise OSError("no such row")

    with made(place) as run:
        source: Any = run.work.source
        broken = replace(source.rollouts, task=replace(source.rollouts.task, environment=Broken))
        asked = list(zip(source.prompts.prompts, source.prompts.ids, strict=True))
        lost = broken.draw(asked[:1], group_size=4, iteration=0, earlier=[asked[1][0].id])
        assert [s.finish for s in lost] == ["failed"] * 4
        for several, earlier in ((asked[:1], []), (asked[:2], [asked[2][0].id])):
            with pytest.raises(RunStopped, match="OSError: no such row: mend the environment, then resume"):
                broken.draw(several, group_size=4, iteration=0, earlier=earlier)


def test_a_scorers_sentence_surfaces_once_and_ends_all(place: Path, tmp_path: Path) -> None:
    """Fault G4: raised in a thread of the pool while episodes are open; no thread is left."""

    def broken(_: Any, __: Sample) -> float:
        raise InputError("the answer key is missing: give one")

    found: dict[str, Any] = {}
    exec(compile(WORLD, "task.py", "exec"), found)  # noqa: S102
    task: Task = replace(found["TASK"], scorers={"reward": broken})
    settings = {"method": "grpo", "rollout.prompts": 6}
    started = time.monotonic()
    with pytest.raises(InputError, match=r"^scorer 'reward' on sample g\d/\d: the answer key is missing: give one$"):
        train(place / "recipe.toml", task=task, set=settings, out=tmp_path / "run")
    assert time.monotonic() - started < 60
    assert not threads_left("ropewalk-episode", "ropewalk-scorer")


def test_a_model_without_a_chat_template_is_refused(place: Path, tiny_policy: Path, tmp_path: Path) -> None:
    settings = {"model": "none", "start_from": str(tiny_policy)}
    with pytest.raises(InputError, match="no chat template"):
        train(place / "recipe.toml", set=settings, out=tmp_path / "run")


def test_sample_writes_episodes(place: Path, tmp_path: Path) -> None:
    """The conversation stands in the file; the seeds are those of the job, and evaluation draws in the same way."""
    out = tmp_path / "samples.jsonl"
    samples = sample(place / "recipe.toml", out=out, set={"rollout.prompts": 2})
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == len(samples) == 8
    for row, drawn_sample in zip(rows, samples, strict=True):
        assert row["episode"] == drawn_sample.info["episode"]
        assert row["episode"]["messages"][0] == {"role": "user", "content": "Guess!"}
        assert row["completion"] == row["episode"]["messages"][-1]["content"]
    again = sample(place / "recipe.toml", out=tmp_path / "again.jsonl", set={"rollout.prompts": 2})
    assert [s.tokens_T.tolist() for s in again] == [s.tokens_T.tolist() for s in samples]


def test_a_file_of_episodes_is_scored_offline_by_the_same_code(place: Path, tmp_path: Path) -> None:
    samples = sample(place / "recipe.toml", out=tmp_path / "samples.jsonl", set={"rollout.prompts": 2})
    found = score_file(str(place / "recipe.toml"), tmp_path / "samples.jsonl")
    assert [line.sample.scores for line in found.lines] == [s.scores for s in samples]


def test_a_rank_that_dies_among_episodes_ends_them(place: Path) -> None:
    """Fault J3: one sentence, every world closed, no thread left."""
    with made(place, hardware__processes=2) as run:
        rollouts: Any = run.work.source.rollouts  # type: ignore[attr-defined]
        ranks = [process.pid for process in run.crew._processes]  # type: ignore[attr-defined]
        closed: list[int] = []

        class Deadly(NumberGuess):
            def respond(self, turn: Turn) -> Response:
                os.kill(ranks[1], signal.SIGKILL)
                return super().respond(turn)

            def close(self) -> None:
                closed.append(1)

        deadly = replace(rollouts, task=replace(rollouts.task, environment=Deadly))
        asked = list(zip(run.work.source.prompts.prompts, run.work.source.prompts.ids, strict=True))  # type: ignore[attr-defined]
        with pytest.raises(RunStopped, match="rank 1 ended with exit code -9"):
            deadly.draw(asked, group_size=4, iteration=0)
        assert len(closed) == 4 * len(asked)
    assert not threads_left("ropewalk-episode", "ropewalk-scorer")


@pytest.mark.slow
@pytest.mark.real
def test_a_real_model_plays_by_its_own_template(smollm2: Path, tmp_path: Path) -> None:
    """Faults A1, F4 and F6: SmolLM2's template, whose turns end with a newline that nobody says; trainer and engine
    agree on every turn; tools that the template does not know are declared in its system message."""
    guess = [Prompt(f"g{n}", (Message("user", "Guess a number from 1 to 9. Say only it."),), gold=n) for n in (3, 7)]
    asked = [Prompt("c", (Message("user", "What is 12 * 34? Use the calculator."),))]
    worlds: dict[str, tuple[list[Prompt], EnvironmentFactory]] = {
        "guess": (guess, NumberGuess),
        "calculate": (asked, lambda: ToolEnvironment([calculator()])),
    }
    sampling = Sampling(max_new_tokens=24, episode=Episode(turns=2, cut_turns="go_on"))
    for name, (prompts, world) in worlds.items():
        task = Task(name, {"train": prompts}, {"reward": EpisodeReward()}, environment=world)
        asking = Asking(task, "train", sampling, Hardware(threads=1), NativeEngineConfig(), 0)
        with open_sampler(str(smollm2), asking, Silent()) as sampler:
            samples = sampler.samples(range(len(prompts)), group_size=2, draw=Draw.SAMPLING)
            packed = pack_samples(samples, share_prompts=True)
            outputs = frozenset({"logprobs"})
            call = sampler.rollouts.crew.call(
                "forward", role="actor", batch=packed, outputs=outputs, sampling=samples[0].sampling
            )
            gap = np.abs(call.result()["logprobs"] - packed.token_columns["rollout_logprobs"])
            text = sampler.language.tokenizer.decode(samples[0].tokens_T)
        assert gap[packed.token_columns["policy_mask"].astype(bool)].max() < 1e-3
        if name == "guess":
            assert re.search(
                r"<\|im_end\|>\n<\|im_start\|>user\n\w[\w ]*\.<\|im_end\|>\n<\|im_start\|>assistant\n", text
            )
        else:
            assert text.startswith("<|im_start|>system\nYou may call functions.") and '"calculator"' in text


def test_replay_trains_on_recorded_episodes_as_the_run_did(place: Path, tmp_path: Path) -> None:
    """Fault A1: from the recorded arrays alone, without a world; the first update is the same."""
    run = train(place / "recipe.toml", out=tmp_path / "run")
    replayed = run_recipe(read_recipe(run.recipe_file), Run(tmp_path / "again"), replay_of=run)
    one, two = metrics_of(run.folder)[0], metrics_of(replayed.folder)[0]
    names = [name for name in one if name.startswith(("loss", "reward", "grad_norm"))]
    assert names and [one[name] for name in names] == pytest.approx([two[name] for name in names], rel=1e-5, abs=1e-7)


def test_a_resumed_run_plays_the_same_episodes(place: Path, tmp_path: Path) -> None:
    """Fault I1: two iterations in two sessions are those of one."""
    whole = train(place / "recipe.toml", set={"checkpoint.every": 1}, out=tmp_path / "whole")
    halved = train(place / "recipe.toml", set={"checkpoint.every": 1, "stop.minutes": 1e-9}, out=tmp_path / "halved")
    assert len(metrics_of(halved.folder)) == 1
    recipe = halved.recipe_file.read_text().replace("minutes = 1e-09", "minutes = 60.0")
    halved.recipe_file.write_text(recipe)
    halved.write("status.json", {"state": "stopped"})
    resumed = train(halved.recipe_file, resume=halved.folder)
    first, second = rollouts_of(whole.folder), rollouts_of(resumed.folder)
    assert [[s.tokens_T.tolist() for s in part] for part in first] == [
        [s.tokens_T.tolist() for s in part] for part in second
    ]


def test_evaluation_plays_episodes(place: Path, tmp_path: Path) -> None:
    """Inside training and after it."""
    settings = {"evaluate": {"kind": "every", "iterations": 1}, "stop.iterations": 1}
    run = train(place / "recipe.toml", set=settings, out=tmp_path / "run")
    assert metrics_of(run.folder)[0]["eval/score/reward"] >= 0
    found = evaluate(run.folder, samples=2)
    assert found.sets[0].measures[0].name == "reward"


def test_a_dry_run_opens_the_episodes_of_the_longest_prompts(place: Path, tmp_path: Path) -> None:
    """What the world says before the policy speaks counts; a world that cannot open one is a problem, told once."""

    def look(world: str, **settings: Any) -> Look:
        (tmp_path / "task.py").write_text(WORLD.replace("environment=NumberGuess", f"environment={world}"))
        return dry_run(read_recipe(place / "recipe.toml", {"task.path": str(tmp_path / "task.py"), **settings}))

    found = look("NumberGuess")
    assert found.problems == []
    assert ("episodes", "at most 3 turns of 6 tokens, 600 seconds; 64 at the same time") in found.facts
    (problem,) = look("lambda: NumberGuess(system='s' * 300)").problems
    assert problem.startswith("all 7 prompts have more than the 250 tokens")
    (problem,) = look("lambda: 1 / 0").problems
    assert "the environment does not open prompt 'g" in problem and "ZeroDivisionError: division by zero" in problem
    (problem,) = look("None").problems
    assert problem.startswith("sampling.episode says how episodes are played, and task 'guess' has no environment")


def test_a_dry_run_wants_a_chat_template_for_episodes(place: Path, tiny_policy: Path) -> None:
    found = dry_run(read_recipe(place / "recipe.toml", {"model": "none", "start_from": str(tiny_policy)}))
    assert any("no chat template, and episodes are played in messages" in problem for problem in found.problems)


def test_settings_of_episodes_without_episodes_are_refused(tiny_policy: Path, tmp_path: Path) -> None:
    """Fault Q3: no option without effect."""
    settings = {"start_from": str(tiny_policy), "sampling.episode.turns": 3}
    with pytest.raises(InputError, match="task 'city' has no environment: leave it out"):
        train("city-grpo", set=settings, out=tmp_path / "run")


def test_prompts_with_and_without_a_world_are_drawn_together(place: Path) -> None:
    """A mixture: each part is played, or completed, and a plain sample is what it is without the others."""
    world = {"kind": "file", "path": str(place / "task.py")}
    plain = {"kind": "sums", "prompts": 8}
    parts_of = {"guess": {"task": world}, "sums": {"task": plain}}
    with made(place, task={"kind": "mixture", "parts": parts_of}, rollout__prompts=6) as run:
        source: Any = run.work.source
        asked = list(zip(source.prompts.prompts, source.prompts.ids, strict=True))
        both = source.rollouts.draw(asked, group_size=2, iteration=0)
        alone = source.rollouts.draw([a for a in asked if a[0].info["task"] == "sums"], group_size=2, iteration=0)
    assert {str(s.info["task"]) for s in both} == {"guess", "sums"}
    assert all(("episode" in s.info) == (s.info["task"] == "guess") for s in both)
    by_seed = {s.seed: s.tokens_T.tolist() for s in both}
    assert all(by_seed[s.seed] == s.tokens_T.tolist() for s in alone) and len(alone) == 16


def test_a_plan_counts_what_the_policy_may_say_over_an_episode(place: Path) -> None:
    found = sizes_of(read_recipe(place / "recipe.toml"))
    assert found.workload.generated_tokens.longest == 3 * 6
    assert any("episodes count" in note for note in found.notes)
