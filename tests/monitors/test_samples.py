"""Kept samples: bounded, unbiased where they say so, with the extremes of every iteration."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from ropewalk.monitors.config import Record
from ropewalk.monitors.samples import choose, sample_record
from ropewalk.records.prompt import Message
from ropewalk.records.sample import Sample, SamplingRecord
from ropewalk.records.score import Abstain, Failed, Score


def sample() -> Sample:
    return Sample(
        prompt_id="p1",
        group_id="g1",
        index=2,
        seed=7,
        tokens_T=np.array([1, 2, 3, 4]),
        policy_mask_T=np.array([False, False, True, True]),
        logprobs_T=np.array([np.nan, np.nan, -0.5, -1.0], np.float32),
        versions_T=np.array([-1, -1, 8, 9]),
        finish="stop",
        sampling=SamplingRecord(temperature=1.0, max_new_tokens=8, eos_ids=(0,)),
        text="hello",
        scores={"truth": Score(2), "judge": Abstain("no idea"), "rule": Failed("timeout", "5 s"), "none": Abstain()},
    )


def test_the_record_holds_text_scores_versions_and_kl() -> None:
    record = sample_record(
        sample(),
        iteration=3,
        kept="extreme",
        prompt=(Message("system", "be kind"), Message("user", "hi")),
        reward=None,
        kl=1.5,
    )
    assert record == {
        "iteration": 3,
        "kept": "extreme",
        "prompt_id": "p1",
        "group_id": "g1",
        "index": 2,
        "version": 8,
        "version_last": 9,
        "prompt": "system:\nbe kind\n\nuser:\nhi",
        "completion": "hello",
        "reward": None,
        "scores": {
            "truth": 2.0,
            "judge": "abstained: no idea",
            "rule": "failed (timeout): 5 s",
            "none": "abstained",
        },
        "kl": 1.5,
        "finish": "stop",
        "tokens": 2,
    }


@given(
    st.lists(st.none() | st.floats(-5, 5), max_size=80),
    st.integers(1, 30),
    st.booleans(),
    st.integers(1, 10),
    st.integers(1, 40),
    st.integers(0, 4),
)
def test_bounded_and_with_the_extremes(
    rewards: list[float | None], iteration: int, last: bool, every: int, limit: int, extremes: int
) -> None:
    """Fault O2: an iteration keeps at most `samples_limit` + 2 · `extreme_samples`."""
    config = Record(samples_every=every, samples_limit=limit, extreme_samples=extremes)
    kept = choose(rewards, iteration, config, last=last)
    assert list(kept) == sorted(kept) and all(0 <= index < len(rewards) for index in kept)
    spread = [index for index, why in kept.items() if why == "spread"]
    whole = last or iteration == 1 or iteration % every == 0
    assert len(spread) == (min(limit, len(rewards)) if whole else 0)
    assert len(kept) <= len(spread) + 2 * extremes
    known = sorted(reward for reward in rewards if reward is not None)
    values = [rewards[index] for index in kept]
    for reward in known[:extremes] + (known[-extremes:] if extremes else []):
        assert reward in values


def test_the_spread_is_even() -> None:
    kept = choose([0.0] * 100, 10, Record(samples_limit=10, extreme_samples=0))
    assert list(kept) == list(range(0, 100, 10))
