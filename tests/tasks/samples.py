"""Samples for scorer tests: only text and finish reason matter there."""

import numpy as np

from ropewalk.records.sample import Finish, Sample, SamplingRecord


def sample(text: str, *, finish: Finish = "stop", prompt_id: str = "p", index: int = 0, group_id: str = "g") -> Sample:
    return Sample(
        prompt_id=prompt_id,
        group_id=group_id,
        index=index,
        seed=0,
        tokens_T=np.array([1, 2]),
        policy_mask_T=np.array([False, True]),
        logprobs_T=np.array([np.nan, -1.0], np.float32),
        versions_T=np.array([-1, 0]),
        finish=finish,
        sampling=SamplingRecord(temperature=1.0, max_new_tokens=8, eos_ids=(0,)),
        text=text,
    )
