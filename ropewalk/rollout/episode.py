"""From prompts to samples: which requests are made, and what becomes of their completions.

Every request yields exactly one sample, in the order of the requests. A failed completion is asked for again a
bounded number of times; what still fails stays in the list as `failed`, and too many of them stop the run.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Completion, Request, Sample, SamplingRecord, sample_of
from ropewalk.records.version import sample_seed
from ropewalk.rollout.protocol import RolloutEngine


def requests(
    prompts: Sequence[tuple[Prompt, npt.NDArray[np.int64]]],
    *,
    group_size: int,
    sampling: SamplingRecord,
    run_seed: int,
    iteration: int,
    earlier: Sequence[str] = (),
) -> list[Request]:
    """`group_size` requests for each prompt with its ids, group by group.

    Seeds come from (run seed, iteration, prompt id, sample index). A prompt that occurs twice in an iteration gives
    two groups whose sample indices go on counting, so that no two requests share a seed; `earlier` are the ids of the
    prompts that were asked in this iteration before.
    """
    asked: list[Request] = []
    seen = Counter(earlier)
    for prompt, ids in prompts:
        occurrence = seen[prompt.id]
        seen[prompt.id] += 1
        group = f"{iteration}/{prompt.id}" + (f"#{occurrence}" if occurrence else "")
        for index in range(occurrence * group_size, (occurrence + 1) * group_size):
            seed = sample_seed(run_seed, iteration, prompt.id, index)
            asked.append(Request(prompt.id, group, index, seed, np.asarray(ids, np.int64), sampling))
    return asked


def collect(
    engine: RolloutEngine, asked: Sequence[Request], *, retries: int = 2, most_failed_share: float = 0.5
) -> list[Sample]:
    """One sample per request, in order. Raises `RunStopped` if more than this share still fails after the retries.

    Interrupted in the middle, it leaves the engine with nothing running.
    """
    done: dict[tuple[str, int], Completion] = {}
    open_requests = list(asked)
    for _ in range(1 + retries):
        done |= _completions(engine, open_requests)
        open_requests = [r for r in open_requests if done[r.group_id, r.index].finish == "failed"]
        if not open_requests:
            break
    if len(open_requests) > most_failed_share * len(asked):
        raise RunStopped(
            f"{len(open_requests)} of {len(asked)} completions failed after {retries} retries: see to the engine, "
            "then resume"
        )
    return [sample_of(done[request.group_id, request.index]) for request in asked]


def _completions(engine: RolloutEngine, asked: Sequence[Request]) -> dict[tuple[str, int], Completion]:
    engine.submit(asked)
    whole = False
    try:
        done = {(c.request.group_id, c.request.index): c for c in engine.stream()}
        if not all((request.group_id, request.index) in done for request in asked):
            raise InputError("the engine is paused, so samples cannot be collected: resume it first")
        whole = True
    finally:
        if not whole:
            engine.abort()
    return done
