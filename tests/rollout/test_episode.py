"""From prompts to samples: seeds, order, failures and counts, on the scripted engine."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Completion, Request
from ropewalk.records.version import PolicyVersion
from ropewalk.rollout.episode import requests
from ropewalk.rollout.protocol import Joining
from tests.fakes import Answer, ScriptedEngine
from tests.rollout.helpers import collect, settings

VERSION = PolicyVersion(3, "three")


def ask(prompts: int = 3, group_size: int = 2, run_seed: int = 0, iteration: int = 0) -> list[Request]:
    pairs = [(Prompt(f"p{n}", "text"), np.arange(1 + n)) for n in range(prompts)]
    return requests(pairs, group_size=group_size, sampling=settings(), run_seed=run_seed, iteration=iteration)


def engine(script: object = None, slots: int = 4) -> ScriptedEngine:
    made = ScriptedEngine(slots=slots) if script is None else ScriptedEngine(script, slots)  # type: ignore[arg-type]
    made.publish(None, VERSION)
    return made


def test_seeds_are_of_run_iteration_prompt_and_index() -> None:
    """Fault B6: all different, the same again, and others for another run or iteration."""
    seeds = [r.seed for r in ask()]
    assert len(set(seeds)) == 6
    assert seeds == [r.seed for r in ask()]
    assert set(seeds).isdisjoint(r.seed for r in ask(run_seed=1))
    assert set(seeds).isdisjoint(r.seed for r in ask(iteration=1))
    assert seeds[:4] == [r.seed for r in ask(prompts=2)]


def test_a_prompt_that_occurs_twice_gives_two_groups_and_no_seed_twice() -> None:
    """Fault B6."""
    pair = (Prompt("p", "text"), np.arange(3))
    asked = requests([pair, pair], group_size=2, sampling=settings(), run_seed=0, iteration=0)
    assert len({r.seed for r in asked}) == 4
    groups = [r.group_id for r in asked]
    assert groups[0] == groups[1] != groups[2] == groups[3]
    assert len({(r.group_id, r.index) for r in asked}) == 4


def test_samples_come_in_the_order_of_the_requests() -> None:
    asked = ask()
    samples = collect(engine(slots=2), asked)
    assert [(s.group_id, s.index, s.seed) for s in samples] == [(r.group_id, r.index, r.seed) for r in asked]
    for sample, request in zip(samples, asked, strict=True):
        prompt = len(request.prompt_ids)
        assert sample.tokens_T[:prompt].tolist() == request.prompt_ids.tolist()
        assert sample.policy_mask_T.tolist() == [False] * prompt + [True] * (len(sample.tokens_T) - prompt)
        assert set(sample.versions_T[prompt:]) == {3}


@dataclass
class Flaky:
    """Fails the given samples a number of times."""

    times: dict[int, int]
    calls: list[int] = field(default_factory=list)

    def __call__(self, request: Request) -> Answer:
        self.calls.append(request.index)
        if self.times.get(request.index, 0) > 0:
            self.times[request.index] -= 1
            return Answer([], finish="failed")
        return Answer([1, 2] if request.index else [1, 2, 3], finish="length" if request.index == 2 else "stop")


def test_failures_are_retried_and_what_still_fails_is_marked() -> None:
    """Fault G12: two finished, one truncated, one that fails for good, one that fails once."""
    flaky = Flaky({3: 99, 4: 1})
    samples = collect(engine(flaky), ask(prompts=1, group_size=5), retries=2)
    assert [s.finish for s in samples] == ["stop", "stop", "length", "failed", "stop"]
    assert [s.completion_tokens for s in samples] == [3, 2, 2, 0, 2]
    assert sorted(flaky.calls) == [0, 1, 2, 3, 3, 3, 4, 4]


def test_too_many_failures_stop_the_run() -> None:
    """Fault G12."""
    with pytest.raises(RunStopped, match="3 of 4 completions failed after 1 retries"):
        collect(engine(Flaky({1: 9, 2: 9, 3: 9})), ask(prompts=1, group_size=4), retries=1)


def test_an_interrupted_collection_leaves_nothing_behind() -> None:
    class Interrupted(ScriptedEngine):
        def stream(self, joining: Joining | None = None) -> Iterator[Completion]:
            yield next(super().stream(joining))
            if self._live:
                raise KeyboardInterrupt

    broken = Interrupted()
    broken.publish(None, VERSION)
    with pytest.raises(KeyboardInterrupt):
        collect(broken, ask())
    assert not broken._waiting and not broken._live


def test_a_paused_engine_cannot_be_collected_from() -> None:
    paused = engine()
    paused.pause()
    with pytest.raises(InputError, match="paused"):
        collect(paused, ask())
