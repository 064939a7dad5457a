"""Gates, what stands for failures, and the mixture: who counts, at what, and who drops a row."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.config.load import ConfigError, load
from ropewalk.records.errors import InputError
from ropewalk.records.score import Abstain, Failed, Outcome, Score
from ropewalk.tasks.scoring.compose import About, Composed, compose, observe
from ropewalk.tasks.scoring.config import (
    Component,
    Gate,
    InitialMean,
    LinearLength,
    Mix,
    RepeatedNgrams,
    Reward,
    ZScore,
)

FAILED = Failed("timeout", "10 s")
GATED = Reward(
    components={"tests": Component(), "judge": Component(weight=0.5, gates=(Gate(on="tests", value=-1.0),))},
)


def one(config: Reward, about: About = About(), **row: Outcome | float) -> Any:  # noqa: B008
    """The record of one row."""
    return made(config, [row], about).records[0]


def made(config: Reward, rows: list[dict[str, Any]], about: About = About()) -> Composed:  # noqa: B008
    scored = [{n: Score(o) if isinstance(o, int | float) else o for n, o in row.items()} for row in rows]
    return compose(config, scored, {}, [about] * len(rows))


@pytest.mark.parametrize(
    ("tests", "judge", "reward"),
    [
        (1.0, 0.8, 1.4),
        (1.0, Abstain(), 1.0),
        (1.0, FAILED, None),
        (0.999, 0.8, 0.499),
        (0.0, Abstain(), -0.5),
        (0.0, FAILED, -0.5),
        (Abstain(), 0.8, -0.5),
        (FAILED, 0.8, None),
    ],
)
def test_the_judge_counts_only_if_the_tests_pass(tests: Any, judge: Any, reward: float | None) -> None:
    """A closed gate gives its value whatever the judge said, and a scorer that failed was not passed."""
    assert one(GATED, tests=tests, judge=judge)["reward"] == (None if reward is None else pytest.approx(reward))


def test_a_gated_failure_is_still_counted() -> None:
    """Fault G4: it drops nothing, and yet it is a failure of its scorer."""
    found = made(GATED, [{"tests": 0.0, "judge": FAILED}, {"tests": 1.0, "judge": 1.0}])
    assert found.valid_R.tolist() == [True, True]
    assert found.metrics["score/judge/failed_timeout"].value == found.metrics["score/judge/gated"].value == 0.5
    assert found.records[0]["components"]["judge"] == {  # type: ignore[index, call-overload]
        "outcome": "failed: timeout (10 s)",
        "gate": "closed: tests must be at least 1",
        "normalised": -1.0,
        "weighted": -0.5,
    }


def test_a_gate_may_look_at_what_is_only_recorded_and_be_open_to_abstention() -> None:
    gate = Gate(on="compiles", at_least=0.5, abstained="open")
    config = Reward(components={"judge": Component(gates=(gate,))})
    rewards = [one(config, compiles=outcome, judge=3.0)["reward"] for outcome in (0.5, 0.4, Abstain(), FAILED)]
    assert rewards == [3.0, 0.0, 3.0, 0.0]


def test_the_first_closed_gate_says_what_stands_there() -> None:
    gates = (Gate(on="a", value=-1.0), Gate(on="b", value=-2.0))
    config = Reward(components={"judge": Component(gates=gates)})
    rewards = [one(config, judge=9.0, a=a, b=b)["reward"] for a, b in ((0, 0), (1, 0), (0, 1), (1, 1))]
    assert rewards == [-1.0, -2.0, -1.0, 9.0]


def test_a_gate_on_nobody_is_named() -> None:
    with pytest.raises(InputError, match="a gate looks at 'tests', which was scored by nobody: there are judge"):
        made(Reward(components={"judge": Component(gates=(Gate(on="tests"),))}), [{"judge": 1.0}])


def test_dropped_rows_that_no_model_judged_are_no_fault_of_a_gate_on_it() -> None:
    """Fault G12: groups are dropped before learned rewards are asked, and their known scores are still observed."""
    gated = Component(normalise=ZScore(), gates=(Gate(on="model"),))
    config = Reward(components={"judge": gated, "tests": Component(normalise=ZScore()), "model": Component()})
    rows = [{"judge": Score(0.5), "tests": Score(float(n))} for n in range(3)]
    found = observe(config, rows, {})
    assert found["tests"] == observe(Reward(components={"tests": config.components["tests"]}), rows, {})["tests"]
    assert found.get("judge") == observe(config, [], {}).get("judge")
    with pytest.raises(InputError, match="'model'"):
        compose(config, rows, {})


def test_layers_of_a_code_reward_can_be_written() -> None:
    """Rule, compile, public, hidden, judge: 0.1, a gate, 0.5, 0.3, 0.1. Passing one layer opens the next."""
    layers = {"rule": 0.1, "compile": 0.0, "public": 0.5, "hidden": 0.3, "judge": 0.1}
    before = {"public": ["compile"], "hidden": ["compile", "public"], "judge": ["compile", "public", "hidden"]}
    config = load(
        Reward,
        {"components": {n: {"weight": w, "gates": [{"on": g} for g in before.get(n, [])]} for n, w in layers.items()}},
    )
    everything = dict.fromkeys(layers, 1.0)
    assert one(config, **everything)["reward"] == pytest.approx(1.0)
    for number, lost in enumerate(layers):
        worth = [layers[n] for i, n in enumerate(layers) if (i < number if number else i > 0)]
        assert one(config, **{**everything, lost: 0.0})["reward"] == pytest.approx(math.fsum(worth)), lost


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failed", "rewards"),
    [
        ("drop", {"timeout": None, "wrong_format": None}),
        (-1.0, {"timeout": -1.0, "wrong_format": -1.0}),
        (0, {"timeout": 0.0, "wrong_format": 0.0}),
        ({"wrong_format": -0.5}, {"timeout": None, "wrong_format": -0.5}),
    ],
)
def test_a_failure_is_a_number_only_where_the_recipe_says_which(failed: Any, rewards: dict[str, float | None]) -> None:
    """Fault E3: never 0 in silence; whatever stands for it, the failure is counted under its own reason."""
    config = load(Reward, {"components": {"rule": {"failed": failed}}})
    for reason, reward in rewards.items():
        found = made(config, [{"rule": Failed(reason)}])  # type: ignore[arg-type]
        assert found.records[0]["reward"] == reward
        assert found.metrics[f"score/rule/failed_{reason}"].value == 1.0
        assert found.metrics["score/rule"].count == 0
        assert found.metrics["reward/invalid"].value == (reward is None)


def test_abstaining_is_not_failing() -> None:
    """Fault E3."""
    config = Reward(components={"rule": Component(failed=0.0), "other": Component()})
    assert one(config, rule=Abstain(), other=Abstain())["reward"] is None
    assert one(config, rule=Abstain(), other=2.0)["reward"] == 2.0


@pytest.mark.parametrize("failed", ["zero", {"slow": 0.0}, [0.0], True])
def test_a_failure_cannot_stand_for_nonsense(failed: Any) -> None:
    """Fault Q2."""
    with pytest.raises(ConfigError, match=r"components\.rule\.failed"):
        load(Reward, {"components": {"rule": {"failed": failed}}})


# --- the mixture ----------------------------------------------------------------------------------


def test_each_domain_has_its_own_share_of_judgement() -> None:
    mix = Mix(judged=("judge",), share=0.25, domains={"prose": 1.0, "maths": 0.0})
    config = Reward(components={"rule": Component(weight=2.0), "judge": Component()}, mix=mix)
    rewards = [one(config, About(domain), rule=1.0, judge=4.0)["reward"] for domain in ("", "prose", "maths")]
    assert rewards == [0.75 * 2 + 0.25 * 4, 4.0, 2.0]


def test_a_mixture_names_components() -> None:
    """Fault Q2."""
    with pytest.raises(ConfigError, match=r"mix\.judged names 'jugde', which is no component: there are judge"):
        load(Reward, {"components": {"judge": {}}, "mix": {"kind": "judged", "judged": ["jugde"]}})


# --- the whole ------------------------------------------------------------------------------------

outcomes = st.one_of(
    st.floats(-100, 100).map(Score), st.just(Abstain()), st.sampled_from(["timeout", "crashed"]).map(Failed)
)
EVERYTHING = Reward(
    components={
        "a": Component(normalise=ZScore(clip=2.0), weight=0.5),
        "b": Component(normalise=InitialMean(samples=4), failed={"timeout": -3.0}),
        "c": Component(gates=(Gate(on="a", at_least=0.0, value=0.25),), weight=-1.5),
    },
    mix=Mix(judged=("c",), share=0.3, domains={"x": 0.6}),
    length=LinearLength(at_tokens=10),
    repetition=RepeatedNgrams(words=1),
)


@given(
    st.lists(
        st.tuples(
            st.fixed_dictionaries({"a": outcomes, "b": outcomes, "c": outcomes, "d": outcomes}),
            st.sampled_from(["", "x"]),
            st.integers(0, 20),
            st.text("ab ", max_size=9),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_the_parts_that_are_shown_add_up_to_the_reward(rows: list[tuple[dict[str, Outcome], str, int, str]]) -> None:
    """And a row has a reward exactly if something counts and nothing was dropped."""
    about = [About(domain, tokens, text) for _, domain, tokens, text in rows]
    found = compose(EVERYTHING, [row for row, *_ in rows], {}, about)
    for record, reward, valid in zip(found.records, found.reward_R, found.valid_R, strict=True):
        entries: list[Any] = list(record["components"].values())  # type: ignore[union-attr]
        parts = [entry["weighted"] for entry in entries if "weighted" in entry]
        dropped = any("weighted" not in e and e.get("outcome", "").startswith("failed") for e in entries)
        assert valid == (bool(parts) and not dropped) == (record["reward"] is not None)
        if valid:
            total = math.fsum([*parts, *record["terms"].values()])  # type: ignore[union-attr]
            assert record["reward"] == total and reward == pytest.approx(total, rel=1e-6, abs=1e-6)
    shares = {name: found.metrics[f"reward/part/{name}"] for name in ("a", "b", "c", "length_term", "repetition_term")}
    total = math.fsum(metric.total for metric in shares.values())
    assert found.metrics["reward"].total == pytest.approx(total, abs=1e-9)
