import tomllib

from hypothesis import given
from hypothesis import strategies as st

from ropewalk.config.load import load, to_toml
from tests.config.example import VALID, Actor, LossKL, NoKL, Optimizer, Ppo, Recipe, RewardKL, Sft, Sink

floats = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: text != "none")
optimizers = st.builds(
    Optimizer,
    lr=st.floats(min_value=1e-12, max_value=1e12),
    betas=st.tuples(floats, floats),
    clip_norm=st.none() | floats,
    warmup_steps=st.integers(0, 10**9),
)
kls = st.builds(RewardKL, beta=floats, adaptive=st.booleans()) | st.builds(LossKL, beta=floats) | st.just(NoKL())
sinks = st.builds(Sink, name=texts, every=st.integers(-5, 5), weights=st.dictionaries(texts, floats, max_size=3))
actors = st.builds(Actor, path=texts, optimizer=optimizers, scheduler=st.none() | optimizers)
ppos = st.builds(
    Ppo,
    seed=st.integers(-(2**63), 2**63 - 1),
    label=st.none() | texts,
    actor=actors,
    kl=kls,
    second_kl=st.none() | kls,
    sinks=st.lists(sinks, max_size=3).map(tuple),
    terms=st.dictionaries(texts, kls, max_size=3),
)


@given(ppos | st.builds(Sft, model=texts, max_tokens=st.none() | st.integers()))
def test_a_resolved_recipe_loads_back_equal(recipe: Ppo | Sft) -> None:
    text = to_toml(recipe)
    assert load(Recipe, tomllib.loads(text)) == recipe
    assert to_toml(load(Recipe, tomllib.loads(text))) == text


def test_a_resolved_recipe_names_every_value_that_is_not_none() -> None:
    written = tomllib.loads(to_toml(load(Recipe, {"method": "ppo", "actor": {"path": "a"}})))
    assert written["actor"]["optimizer"] == {"lr": 1e-6, "betas": [0.9, 0.99], "clip_norm": 5.0, "warmup_steps": 3}
    assert written["kl"] == {"kind": "reward", "beta": 0.05, "adaptive": False}
    assert "label" not in written and "scheduler" not in written["actor"]


def test_none_is_written_only_where_its_absence_would_mean_something_else() -> None:
    recipe = load(Recipe, VALID, {"actor.optimizer.clip_norm": "none", "label": "none"})
    written = tomllib.loads(to_toml(recipe))
    assert written["actor"]["optimizer"]["clip_norm"] == "none"
    assert "label" not in written
