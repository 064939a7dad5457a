"""Prompts of a run: every one once an epoch of its source, also where groups are replaced; each task in the metrics."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ropewalk.data.order import PART
from ropewalk.monitors.report.catalogue import OTHER, entry
from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.runtime.experience import Experience, FreshRollouts
from ropewalk.runtime.flat import FlatRule
from ropewalk.runtime.jobs.replay import replay
from ropewalk.runtime.look.dryrun import dry_run
from ropewalk.runtime.progress import Silent
from ropewalk.runtime.recipe import read_recipe
from ropewalk.runtime.train import train
from ropewalk.tasks.task import Task
from tests.runtime.runs import ITERATIONS, Parts, Starts, parts, settings_of

Drawn = list[tuple[str, list[Sample]]]


@pytest.fixture(scope="module")
def mixed(tiny_policy: Path) -> tuple[str, dict[str, Any]]:
    """A mixture under a curriculum, narrowed to a selection, with groups that are replaced."""
    return settings_of("grpo-mixed", Starts(tiny_policy, tiny_policy, tiny_policy))


def source_of(made: Parts) -> FreshRollouts:
    source = made.loop.source
    assert isinstance(source, FreshRollouts)
    return source


def gathered(source: FreshRollouts, iterations: int, *, resume_at: int = -1) -> tuple[list[Experience], Any]:
    """The experiences of some iterations; the place goes through JSON where the run is resumed."""
    ledger: Any = {}
    found = []
    for iteration in range(iterations):
        if iteration == resume_at:
            ledger = source.order.at(ledger).state()
        experience, ledger = source.gather(iteration, ledger)
        found.append(experience)
    return found, ledger


def everything(experience: Experience) -> list[Sample]:
    return [*experience.samples, *experience.dropped]


def test_replaced_groups_are_consumed_and_repeat_no_seed(tmp_path: Path, mixed: tuple[str, dict[str, Any]]) -> None:
    """Faults I1, B6, 20: over several epochs of every source, through resumes, no prompt is lost or comes twice in an
    epoch, and no two samples of the whole run share a stream."""
    with parts(*mixed, tmp_path) as made:
        source = source_of(made)
        found, ledger = gathered(source, ITERATIONS)
        again, same = gathered(source, ITERATIONS, resume_at=3)
        assert ledger == same
        assert [s.tokens_T.tolist() for e in found for s in everything(e)] == [
            s.tokens_T.tolist() for e in again for s in everything(e)
        ]
        drawn = Counter(sample.prompt_id for e in found for sample in everything(e) if sample.index % 2 == 0)
        numbers = {prompt.id: number for number, prompt in enumerate(source.prompts.prompts)}
        assert drawn.total() > ITERATIONS * source.per_iteration, "some groups were replaced"
        for name, members in source.order.members.items():
            times = [drawn[source.prompts.prompts[number].id] for number in members]
            assert max(times) - min(times) <= 1, f"source {name} is drawn unevenly"
            assert sum(times) == ledger["ledgers"][name]["consumed"]
        assert max(drawn.values()) > 1, "an epoch came to its end"
        assert set(drawn) <= set(numbers)
        seeds = [sample.seed for e in found for sample in everything(e)]
        assert len(seeds) == len(set(seeds))


def test_what_is_trained_on_are_whole_groups_with_variance(tmp_path: Path, mixed: tuple[str, dict[str, Any]]) -> None:
    """Group numbers, tasks and denominators are those of the groups that stayed."""
    with parts(*mixed, tmp_path) as made:
        source = source_of(made)
        for experience in gathered(source, ITERATIONS)[0]:
            groups = Counter(sample.group_id for sample in experience.samples)
            assert set(groups.values()) == {source.group_size} and len(groups) <= source.per_iteration
            assert not set(groups) & {sample.group_id for sample in experience.dropped}
            numbers = experience.batch.row_columns["group"].tolist()
            assert numbers == [n for n in range(len(groups)) for _ in range(source.group_size)]
            names = [str(sample.info[PART]) for sample in experience.samples]
            order = sorted(set(names))
            assert experience.batch.row_columns["task"].tolist() == [order.index(name) for name in names]
            assert experience.metrics["groups/drawn"].value * source.group_size == len(everything(experience))


def of_one_group(texts: dict[str, list[float]]) -> Task:
    """A task of one prompt whose scores go by the sample's number."""

    def score(prompt: Prompt, sample: Sample) -> float:
        return texts[prompt.id][sample.index % len(texts[prompt.id])]

    return Task("made", {"train": [Prompt(id, "[ boston") for id in texts], "heldout": ["[ denver"]}, {"truth": score})


def made_run(policy: Path, out: Path, task: Task, **more: Any) -> Any:
    settings = {
        "start_from": str(policy),
        "hardware.threads": 1,
        "rollout.prompts": 2,
        "rollout.group_size": 2,
        "stop.iterations": 4,
        "sampling": {"max_new_tokens": 4},
        **more,
    }
    return train("city-grpo", task=task, set=settings, out=out)


def test_a_prompt_that_comes_again_in_a_round_has_new_samples(tiny_policy: Path, tmp_path: Path) -> None:
    """Fault B6: two prompts, one of which never has variance, drawn over and over in one iteration."""
    task = of_one_group({"flat": [1.0, 1.0], "good": [0.0, 1.0]})
    settings = {"rollout.flat": {"kind": "refill", "most": 3.0}, "record.rollouts": True}
    run = made_run(tiny_policy, tmp_path / "run", task, **settings)
    for row in run.metrics():
        assert 2 < row["groups/drawn"] <= 6 and row["group/no_variance"] == row["groups/dropped"] > 0
    from ropewalk.records.files import read_samples, rollout_file

    for iteration in range(1, 5):
        drawn = read_samples(rollout_file(run.rollouts, iteration))
        assert {sample.prompt_id for sample in drawn} == {"good"}
        assert len({sample.seed for sample in drawn}) == len(drawn) == 4
        assert len({sample.group_id for sample in drawn}) == 2


def test_a_run_in_which_no_group_has_variance_ends_with_a_diagnosis(tiny_policy: Path, tmp_path: Path) -> None:
    """Fault Q4: after the window of the rule, not before; nothing but the KL term was learnt."""
    task = of_one_group({"a": [1.0], "b": [0.0]})
    settings = {
        "rollout.flat": {"kind": "drop"},
        "health": {"window": 3, "zero_gradient": "warn"},
        "stop.iterations": 9,
    }
    with pytest.raises(RunStopped, match="no group had samples of differing reward for 3 iterations"):
        made_run(tiny_policy, tmp_path / "run", task, **settings)


def test_an_iteration_that_comes_out_short_says_so_once(tiny_policy: Path, tmp_path: Path) -> None:
    said: list[str] = []

    class Hears(Silent):
        def say(self, line: str) -> None:
            said.append(line)

    task = of_one_group({"flat": [1.0, 1.0], "good": [0.0, 1.0]})
    settings = {"start_from": str(tiny_policy), "hardware.threads": 1, "rollout.flat": {"kind": "drop"}}
    more = {"rollout.prompts": 2, "rollout.group_size": 2, "stop.iterations": 3, "sampling.max_new_tokens": 4}
    train("city-grpo", task=task, set={**settings, **more}, out=tmp_path / "run", progress=Hears())
    assert sum("only 50% of the groups wanted had variance after 2 were drawn" in line for line in said) == 1


def test_dropping_flat_groups_changes_no_policy_gradient(tiny_policy: Path, tmp_path: Path) -> None:
    """Fault A3: without a KL term a flat group adds nothing but its place in the denominator."""
    kept, dropped = (
        made_run(
            tiny_policy,
            tmp_path / kind,
            of_one_group({"flat": [1.0, 1.0], "good": [0.0, 1.0]}),
            **{"rollout.flat": {"kind": kind}, "grpo.kl": {"place": "none"}, "stop.iterations": 1, "grpo.epochs": 1},
            **{"grpo.reduction": {"kind": "sequence"}, "actor.optimizer.clip_norm": 1e9},
        ).metrics()[0]
        for kind in ("keep", "drop")
    )
    assert dropped["grad_norm/actor"] == pytest.approx(2 * kept["grad_norm/actor"], rel=1e-4)
    for name in ("length/mean", "truncated", "distinct", "score/truth/mean", "group/no_variance"):
        assert dropped[name] == kept[name], f"{name} is of all that was drawn"
    assert dropped["groups/dropped"] == 0.5 and dropped["reward/mean"] == kept["reward/mean"] - 0.25


def test_a_mixed_run_shows_each_task(tmp_path: Path, mixed: tuple[str, dict[str, Any]]) -> None:
    """Per-task curves: they add up to the whole, have names on the page, and come back in a replay."""
    recipe, settings = mixed
    run = train(recipe, set={**settings, "stop.iterations": 2}, out=tmp_path / "run")
    for row in run.metrics():
        shares = {name: row[f"task/{name}/share"] for name in ("near", "far") if f"task/{name}/share" in row}
        assert sum(shares.values()) == pytest.approx(1)
        mean = sum(share * row[f"task/{name}/reward"] for name, share in shares.items())
        assert mean == pytest.approx(row["reward/mean"], rel=1e-6)
        assert all(f"task/{name}/{kind}" in row for name in shares for kind in ("length", "no_variance", "score/truth"))
    assert {"eval/task/near/pass_at_1", "eval/task/far/pass_at_1"} <= run.metrics()[1].keys()
    names = {name for name in run.metrics()[0] if name.startswith(("task/", "groups/", "drawn/"))}
    assert [name for name in names if entry(name).group == OTHER] == []
    again = replay(run.folder, out=tmp_path / "again")
    for mine, theirs in zip(again.metrics(), run.metrics(), strict=True):
        tasks = {name for name in theirs if name.startswith("task/")}
        assert {name: mine[name] for name in tasks} == {name: theirs[name] for name in tasks}
        assert mine["loss/policy"] == theirs["loss/policy"]


def test_a_dry_run_shows_sources_and_what_the_curriculum_does(mixed: tuple[str, dict[str, Any]]) -> None:
    recipe, settings = mixed
    facts = dry_run(read_recipe(recipe, settings)).facts
    said = [about for what, about in facts if what == "source"]
    assert said[0] == "near/easy: 4 prompts, from 39.5% of the draws in the first iteration to 16.3% in the last"
    assert len(said) == 6
    assert (
        "flat groups",
        "whose rewards differ by no more than 0 are replaced: 4 to 10 groups are drawn in an iteration",
    ) in facts


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rollout.only": "none"}, "a curriculum needs info.difficulty of every prompt"),
        ({"rollout.only": "absent.jsonl"}, "absent.jsonl"),
        (
            {"reward.components.truth.gates": [{"on": "reward_model"}], "reward_model": "@rm"},
            "every component of the reward is learned",
        ),
        ({"rollout.curriculum.phases": [{"at": 0, "easy": 0, "medium": 0, "hard": 1}]}, None),
    ],
    ids=["no-difficulty", "no-file", "learned", "hard-only"],
)
def test_what_cannot_be_drawn_is_told_before_anything_runs(
    mixed: tuple[str, dict[str, Any]], tiny_reward_model: Path, change: dict[str, Any], said: str | None
) -> None:
    recipe, settings = mixed
    change = {name: str(tiny_reward_model) if value == "@rm" else value for name, value in change.items()}
    problems = dry_run(read_recipe(recipe, {**settings, **change})).problems
    assert (problems == []) == (said is None) and (said is None or any(said in problem for problem in problems))


def test_other_chosen_prompts_are_refused_on_resume(tmp_path: Path, mixed: tuple[str, dict[str, Any]]) -> None:
    """Fault I4."""
    with parts(*mixed, tmp_path) as made:
        source = source_of(made)
        _, ledger = gathered(source, 1)
        other = [replace(prompt, info={**prompt.info, "pass_rate": 0.5}) for prompt in source.prompts.prompts]
        from ropewalk.models.language import load_language
        from ropewalk.runtime.prepare import ordered_prompts

        recipe: Any = read_recipe(*mixed)
        language = load_language(str(Path(recipe.start_from) / "model"))
        changed = ordered_prompts(other, language, recipe.seed, {"near": 2.0, "far": 1.0}, recipe.rollout.curriculum)
        with pytest.raises(InputError, match="fingerprint"):
            replace(source, order=changed).check(ledger)
        source.check(ledger)


def test_the_rule_is_none_of_the_runs_without_one(tmp_path: Path, mixed: tuple[str, dict[str, Any]]) -> None:
    recipe, settings = mixed
    kept = {**settings, "rollout.flat": {"kind": "keep"}}
    with parts(recipe, kept, tmp_path) as made:
        (experience,), _ = gathered(source_of(made), 1)
        assert source_of(made).flat is None and not experience.dropped and not experience.metrics
        assert len(np.unique(experience.batch.row_columns["group"])) == 4
    with parts(recipe, settings, tmp_path / "other") as made:
        assert isinstance(source_of(made).flat, FlatRule)
