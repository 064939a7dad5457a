"""The run's clock and its spans: one place that knows what time it is. From any thread."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ropewalk.records.span import Span


@dataclass
class Stopwatch:
    """Measures spans in seconds since the run's start; `earlier_seconds` are those of sessions before a resume."""

    earlier_seconds: float = 0.0
    started: float = field(default_factory=time.perf_counter)
    spans: list[Span] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def restart(self, earlier_seconds: float) -> None:
        """Begin again at zero, after so many seconds of earlier sessions; what was measured before is dropped."""
        self.earlier_seconds, self.started = earlier_seconds, time.perf_counter()
        self.take()

    def seconds(self) -> float:
        return self.earlier_seconds + time.perf_counter() - self.started

    @contextmanager
    def span(self, name: str, lane: str = "controller") -> Iterator[None]:
        start = self.seconds()
        try:
            yield
        finally:
            self.add(Span(name, lane, start, self.seconds()))

    def follow(self, name: str, lane: str, send: Callable[[], Future[Any]]) -> Future[Any]:
        """Send a call; its span ends when its answer is there, whoever waits for it."""
        start = self.seconds()
        future = send()
        future.add_done_callback(lambda _: self.add(Span(name, lane, start, self.seconds())))
        return future

    def take(self) -> list[Span]:
        """The spans since the last call."""
        with self._lock:
            spans, self.spans = self.spans, []
            return spans

    def add(self, span: Span) -> None:
        with self._lock:
            self.spans.append(span)
