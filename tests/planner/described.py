"""Where the reference cases lie, and samples to take lengths from."""

from pathlib import Path

import numpy as np

from ropewalk.records.sample import Sample, SamplingRecord

CASES = (16, 32, 128)
"""The reference cases, by their number of GPUs."""


def case_file(gpus: int) -> Path:
    return Path(__file__).parent / "cases" / f"{gpus}.toml"


def recorded_sample(prompt: int, answer: int) -> Sample:
    """A sample with so many tokens of each part."""
    total = prompt + answer
    mask = np.arange(total) >= prompt
    return Sample(
        prompt_id="p",
        group_id="g",
        index=0,
        seed=0,
        tokens_T=np.zeros(total, np.int64),
        policy_mask_T=mask,
        logprobs_T=np.where(mask, -1.0, np.nan).astype(np.float32),
        versions_T=np.where(mask, 0, -1).astype(np.int64),
        finish="stop",
        sampling=SamplingRecord(1.0, answer, ()),
        text="",
    )
