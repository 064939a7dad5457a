"""From prompts to samples: which requests are made, and how an engine answers them.

Every request is answered by exactly one completion, which is heard as soon as it ends. A failed one is asked for
again a bounded number of times; what still fails is heard as `failed`, and too many of them stop the run.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Completion, Request, SamplingRecord
from ropewalk.records.version import sample_seed
from ropewalk.rollout.inbox import Inbox
from ropewalk.rollout.protocol import RolloutEngine

Key: TypeAlias = tuple[str, int]
RETRIES = 2
"""How often a failed completion is asked for again."""


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


def answer(engine: RolloutEngine, inbox: Inbox, heard: Callable[[Completion], None], *, retries: int = RETRIES) -> None:
    """Complete what comes through the inbox until it is closed; requests join between two tokens.

    Interrupted in the middle, by whatever is raised in `heard` too, it leaves the engine with nothing running.
    """
    open_requests = 0
    tried: Counter[Key] = Counter()

    def joining() -> Sequence[Request]:
        nonlocal open_requests
        taken = inbox.take(wait=False) or ()
        open_requests += len(taken)
        return taken

    whole = False
    try:
        while (asked := inbox.take(wait=True)) is not None:
            open_requests += len(asked)
            engine.submit(asked)
            for completion in engine.stream(joining):
                key = key_of(completion.request)
                if completion.finish == "failed" and tried[key] < retries:
                    tried[key] += 1
                    engine.submit([completion.request])
                    continue
                tried.pop(key, None)
                open_requests -= 1
                heard(completion)
            if open_requests:
                raise InputError("the engine is paused, so samples cannot be collected: resume it first")
        whole = True
    finally:
        if not whole:
            engine.abort()
            for _ in engine.stream():
                pass


def completions(engine: RolloutEngine, asked: Sequence[Request], *, retries: int = RETRIES) -> list[Completion]:
    """One completion per request, in order; what still fails after the retries is among them."""
    done: dict[Key, Completion] = {}
    inbox = Inbox(asked)
    inbox.close()
    answer(engine, inbox, lambda completion: done.update({key_of(completion.request): completion}), retries=retries)
    return [done[key_of(request)] for request in asked]


def check_failed(failed: int, asked: int, *, retries: int = RETRIES, most_failed_share: float = 0.5) -> None:
    """Raises `RunStopped` if more than this share of what was asked has failed."""
    if failed > most_failed_share * asked:
        raise RunStopped(
            f"{failed} of {asked} completions failed after {retries} retries: see to the engine, then resume"
        )


def key_of(request: Request) -> Key:
    """What tells a request from all others that are in the engine with it."""
    return request.group_id, request.index
