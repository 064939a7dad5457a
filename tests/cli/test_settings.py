"""Recipes and --set: every problem at once, unknown keys first, each with the nearest valid name."""

from pathlib import Path

from tests.cli.commands import Command, failed, settings


def test_every_problem_is_told_at_once_and_unknown_keys_come_first(ropewalk: Command) -> None:
    """Fault Q2."""
    wrong = {"grpo.epochs": "x", "actor.optimiser.lr": 1, "stop.iteratons": 3}
    told = ropewalk("train", "city-grpo", *settings(wrong))
    failed(told, 2, "'actor.optimizer'", "'stop.iterations'", "grpo.epochs must be a whole number", sentences=3)
    assert told.err.splitlines()[2].startswith("grpo.epochs")


def test_every_malformed_setting_is_told_at_once(ropewalk: Command) -> None:
    failed(ropewalk("train", "city-grpo", "--set", "seed", "--set", "=1"), 2, "'seed'", "'=1'", sentences=2)


def test_a_recipe_that_is_not_toml_names_its_line(ropewalk: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('method = "grpo"\nseed = \n')
    failed(ropewalk("train", "mine.toml"), 2, "mine.toml is not TOML", "line 2")


def test_a_run_folder_is_no_recipe_but_says_how_it_is_one(ropewalk: Command, tiny_policy: Path) -> None:
    failed(ropewalk("train", tiny_policy), 2, "run folder", "recipe.toml")


def test_an_empty_recipe_asks_for_a_method(ropewalk: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("")
    failed(ropewalk("train", "mine.toml"), 2, "method")
