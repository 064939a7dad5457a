"""`recipes`, `report`, `eval`, `export`, `sample`, `replay`: what they find, and what they refuse."""

import json
import tomllib
from pathlib import Path

import pytest

from ropewalk.runtime.recipe import built_in, load_recipe, read_recipe
from tests.cli.commands import TINY_GRPO, Command, failed, settings
from tests.monitors.folders import write_run


def test_every_built_in_recipe_is_listed_with_a_line(ropewalk: Command) -> None:
    told = ropewalk("recipes")
    lines = {line.split()[0]: line.split(maxsplit=1)[1] for line in told.out.split("\n\n")[0].splitlines()}
    assert lines.keys() == built_in().keys()
    assert all(30 < len(line) <= 120 and line.endswith((".", "…")) for line in lines.values()), lines


@pytest.mark.parametrize("name", sorted(built_in()))
def test_a_printed_recipe_is_a_recipe(ropewalk: Command, name: str) -> None:
    told = ropewalk("recipes", name)
    assert load_recipe(tomllib.loads(told.out)) == read_recipe(name)


def test_a_report_is_written_of_a_run_and_of_a_chain(ropewalk: Command, tmp_path: Path) -> None:
    for stage in ("a", "b"):
        write_run(tmp_path / "chain" / stage)
    write_run(tmp_path / "run")
    (tmp_path / "run" / "recipe.toml").write_text("")
    (tmp_path / "chain" / "stages.json").write_text(json.dumps(["a", "later", "b"]))
    assert ropewalk("report", "run").out == "report: run/report.html\n"
    told = ropewalk("report", "chain")
    assert told.out.splitlines()[-1] == "report: chain/report.html"
    for place in ("run", "chain", "chain/a", "chain/b"):
        assert (tmp_path / place / "report.html").stat().st_size > 10_000


def test_an_unstarted_chain_has_no_report(ropewalk: Command, tmp_path: Path) -> None:
    (tmp_path / "stages.json").write_text('["a"]')
    failed(ropewalk("report", "."), 2, "no stage", "resume")


@pytest.mark.parametrize("command", ["report", "eval", "export", "replay"])
def test_a_missing_run_is_named(ropewalk: Command, command: str) -> None:
    words = ["--out", "x"] if command == "export" else []
    failed(ropewalk(command, "runs/gone-1", *words), 2, "runs/gone-1", "ropewalk train")


@pytest.mark.parametrize("command", ["report", "eval", "export", "replay"])
def test_a_folder_that_is_no_run_is_named(ropewalk: Command, tmp_path: Path, command: str) -> None:
    (tmp_path / "docs").mkdir()
    words = ["--out", "x"] if command == "export" else []
    failed(ropewalk(command, "docs", *words), 2, "docs is not a run folder")


def test_evaluation_says_where_it_fell(ropewalk: Command, tiny_policy: Path, tmp_path: Path) -> None:
    """A run whose policy learned to say the bad words falls, and the exit code says so."""
    more = {**TINY_GRPO, "rollout.prompts": 16, "stop.iterations": 12, "actor.optimizer.lr": 1e-2}
    values = {"start_from": tiny_policy, **more, "reward.components.truth.weight": -1.0}
    assert ropewalk("train", "city-grpo", "--out", "bad", *settings(values)).code == 0
    told = ropewalk("eval", "bad", "--prompts", 64, "--samples", 2)
    assert told.code == 3
    assert "fell beyond its interval" in told.out


def test_a_model_is_exported_once(ropewalk: Command, tiny_policy: Path, tmp_path: Path) -> None:
    assert ropewalk("export", tiny_policy, "--out", "model").code == 0
    assert (tmp_path / "model" / "model.safetensors").is_file()
    failed(ropewalk("export", tiny_policy, "--out", "model"), 2, "exists")


def test_samples_are_written_once(ropewalk: Command, tiny_policy: Path, tmp_path: Path) -> None:
    words = ["sample", "city-pairs", *settings({"start_from": tiny_policy, "rollout.prompts": 3})]
    assert ropewalk(*words, "--out", "s.jsonl").out == "6 samples in s.jsonl\n"
    assert len((tmp_path / "s.jsonl").read_text().splitlines()) == 6
    failed(ropewalk(*words, "--out", "s.jsonl"), 2, "s.jsonl exists", "--overwrite")
    failed(ropewalk(*words, "--out", "gone/s.jsonl"), 2, "gone does not exist")
    failed(ropewalk(*words, "--out", "."), 2, "is a folder")


def test_a_replay_needs_rollouts(ropewalk: Command, tiny_policy: Path) -> None:
    failed(ropewalk("replay", tiny_policy), 2, "sft")
