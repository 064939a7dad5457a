"""The pool: equal to scoring in order, bounded, and every end of it clean."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample, SamplingRecord
from ropewalk.records.score import Abstain, Failed
from ropewalk.tasks.scoring import pool as pool_module
from ropewalk.tasks.scoring.pool import ScorerPool
from ropewalk.tasks.scoring.run import score_sample
from ropewalk.tasks.task import AtOnce, Scorer, Task

SAMPLING = SamplingRecord(1.0, 4, (1,))
PROMPTS = {f"p{n}": Prompt(f"p{n}", "text", info={"domain": "a"} if n % 2 else {}) for n in range(4)}


def sample(number: int, finish: str = "stop") -> Sample:
    return Sample(
        prompt_id=f"p{number % 4}",
        group_id=f"0/p{number % 4}",
        index=number // 4,
        seed=number,
        tokens_T=np.array([5, 6]),
        policy_mask_T=np.array([False, True]),
        logprobs_T=np.array([np.nan, -1.0], np.float32),
        versions_T=np.array([-1, 0]),
        finish=finish,  # type: ignore[arg-type]
        sampling=SAMPLING,
        text=f"answer {number}",
    )


def judge(_: Prompt, judged: Sample) -> float | Abstain | Failed | None:
    number = judged.seed
    time.sleep(0.0005 * (number * 7 % 5))
    if number % 5 == 3:
        raise ValueError("cannot read it")
    return [float(number), None, Abstain("no opinion"), Failed("timeout")][number % 4]


def task(**scorers: Scorer) -> Task:
    return Task("t", list(PROMPTS.values()), scorers)


def put(pool: ScorerPool, samples: list[Sample], order: list[int]) -> None:
    for place in order:
        pool.put(place, PROMPTS[samples[place].prompt_id], samples[place])


@pytest.mark.parametrize("workers", [1, 2, 7])
@pytest.mark.parametrize("at_once", [False, True], ids=["in_turn", "at_once"])
def test_results_are_those_of_scoring_in_order(workers: int, at_once: bool) -> None:
    """Fault G12: for any number of workers and any order; failed and aborted rollouts among them."""
    finishes = ("stop", "length", "failed", "aborted")
    samples = [sample(n, finishes[n % 7 % 4]) for n in range(24)]
    wanted = task(main=AtOnce(judge) if at_once else judge, other=AtOnce(lambda _, s: len(s.text)))
    expected = [score_sample(wanted, PROMPTS[one.prompt_id], one) for one in samples]
    for seed in (0, 1):
        order = np.random.default_rng(seed).permutation(len(samples)).tolist()
        with ScorerPool(wanted, workers=workers) as pool:
            put(pool, samples, order)
            found = pool.results()
        assert [(s.seed, s.scores, s.info) for s in found] == [(s.seed, s.scores, s.info) for s in expected]


def most_at_once(scorer_of: object) -> int:
    """How many threads were in the scorers at the same time; marked ones wait until two are."""
    inside, most, lock, two = 0, 0, threading.Lock(), threading.Event()

    def watching(_: Prompt, __: Sample) -> float:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        if most > 1:
            two.set()
        two.wait(30 if scorer_of == "marked" else 0.01)
        with lock:
            inside -= 1
        return 1.0

    mark = AtOnce if scorer_of == "marked" else (lambda scorer: scorer)
    samples = [sample(n) for n in range(12)]
    with ScorerPool(task(a=mark(watching), b=mark(watching)), workers=4) as pool:
        put(pool, samples, list(range(12)))
        assert len(pool.results()) == 12
    return most


def test_a_scorer_is_asked_by_one_thread_at_a_time_unless_it_is_marked() -> None:
    """Fault G4: what a user wrote for one thread stays right; two of one task may share what they keep."""
    assert most_at_once("plain") == 1
    assert most_at_once("marked") > 1


@pytest.mark.parametrize("kind", [InputError, RunStopped])
def test_what_a_scorer_raises_surfaces_and_ends_the_pool(kind: type[Exception]) -> None:
    """The sentence of the scorer, once, where results are asked or the next sample is put; the threads end."""

    def broken(_: Prompt, judged: Sample) -> float:
        if judged.seed == 3:
            raise kind("the judge's server is gone: start it")
        return 1.0

    with pytest.raises(kind, match="the judge's server is gone"), ScorerPool(task(a=broken), workers=2) as pool:
        put(pool, [sample(n) for n in range(8)], list(range(8)))
        pool.results()
    with pytest.raises(kind, match="server is gone"):
        pool.put(9, PROMPTS["p0"], sample(0))
    for thread in pool._threads:
        thread.join(60)
        assert not thread.is_alive()


def test_a_slow_scorer_holds_up_nobody_until_the_line_is_full() -> None:
    gate = threading.Event()

    def slow(_: Prompt, __: Sample) -> float:
        gate.wait(120)
        return 1.0

    samples = [sample(n) for n in range(8)]
    with ScorerPool(task(a=slow), workers=2, most_waiting=4) as pool:
        started = time.monotonic()
        put(pool, samples, list(range(6)))  # two are being scored, four wait
        assert time.monotonic() - started < 60
        late = threading.Thread(target=put, args=(pool, samples, [6, 7]))
        late.start()
        late.join(0.1)
        assert late.is_alive(), "the line is bounded"
        gate.set()
        late.join(60)
        assert len(pool.results()) == 8


def test_leaving_by_an_error_waits_for_no_scorer() -> None:
    """Ctrl-C while a scorer hangs."""
    gate = threading.Event()

    def hangs(_: Prompt, __: Sample) -> float:
        gate.wait(120)
        return 1.0

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), ScorerPool(task(a=hangs), workers=1) as pool:
        pool.put(0, PROMPTS["p0"], sample(0))
        time.sleep(0.05)
        raise KeyboardInterrupt
    assert time.monotonic() - started < 60
    gate.set()
    for thread in pool._threads:
        thread.join(60)
        assert not thread.is_alive()


def test_leaving_by_an_error_waits_for_what_is_about_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault J3: an error elsewhere leaves no thread behind that would still read or write."""
    monkeypatch.setattr(pool_module, "GRACE_SECONDS", 60.0)
    begun = threading.Event()

    def slow(_: Prompt, __: Sample) -> float:
        begun.set()
        time.sleep(0.2)
        return 1.0

    with pytest.raises(ZeroDivisionError), ScorerPool(task(a=slow), workers=3) as pool:
        pool.put(0, PROMPTS["p0"], sample(0))
        begun.wait(60)
        raise ZeroDivisionError
    assert not [thread.name for thread in pool._threads if thread.is_alive()]


def test_stretches_of_scoring_are_told_by_worker() -> None:
    stretches: list[tuple[int, float, float]] = []

    @contextmanager
    def busy(worker: int) -> Iterator[None]:
        start = time.monotonic()
        yield
        stretches.append((worker, start, time.monotonic()))

    with ScorerPool(task(a=AtOnce(judge)), workers=2, busy=busy) as pool:
        put(pool, [sample(n) for n in range(8)], list(range(8)))
        pool.results()
    assert {worker for worker, _, _ in stretches} <= {0, 1} and stretches
    assert all(end >= start for _, start, end in stretches)
    assert len(stretches) <= 8


def test_nothing_put_is_nothing_scored() -> None:
    with ScorerPool(task(a=judge), workers=3) as pool:
        assert pool.results() == []
