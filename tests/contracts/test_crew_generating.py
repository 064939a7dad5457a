"""What every crew promises while it generates: completions heard as they end, requests that join, and clean ends."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.sample import Completion, Request
from ropewalk.rollout.episode import Key, completions, key_of
from ropewalk.rollout.inbox import Abandoned, Inbox
from ropewalk.runtime.crew import Crew, complete
from ropewalk.runtime.hosts.inline import InlineCrew
from ropewalk.runtime.hosts.local import LocalCrew
from tests.contracts.asking import samples_of
from tests.contracts.test_crew import HOSTS, PROCESSES, alive, asked, pids, setup


@pytest.fixture(scope="module", params=list(HOSTS))
def crew(request: pytest.FixtureRequest) -> Iterator[Crew]:
    host = str(request.param)
    opened = HOSTS[host](setup(PROCESSES[host]))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def alone() -> InlineCrew:
    return InlineCrew(setup(1))


def said(completion: Completion) -> list[int]:
    return list(completion.token_ids.tolist())


def expected(alone: InlineCrew, requests: list[Request]) -> dict[Key, list[int]]:
    """What an engine says to these, asked all at once."""
    assert alone.worker.engine is not None
    return {key_of(c.request): c.token_ids.tolist() for c in completions(alone.worker.engine, requests)}


def nothing_runs(crew: Crew) -> bool:
    """Of ranks in other processes it shows in the next answers."""
    if isinstance(crew, InlineCrew):
        assert crew.worker.engine is not None
        return crew.worker.engine._scheduler.idle and not crew.worker.engine._ready
    return True


def follow_up(completion: Completion) -> Request:
    """Another turn: the conversation so far, and a seed of its own."""
    request = completion.request
    ids = np.concatenate([request.prompt_ids, completion.token_ids])
    return replace(request, prompt_ids=ids, seed=request.seed + 1)


def test_completions_are_heard_one_by_one_and_are_those_of_an_engine(crew: Crew, alone: InlineCrew) -> None:
    """Not in the order asked, but as they end; each once."""
    lengths = (8, 1, 5, 2)
    requests = [
        replace(request, sampling=replace(request.sampling, max_new_tokens=lengths[request.index]))
        for request in asked(4, 4)
    ]
    inbox = Inbox(requests)
    inbox.close()
    heard: list[Completion] = []
    future = crew.generate(inbox, heard.append)
    future.result()
    assert {key_of(c.request): said(c) for c in heard} == expected(alone, requests)
    assert len(heard) == len(requests)
    assert [key_of(c.request) for c in heard] != [key_of(r) for r in requests]


def test_requests_join_from_whoever_hears_and_from_any_thread(crew: Crew, alone: InlineCrew) -> None:
    """A second turn after each first one, put in by the hearing thread or, later, by another; equal to being asked
    all at once, on one rank and on two."""
    requests = asked(3, 3)
    inbox = Inbox(requests)
    heard: list[Completion] = []
    helpers: list[threading.Thread] = []

    def later(request: Request) -> None:
        time.sleep(0.02)
        inbox.put([request])

    def hear(completion: Completion) -> None:
        heard.append(completion)
        if len(completion.request.prompt_ids) <= 3:  # a first turn
            request = follow_up(completion)
            if request.index % 2:
                inbox.put([request])
            else:
                helpers.append(threading.Thread(target=later, args=(request,)))
                helpers[-1].start()
        if len(heard) == 2 * len(requests):
            inbox.close()

    complete(crew, inbox, hear)
    for helper in helpers:
        helper.join()
    first = [c for c in heard if len(c.request.prompt_ids) <= 3]
    second = [c for c in heard if len(c.request.prompt_ids) > 3]
    assert {key_of(c.request): said(c) for c in first} == expected(alone, requests)
    turns = sorted((follow_up(c) for c in first), key=key_of)
    assert {key_of(c.request): said(c) for c in second} == expected(alone, turns)
    assert nothing_runs(crew)


def test_what_is_raised_while_hearing_ends_the_generation_and_nothing_else(crew: Crew, alone: InlineCrew) -> None:
    """The very exception comes back, what ran is aborted, and the crew generates as before."""
    error = InputError("the scorer is broken: mend it")

    def hear(_: Completion) -> None:
        raise error

    inbox = Inbox(asked(8, 8))
    with pytest.raises(InputError) as caught:
        complete(crew, inbox, hear)
    assert caught.value is error
    with pytest.raises(Abandoned):
        inbox.put(asked(1, 1))
    assert nothing_runs(crew)
    samples = samples_of(crew, asked())
    assert [s.tokens_T[s.policy_mask_T].tolist() for s in samples] == list(expected(alone, asked()).values())


def test_an_abandoned_generation_ends_at_once(crew: Crew) -> None:
    """Though the inbox is never closed and somebody still holds a conversation."""
    inbox = Inbox(asked(2, 2))
    heard: list[Completion] = []

    def hear(completion: Completion) -> None:
        heard.append(completion)
        if len(heard) == 4:  # all answered: it waits for more
            threading.Timer(0.05, inbox.abandon).start()

    started = time.monotonic()
    with pytest.raises(Abandoned):
        crew.generate(inbox, hear).result()
    assert time.monotonic() - started < 60
    assert len(samples_of(crew, asked(1, 2))) == 2


def test_a_wrong_request_is_an_error_of_the_generation() -> None:
    """Fault J5: the sentence of the engine, on one rank; on many it ends the crew, as every failed rank does."""
    long = replace(asked(1, 1)[0], prompt_ids=np.ones(40, np.int64))
    for host in HOSTS:
        opened = HOSTS[host](setup(PROCESSES[host]))
        try:
            with pytest.raises(InputError, match="has 40 tokens, the model 32 positions"):
                samples_of(opened, [long])
        finally:
            opened.close()


def test_ctrl_c_while_generating_leaves_nothing_running() -> None:
    """Inline, the driver itself generates: the interrupt goes through it and leaves the engine empty."""
    crew = InlineCrew(setup(1))

    def hear(_: Completion) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        complete(crew, Inbox(asked(8, 8)), hear)
    assert nothing_runs(crew)
    assert len(samples_of(crew, asked())) == 9


def test_a_rank_that_dies_while_generating_ends_it_with_one_sentence() -> None:
    """Fault J3: nobody waits for what it would have said; no process is left."""
    crew = LocalCrew(setup(2))
    ranks = pids(crew)
    inbox = Inbox(asked(4, 4))  # never closed: without the death it would wait for ever

    def hear(_: Completion) -> None:
        if alive(ranks[1]):
            os.kill(ranks[1], signal.SIGKILL)

    started = time.monotonic()
    with pytest.raises(RunStopped, match=r"^rank 1 ended with exit code -9: resume the run from its newest checkpoint"):
        complete(crew, inbox, hear)
    with pytest.raises(RunStopped, match="the crew has ended"):
        samples_of(crew, asked(1, 1))
    crew.close()
    assert time.monotonic() - started < 60
    assert not any(alive(pid) for pid in ranks)


def generation(crew: Crew, rng: np.random.Generator) -> None:
    """Two turns of some requests, that end well, by an exception while hearing, or abandoned at some moment."""
    requests = asked(int(rng.integers(1, 5)), int(rng.integers(1, 5)))
    inbox, heard = Inbox(requests), 0
    how, at = str(rng.choice(["well", "raises", "abandoned"])), int(rng.integers(1, 2 * len(requests) + 1))

    def hear(completion: Completion) -> None:
        nonlocal heard
        heard += 1
        if how == "raises" and heard == at:
            raise ZeroDivisionError
        if len(completion.request.prompt_ids) <= 3:
            inbox.put([follow_up(completion)])
        if heard == 2 * len(requests) and how != "abandoned":
            inbox.close()

    timer = threading.Timer(float(rng.uniform(0, 0.05)), inbox.abandon)
    if how == "abandoned":
        timer.start()
    try:
        complete(crew, inbox, hear)
    except ZeroDivisionError:
        assert how == "raises"
    except Abandoned:
        assert how == "abandoned"
    else:
        assert how == "well" and heard == 2 * len(requests)


@pytest.mark.slow
def test_whatever_happens_the_crew_generates_as_before(crew: Crew, alone: InlineCrew) -> None:
    """Fault J3: generations with every kind of end, one after the other on one crew; none hangs, none leaves anything
    for the next."""
    wanted = list(expected(alone, asked(3, 3)).values())
    rng = np.random.default_rng(0)
    for _ in range(10):
        for _ in range(6):
            generation(crew, rng)
        samples = samples_of(crew, asked(3, 3))
        assert [s.tokens_T[s.policy_mask_T].tolist() for s in samples] == wanted
    assert nothing_runs(crew)
