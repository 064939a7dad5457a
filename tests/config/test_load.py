from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from ropewalk.config.load import ConfigError, load, read_toml
from ropewalk.config.schema import Section, keys
from tests.config.example import VALID, Actor, Optimizer, Recipe, RewardKL, Sft
from tests.config.mutations import Mutation, mutations


def problems(data: dict[str, Any], **overrides: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(Recipe, data, overrides)
    assert str(caught.value) == "\n".join(caught.value.problems)
    return caught.value.problems


def changed(**values: object) -> dict[str, Any]:
    return {**VALID, **values}


def test_a_valid_recipe_loads_as_it_stands() -> None:
    recipe = load(Recipe, VALID)
    assert recipe.actor.optimizer == Optimizer(lr=1e-5, betas=(0.9, 0.95), clip_norm=2.0, warmup_steps=10)
    assert recipe.sinks[1].weights == {"any-name": 1.0}
    assert recipe.terms["length"] == RewardKL(beta=0.1)


@pytest.mark.parametrize("mutation", list(mutations(Recipe, VALID)), ids=lambda m: m.name)
def test_every_wrong_key_is_refused_by_name(mutation: Mutation) -> None:
    """Fault Q2: a typo, a hyphen, a wrong level, a wrong type: refused, naming the key."""
    assert any(mutation.key in problem for problem in problems(mutation.data))


@pytest.mark.parametrize(
    ("section", "wrong", "right"),
    [
        ({"learning_rat": 1}, "unknown key 'learning_rat' in section [actor.optimizer]", "valid: lr, betas"),
        ({"warmup-steps": 1}, "unknown key 'warmup-steps'", "did you mean 'actor.optimizer.warmup_steps'?"),
        ({"warmup_step": 1}, "unknown key 'warmup_step'", "did you mean 'actor.optimizer.warmup_steps'?"),
        ({"estimator": "k1"}, "unknown key 'estimator'", "did you mean 'kl.estimator' or"),
        ({"sed": 1}, "unknown key 'sed'", "did you mean 'seed'?"),
        ({"lr": "fast"}, "actor.optimizer.lr must be a number", "not the text 'fast'"),
        ({"lr": True}, "actor.optimizer.lr must be a number", "not true"),
        ({"lr": 0}, "actor.optimizer.lr must be greater than 0.0", "not the number 0"),
        ({"lr": float("nan")}, "actor.optimizer.lr must be a finite number", "nan"),
        ({"warmup_steps": 2.5}, "actor.optimizer.warmup_steps must be a whole number", "2.5"),
        ({"betas": [0.9, "x"]}, "actor.optimizer.betas[1] must be a number", "'x'"),
    ],
)
def test_what_a_complaint_says(section: dict[str, Any], wrong: str, right: str) -> None:
    """Fault Q2."""
    (problem,) = problems(changed(actor={"path": "a", "optimizer": section}))
    assert problem.startswith(wrong) and right in problem


def test_a_key_of_another_level_is_found_there() -> None:
    (problem,) = problems(changed(lr=1e-6))
    assert problem == ("unknown key 'lr' in the top level: did you mean 'actor.optimizer.lr' or 'actor.scheduler.lr'?")


def test_all_problems_at_once_and_unknown_keys_first() -> None:
    data = changed(seed="x", kl={"kind": "los"}, bogus_key=1, actor={"optimizer": {"lrr": 1, "lr": "y"}})
    found = problems(data)
    assert [p.startswith("unknown key") for p in found] == [True, True, False, False, False, False]
    assert "actor.path is missing: give it a value" in found
    assert "kl has an unknown kind 'los': did you mean 'loss'? (allowed: loss, none, reward)" in found


def test_a_key_of_another_variant_says_whose_it_is() -> None:
    """Fault Q5: settings of two alternatives cannot both be given."""
    (problem,) = problems(changed(kl={"kind": "reward", "estimator": "k3"}))
    assert problem == (
        "unknown key 'estimator' in section [kl]: it belongs to kind = 'loss', and this section has kind = 'reward'"
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"method": "pppo"}, "the recipe has an unknown method 'pppo': did you mean 'ppo'? (allowed: ppo, sft)"),
        ({}, "the recipe needs the key 'method': one of ppo, sft"),
        ({"method": 3}, "the recipe has an unknown method '3': allowed are ppo, sft"),
        (changed(actor=3), "actor must be a table, not the number 3"),
        (changed(kl="loss"), "kl must be a table, not the text 'loss'"),
        (changed(sinks={"name": "a"}), "sinks must be a list, not a table"),
        (changed(sinks=[{"name": "a"}, {"every": 2}]), "sinks[1].name is missing: give it a value"),
        (changed(terms={"x": {"kind": "reward", "beta": "y"}}), "terms.x.beta must be a number, not the text 'y'"),
        (changed(kl={"kind": "loss", "estimator": "k9"}), "kl.estimator is the text 'k9': did you mean"),
    ],
)
def test_wrong_tags_and_shapes(data: dict[str, Any], said: str) -> None:
    (problem,) = problems(data)
    assert problem.startswith(said)


def test_an_unknown_key_deep_in_lists_and_free_tables() -> None:
    found = problems(changed(sinks=[{"name": "a", "evry": 2}], terms={"x": {"kind": "reward", "bta": 2}}))
    assert found == [
        "unknown key 'evry' in section [sinks[0]]: did you mean 'sinks[0].every'?",
        "unknown key 'bta' in section [terms.x]: did you mean 'terms.x.beta'?",
    ]


def test_a_section_given_in_part_keeps_the_rest_of_its_default() -> None:
    """The trap: `optimizer.warmup_steps` alone must not throw the field's own learning rate away."""
    actor = load(Actor, {"path": "a", "optimizer": {"warmup_steps": 7}})
    assert actor.optimizer == Optimizer(lr=1e-6, clip_norm=5.0, warmup_steps=7)
    assert load(Recipe, changed(kl={"adaptive": True})).kl == RewardKL(beta=0.05, adaptive=True)


def test_none_is_written_as_a_word() -> None:
    assert load(Actor, {"path": "a", "optimizer": {"clip_norm": "none"}}).optimizer.clip_norm is None
    assert problems({"method": "sft", "model": "a", "max_tokens": "many"}) == [
        "max_tokens must be a whole number, not the text 'many'"
    ]


def test_a_whole_number_serves_as_a_number_but_not_the_reverse() -> None:
    assert load(Optimizer, {"lr": 1}).lr == 1.0
    with pytest.raises(ConfigError, match="whole number"):
        load(Optimizer, {"warmup_steps": 1.0})


def test_a_union_of_sections_must_say_how_it_is_told_apart() -> None:
    class Loose(Section):
        either: Optimizer | Sft | None = None

    with pytest.raises(TypeError, match="discriminator"):
        load(Loose, {})


def test_errors_of_plain_unions_and_validators_are_one_sentence() -> None:
    class Mixed(Section):
        size: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"

    with pytest.raises(ConfigError) as caught:
        load(Mixed, {"size": "big"})
    assert caught.value.problems == ["size must be a whole number or is the text 'big': allowed are auto"]


def test_keys_walk_every_section_through_unions_lists_and_names() -> None:
    paths = {key.path for key in keys(Recipe)}
    assert {"method", "kl.estimator", "kl.adaptive", "sinks[].every", "terms.*.beta", "actor.scheduler.lr"} <= paths
    assert "max_tokens" in paths
    assert {key.section for key in keys(Recipe) if key.path == "kl.beta"} == {
        variant for variant in {k.section for k in keys(Recipe)} if variant.__name__ in ("RewardKL", "LossKL")
    }


def test_a_recipe_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("a = 1\nb = = 2\n")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for name, said in (
        ("absent.toml", "there is no file"),
        ("", "is a folder"),
        ("broken.toml", "is not TOML: .*line 2"),
        ("bytes.toml", "is not UTF-8"),
    ):
        with pytest.raises(ConfigError, match=said):
            read_toml(tmp_path / name)
    (tmp_path / "good.toml").write_text("[actor]\nlr = 1e-6\n")
    assert read_toml(tmp_path / "good.toml") == {"actor": {"lr": 1e-6}}
