"""Which groups are trained on: by the reward as far as it is known, and what was dropped is told."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ropewalk.algorithms.config import KeepUnfinished, MaskUnfinished, PenaliseUnfinished, Unfinished
from ropewalk.config.load import ConfigError
from ropewalk.data.config import DropFlat, RefillFlat
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Abstain, Failed, Outcome, Score
from ropewalk.runtime.flat import FlatRule, Judged, scored_part
from ropewalk.runtime.recipe import load_recipe
from ropewalk.tasks.scoring.config import Component, CosineLength, Gate, NoLength, RepeatedNgrams, Reward, ZScore
from ropewalk.tasks.task import Task
from tests.parity.beds import samples

TRUTH = Reward(components={"truth": Component()})


def drawn(*groups: Sequence[Outcome | float], finish: str = "stop") -> list[Sample]:
    """Samples of one group a row of scores; `length` ends the last of each group."""
    made = samples(groups=len(groups), size=max(map(len, groups)))
    found = []
    for number, scores in enumerate(groups):
        for index, score in enumerate(scores):
            outcome = score if isinstance(score, Score | Abstain | Failed) else Score(score)
            how: Any = finish if index == len(scores) - 1 else "stop"
            sample = replace(made[number], group_id=f"g{number}", prompt_id=f"p{number}", index=index, finish=how)
            found.append(sample.with_scores(truth=outcome))
    return found


def prompts(**info: Any) -> dict[str, Prompt]:
    return {f"p{n}": Prompt(f"p{n}", "?", info={"task": "ab"[n % 2], **info}) for n in range(9)}


def judged(
    given: Sequence[Sample],
    *,
    wanted: int = 2,
    config: DropFlat | RefillFlat | None = None,
    reward: Reward = TRUTH,
    unfinished: Unfinished | None = None,
    now: Mapping[str, Any] | None = None,
) -> Judged:
    rule = FlatRule(config or RefillFlat(), reward, unfinished or KeepUnfinished(), 8)
    return rule.decide(given, prompts(difficulty="hard"), wanted, now or {})


def test_groups_without_variance_are_replaced_within_the_bound() -> None:
    given = drawn([1, 1], [0, 1], [0, 0])
    found = judged(given, wanted=3)
    assert found.kept == {"g1"} and found.decision.dropped == {"g0": "high", "g2": "low"}
    assert (found.decision.draw, found.decision.short) == (2, 0)
    bounded = judged(given, wanted=3, config=RefillFlat(most=1))
    assert (bounded.decision.draw, bounded.decision.short) == (0, 2)


def test_where_no_group_has_variance_the_first_ones_stay_and_are_counted() -> None:
    """Fault Q4: an iteration is never empty, and the rule that ends such a run sees what was drawn."""
    found = judged(drawn([1, 1], [0, 0], [1, 1]), wanted=2, config=DropFlat())
    assert found.kept == {"g0", "g1"}
    assert found.metrics([]).pop("groups_without_signal").value == 1


def test_a_failed_sample_is_no_reward() -> None:
    """Faults G12 and 12: neither 0 nor a sign of variance; lost rollouts count as little."""
    lost = [replace(s, finish="aborted") if s.index else s for s in drawn([1, 0])]
    given = [*drawn([Failed("timeout"), 1, 1]), *lost]
    given = [replace(s, group_id="lost", prompt_id="p1") if n > 2 else s for n, s in enumerate(given)]
    found = judged(given)
    assert found.decision.dropped == {"g0": "middle", "lost": "too_few"}
    stands = Reward(components={"truth": Component(failed=-1.0)})
    assert not judged(drawn([Failed("timeout"), 1, 1]), reward=stands).decision.dropped, "the recipe gives it a score"


@pytest.mark.parametrize(
    ("rule", "dropped"),
    [(KeepUnfinished(), {"g0"}), (PenaliseUnfinished(score=-1), set()), (MaskUnfinished(), {"g0"})],
    ids=["keep", "penalty", "mask"],
)
def test_an_unfinished_sample_counts_as_the_method_counts_it(rule: Unfinished, dropped: set[str]) -> None:
    assert set(judged(drawn([1, 1, 1], finish="length"), unfinished=rule).decision.dropped) == dropped
    assert judged(drawn([0, 1], finish="length"), unfinished=rule).decision.dropped == (
        {"g0": "too_few"} if isinstance(rule, MaskUnfinished) else {}
    )


def test_the_whole_known_reward_is_looked_at() -> None:
    """Weights, gates, clips, and terms of length and repetition all make or unmake a variance."""
    given = [s.with_scores(rule=Score(s.index)) for s in drawn([1, 1])]
    both = {"truth": Component(), "rule": Component(weight=0.5)}
    assert not judged(given, reward=Reward(components=both)).decision.dropped
    assert judged(given, reward=Reward(components={**both, "rule": Component(weight=0)})).decision.dropped
    gated = Component(gates=(Gate(on="rule"),))
    assert not judged(given, reward=Reward(components={"truth": gated})).decision.dropped
    clipped = Component(normalise=ZScore(clip=0.1))
    now = {"truth": {}}
    spread = judged(drawn([4, 5], [0, 0]), reward=Reward(components={"truth": clipped}), now=now)
    assert set(spread.decision.dropped) == {"g0", "g1"}, "the clip makes them equal"
    said = [replace(s, text="so so so so" if s.index else "so it is") for s in drawn([1, 1])]
    assert not judged(said, reward=TRUTH.model_copy(update={"repetition": RepeatedNgrams(words=1)})).decision.dropped


def test_what_was_dropped_is_told_by_source_difficulty_and_length() -> None:
    found = judged(drawn([1, 1], [0, 1], [0, 0]), wanted=3).metrics([4])
    assert found["groups/dropped"].value == found["groups_without_signal"].value == pytest.approx(2 / 3)
    assert (found["groups/dropped/source/a"].value, found["groups/dropped/source/b"].value) == (1, 0)
    assert found["groups/dropped/difficulty/hard"].value == pytest.approx(2 / 3)
    assert (found["groups/dropped/low"].value, found["groups/dropped/high"].value) == (1 / 3, 1 / 3)
    assert found["drawn/reward"].value == 0.5 and found["groups/drawn"].value == 3
    assert {name.rpartition("/")[2] for name in found if "/tokens/" in name} <= {"0-4", "4-"}


def test_what_only_a_model_can_tell_is_left_out() -> None:
    """Also what is gated on it. A reward of nothing else is refused in a sentence."""
    task = Task("t", ["a", "b"], {"truth": lambda prompt, sample: 1.0})
    learned, gated = Component(), Component(gates=(Gate(on="judge"),))
    reward = Reward(
        components={"truth": Component(), "judge": learned}, length=CosineLength(on="judge", limit_tokens=9)
    )
    known = scored_part(reward, task)
    assert list(known.components) == ["truth"] and isinstance(known.length, NoLength)
    assert scored_part(Reward(), task).components == {}, "the task's own reward"
    for components in ({"judge": learned}, {"truth": gated}):
        with pytest.raises(InputError, match="every component of the reward is learned"):
            scored_part(Reward(components=components), task)


@pytest.mark.parametrize("kind", ["drop", "refill"])
@pytest.mark.parametrize("method", ["ppo", "grpo"])
def test_a_group_of_one_has_nothing_to_compare(method: str, kind: str) -> None:
    asked = {"method": method, "start_from": "x", "task": {"kind": "city"}, "rollout": {"flat": {"kind": kind}}}
    with pytest.raises(ConfigError, match="group_size"):
        load_recipe(asked)
    load_recipe({**asked, "rollout": {"flat": {"kind": kind}, "group_size": 2}})
