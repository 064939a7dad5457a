import math
from typing import Any

import numpy as np
import pytest

from ropewalk.records.errors import InputError
from ropewalk.records.sample import Completion, Request, Sample, SamplingRecord, sample_of
from ropewalk.records.score import Abstain, Score
from ropewalk.records.version import sample_seed

SAMPLING = SamplingRecord(temperature=1.0, max_new_tokens=3, eos_ids=(2,), banned_ids=(0,))


def completion(**changes: Any) -> Completion:
    request = Request("p", "g", 1, 9, np.array([5, 6, 7]), SAMPLING)
    fields: dict[str, Any] = {
        "request": request,
        "token_ids": np.array([8, 2]),
        "logprobs": np.array([-0.5, -1.5], np.float32),
        "versions": np.array([4, 5]),
        "finish": "stop",
        "text": "x",
    }
    return Completion(**{**fields, **changes})


def test_a_sample_is_prompt_then_sampled_ids() -> None:
    sample = sample_of(completion())
    assert sample.tokens_T.tolist() == [5, 6, 7, 8, 2]
    assert sample.policy_mask_T.tolist() == [False] * 3 + [True] * 2
    assert sample.versions_T.tolist() == [-1, -1, -1, 4, 5]
    assert np.isnan(sample.logprobs_T[:3]).all() and sample.logprobs_T[3:].tolist() == [-0.5, -1.5]
    assert sample.completion_tokens == 2


def test_arrays_belong_together() -> None:
    with pytest.raises(InputError, match="unequal lengths"):
        sample_of(completion(versions=np.array([4])))
    with pytest.raises(InputError, match="without a finite log-prob"):
        sample_of(completion(logprobs=np.array([-0.5, math.nan], np.float32)))


def test_scores_are_added_not_changed() -> None:
    sample: Sample = sample_of(completion()).with_scores(rule=Score(True))
    assert sample.with_scores(other=Abstain()).scores == {"rule": Score(1.0), "other": Abstain()}
    assert sample.scores == {"rule": Score(1.0)}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_score_is_finite(value: float) -> None:
    with pytest.raises(InputError, match="finite"):
        Score(value)


def test_sampling_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(InputError, match="both end-of-sequence and banned"):
        SamplingRecord(1.0, 3, eos_ids=(1, 2), banned_ids=(2,))
    for temperature, tokens in ((-1.0, 3), (1.0, 0)):
        with pytest.raises(InputError, match="temperature >= 0"):
            SamplingRecord(temperature, tokens, eos_ids=())


def test_seeds_differ_in_every_part_and_fit_63_bits() -> None:
    grid = [(r, i, p, k) for r in range(3) for i in range(3) for p in ("a", "b", "1", "11") for k in range(3)]
    seeds = [sample_seed(*parts) for parts in grid]
    assert len(set(seeds)) == len(grid) and all(0 <= seed < 2**63 for seed in seeds)
    assert sample_seed(0, 0, "a", 0) == seeds[0]
