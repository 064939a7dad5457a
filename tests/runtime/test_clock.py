"""The clock and its spans, from many threads."""

import threading

import pytest

from ropewalk.records.span import Span
from ropewalk.runtime.book import _seconds
from ropewalk.runtime.clock import Stopwatch
from ropewalk.runtime.stretches import MOST_SPANS, WORKED, Stretches


def test_no_span_of_any_thread_is_lost() -> None:
    """While another takes them."""
    watch, taken, over = Stopwatch(), [], threading.Event()

    def work(number: int) -> None:
        for _ in range(200):
            with watch.span("score", f"scorers/{number}"):
                pass

    def take() -> None:
        while not over.is_set():
            taken.extend(watch.take())

    taker = threading.Thread(target=take)
    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in (taker, *workers):
        thread.start()
    for thread in workers:
        thread.join()
    over.set()
    taker.join()
    assert len(taken) + len(watch.take()) == 1200


def test_many_small_pieces_are_few_spans_with_the_time_worked() -> None:
    watch = Stopwatch()
    stretches = Stretches(watch)
    stretches.pieces = [(n % 2, n * 0.01, n * 0.01 + 0.004) for n in range(1000)] + [(0, 20.0, 21.0)]
    stretches.write()
    spans = watch.take()
    assert [(s.lane, s.start_seconds, pytest.approx(s.end_seconds)) for s in spans] == [
        ("scorers/0", 0.0, 9.984),
        ("scorers/0", 20.0, 21.0),
        ("scorers/1", 0.01, 9.994),
    ]
    assert [s.info[WORKED] for s in spans] == pytest.approx([2.0, 1.0, 2.0])
    for gaps in range(1, 60):
        stretches.pieces = [(3, float(n), n + 0.1) for n in range(gaps)]
        stretches.write()
        assert len(watch.take()) <= MOST_SPANS


def test_the_times_of_calls_add_up() -> None:
    """What the controller waits for is the generation's, and scoring beside it is what was worked."""
    spans = [
        Span("gather", "controller", 0.0, 10.0),
        Span("generate", "actor", 1.0, 9.0),
        Span("score", "scorers/0", 2.0, 9.5, {WORKED: 0.5}),
        Span("actor_train", "actor", 10.0, 12.0),
        Span("evaluate", "controller", 12.0, 15.0),
        Span("generate", "actor", 12.0, 14.0),
    ]
    found = {name: metric.value for name, metric in _seconds(spans).items()}
    assert found == {
        "time/gather_seconds": 2.0,
        "time/generate_seconds": 10.0,
        "time/score_seconds": 0.5,
        "time/actor_train_seconds": 2.0,
        "time/evaluate_seconds": 1.0,
    }
