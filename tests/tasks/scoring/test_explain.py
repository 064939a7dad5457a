"""A row in words: every number that is said is one that was computed, and the sum is the reward."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.score import Abstain, Failed, Outcome, Score
from ropewalk.tasks.scoring.compose import About, compose
from ropewalk.tasks.scoring.config import (
    Component,
    Gate,
    InitialMean,
    LinearLength,
    Mix,
    Raw,
    RepeatedNgrams,
    Reward,
    ZScore,
)
from ropewalk.tasks.scoring.explain import explain

outcomes = st.one_of(
    st.floats(-100, 100, width=32).map(Score), st.just(Abstain("none")), st.sampled_from(["timeout"]).map(Failed)
)
EVERYTHING = Reward(
    components={
        "a": Component(normalise=ZScore(clip=1.0), weight=0.5, failed=-3.0),
        "b": Component(normalise=InitialMean(samples=2)),
        "c": Component(normalise=Raw(clip=2.0), gates=(Gate(on="a", at_least=0.0), Gate(on="d", value=0.25))),
    },
    mix=Mix(judged=("c",), share=0.3),
    length=LinearLength(at_tokens=10),
    repetition=RepeatedNgrams(words=1),
)


def said(config: Reward, rows: list[dict[str, Outcome]], number: int, about: About | None = None) -> list[str]:
    abouts = [about or About("x", 7, "so so")] * len(rows)
    composed = compose(config, rows, {}, abouts)
    return explain(config, composed, number, rows[number], abouts[number])


@given(
    st.lists(
        st.fixed_dictionaries({"a": outcomes, "b": outcomes, "c": outcomes, "d": outcomes}), min_size=1, max_size=5
    )
)
def test_the_sum_that_is_told_is_the_reward(rows: list[dict[str, Outcome]]) -> None:
    abouts = [About("x", 7, "so so")] * len(rows)
    composed = compose(EVERYTHING, rows, {}, abouts)
    for number, row in enumerate(rows):
        lines = explain(EVERYTHING, composed, number, row, abouts[number])
        assert [line.partition(":")[0] for line in lines] == ["a", "b", "c", "length", "repetition", "d", "reward"]
        reward = composed.records[number]["reward"]
        if reward is None:
            assert lines[-1].startswith("reward: none")
            continue
        parts, _, total = lines[-1].removeprefix("reward: ").partition(" = ")
        assert float(total) == pytest.approx(reward, rel=1e-5, abs=1e-5)
        assert sum(map(float, parts.split())) == pytest.approx(reward, rel=1e-4, abs=1e-3)
        added = [float(found) for line in lines[:5] for found in re.findall(r"adds ([-+][\d.e+-]+)$", line)]
        assert added == [float(part) for part in parts.split()]


def test_every_way_to_a_number_is_told() -> None:
    rows: list[dict[str, Outcome]] = [
        {"a": Score(1), "b": Score(4), "c": Score(5), "d": Score(1)},
        {"a": Score(3), "b": Abstain("no opinion"), "c": Score(5), "d": Score(0)},
        {"a": Failed("timeout", "9 s"), "b": Failed("crashed"), "c": Abstain(), "d": Score(1)},
    ]
    first, second, third = (said(EVERYTHING, rows, number) for number in range(3))
    assert first[0] == (
        "a: raw 1, less the running mean 0.333333 of domain 'x', over the standard deviation 3.05505, is 0.218218, "
        "times the weight 0.5 and the verifiable share 0.7 adds +0.0763763"
    )
    assert first[1].startswith("b: raw 4, less the first samples' mean of 4 is 0, times the weight 1")
    assert first[2] == "c: raw 5, cut to 2, times the weight 1 and the judged share 0.3 adds +0.6"
    assert first[3:6] == ["length: at 7 tokens, adds -0.7", "repetition: adds -0.5", "d: score 1 (recorded only)"]
    assert second[1] == "b: abstained: no opinion: it is skipped"
    assert second[2].startswith("c: raw 5, but its gate is closed (d: score 0; it must be at least 1), and 0.25 stands")
    assert third[0].startswith("a: failed: timeout (9 s), which counts as raw -3, less")
    assert third[1] == "b: failed: crashed: the row is dropped and trains nothing"
    assert third[2].startswith("c: its gate is closed (a: failed: timeout (9 s); it must be at least 0), and 0 stands")
    assert third[-1] == "reward: none"


def test_a_plain_reward_is_told_plainly() -> None:
    assert said(Reward(), [{"rule": Score(0.5)}], 0) == [
        "rule: raw 0.5, times the weight 1 adds +0.5",
        "reward: +0.5 = 0.5",
    ]
    assert said(Reward(), [{"rule": Abstain()}], 0)[-1] == "reward: none, because nothing was scored"
    alone = Reward(components={"rule": Component(normalise=ZScore())})
    assert "where there is one score or no spread, is 0" in said(alone, [{"rule": Score(0.5)}], 0)[0]
