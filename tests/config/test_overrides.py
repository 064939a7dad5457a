from typing import Any

import pytest

from ropewalk.config.load import ConfigError, load, parse_override
from tests.config.example import VALID, LossKL, NoKL, Recipe, RewardKL, Sink


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("actor.optimizer.lr=3e-6", "actor.optimizer.lr", 3e-6),
        ("a = 3", "a", 3),
        ("a=true", "a", True),
        ("a=True", "a", "True"),
        ("a=runs/city-3@best", "a", "runs/city-3@best"),
        ("a=x=y", "a", "x=y"),
        ('a="3"', "a", "3"),
        ("a=[1, 2.5]", "a", [1, 2.5]),
        ('kl={kind="loss", beta=0.1}', "kl", {"kind": "loss", "beta": 0.1}),
        ("a=2020-01-01", "a", "2020-01-01"),
        ("a=0017", "a", "0017"),
        ("a=1\nb=2", "a", "1\nb=2"),
    ],
)
def test_overrides_are_toml_and_bare_words_are_text(text: str, path: str, value: Any) -> None:
    assert parse_override(text) == (path, value)


@pytest.mark.parametrize("text", ["a", "=3", "a.=3", ".a=3", "a=", "a=[1,", 'a="x', "a={b=}"])
def test_a_malformed_override_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match="override"):
        parse_override(text)


def test_overrides_reach_any_depth_and_the_last_one_wins() -> None:
    recipe = load(
        Recipe,
        VALID,
        {"actor.optimizer": {"lr": 1.0}, "actor.optimizer.lr": 2.0, "seed": 9, "sinks.1.every": 5, "label": "none"},
    )
    assert (recipe.actor.optimizer.lr, recipe.actor.optimizer.warmup_steps) == (2.0, 10)
    assert (recipe.seed, recipe.label) == (9, None)
    assert recipe.sinks == (Sink(name="a", every=2), Sink(name="b", every=5, weights={"any-name": 1.0}))
    assert load(Recipe, VALID, {"sinks": [{"name": "c"}]}).sinks == (Sink(name="c"),)


def test_another_variant_drops_the_keys_of_the_file_that_it_lacks() -> None:
    """VALID has kind loss with beta 0.2 and estimator k2; reward has beta but no estimator."""
    assert load(Recipe, VALID, {"kl.kind": "reward"}).kl == RewardKL(beta=0.2)
    assert load(Recipe, VALID, {"kl.kind": "none"}).kl == NoKL()
    assert load(Recipe, VALID, {"kl.kind": "loss"}).kl == LossKL(beta=0.2, estimator="k2")
    assert load(Recipe, VALID, {"kl": {"kind": "reward", "adaptive": True}}).kl == RewardKL(beta=0.2, adaptive=True)
    file = {**VALID, "kl": {"adaptive": True}}
    assert load(Recipe, file, {"kl.kind": "loss"}).kl == LossKL(), "a kind that the file leaves to the default"


def test_keys_of_overrides_are_never_dropped() -> None:
    with pytest.raises(ConfigError, match="unknown key 'estimator' in section \\[kl\\]"):
        load(Recipe, VALID, {"kl.kind": "reward", "kl.estimator": "k2"})
    with pytest.raises(ConfigError, match="unknown key 'estimator'"):
        load(Recipe, {**VALID, "kl": {"kind": "reward"}}, {"kl.estimator": "k2"})


def test_another_method_keeps_only_what_it_knows() -> None:
    recipe = load(Recipe, VALID, {"method": "sft", "model": "models/b"})
    assert (recipe.method, recipe.model) == ("sft", "models/b")


def test_an_unknown_override_is_refused_like_a_key_of_the_file() -> None:
    """Fault Q2."""
    for path, said in (
        ("actor.optimiser.lr", "unknown key 'optimiser' in section \\[actor\\]: did you mean 'actor.optimizer'"),
        ("optimizer.lr", "unknown key 'optimizer' in the top level: did you mean 'actor.optimizer'"),
        ("seed.x", "seed must be a whole number, not a table"),
        ("sinks.7.every", "sinks must be a list"),
        ("kl.kind", "kl has an unknown kind"),
    ):
        with pytest.raises(ConfigError, match=said):
            load(Recipe, VALID, {path: 3} if path != "kl.kind" else {path: "rewrd"})


def test_nothing_given_is_changed() -> None:
    before = repr(VALID)
    load(Recipe, VALID, {"actor.optimizer.lr": 1.0, "sinks.0.every": 3, "kl.kind": "none"})
    assert repr(VALID) == before
