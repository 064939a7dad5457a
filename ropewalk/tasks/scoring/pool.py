"""Scores finished samples one by one, beside whoever makes them.

    whoever samples ── put ──▶ waiting ──▶ worker threads ──▶ scored ── results ──▶ in the order of their places
                               (bounded)   score_sample

What holds: the results are those of `run.score_sample`, whatever the number of workers and the order of `put`. A
scorer is asked by one thread at a time, not always the same one, unless it is marked `AtOnce`. A slow scorer holds up
nobody until `most_waiting` samples wait for it; then `put` waits too. What a scorer raises (InputError, RunStopped)
ends the pool and is raised by the next `put` or `results`.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Outcome
from ropewalk.tasks.scoring.run import score_sample
from ropewalk.tasks.task import AtOnce, Scorer, Task

MOST_WAITING = 8192
GRACE_SECONDS = 1.0
"""How long an error waits for what is being scored just then. A scorer that hangs holds up no Ctrl-C for longer."""

Busy = Callable[[int], AbstractContextManager[None]]
"""Entered by a worker, by its number, for a stretch of scoring without a pause."""


@dataclass(frozen=True, slots=True)
class _Job:
    place: int
    prompt: Prompt
    sample: Sample


class ScorerPool:
    """Threads that score a task's samples.

    Leaving its block ends them. After an error one that a scorer holds for more than `GRACE_SECONDS` ends after it.
    """

    def __init__(
        self,
        task: Task,
        *,
        workers: int,
        busy: Busy = lambda _: nullcontext(),
        most_waiting: int = MOST_WAITING,
    ) -> None:
        turn = threading.Lock()
        scorers = {name: s if isinstance(s, AtOnce) else _InTurn(s, turn) for name, s in task.scorers.items()}
        self._task = replace(task, scorers=scorers)
        self._busy, self._most_waiting = busy, most_waiting
        self._changed = threading.Condition()
        self._waiting: deque[_Job] = deque()
        self._scored: dict[int, Sample] = {}
        self._asked = 0
        self._error: BaseException | None = None
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, args=(n,), name=f"ropewalk-scorer-{n}", daemon=True)
            for n in range(workers)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
        deadline = None if kind is None else time.monotonic() + GRACE_SECONDS
        for thread in self._threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def put(self, place: int, prompt: Prompt, sample: Sample) -> None:
        """Hand in a sample; `place` is where it stands among the results. From any thread."""
        with self._changed:
            while len(self._waiting) >= self._most_waiting and self._error is None:
                self._changed.wait()
            self._raise()
            self._asked += 1
            self._waiting.append(_Job(place, prompt, sample))
            self._changed.notify_all()

    def results(self) -> list[Sample]:
        """All samples handed in so far, scored, in the order of their places."""
        with self._changed:
            while len(self._scored) < self._asked and self._error is None:
                self._changed.wait()
            self._raise()
            return [self._scored[place] for place in sorted(self._scored)]

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _work(self, number: int) -> None:
        while (job := self._next(wait=True)) is not None:
            with self._busy(number):
                while job is not None:
                    self._score(job)
                    job = self._next(wait=False)

    def _next(self, *, wait: bool) -> _Job | None:
        """The next sample to score; None if there is none, or, waiting, if there will be none."""
        with self._changed:
            while wait and not (self._waiting or self._closed or self._error):
                self._changed.wait()
            if not self._waiting or self._closed or self._error:
                return None
            job = self._waiting.popleft()
            self._changed.notify_all()
            return job

    def _score(self, job: _Job) -> None:
        try:
            scored = score_sample(self._task, job.prompt, job.sample)
        except BaseException as error:  # noqa: BLE001  (a thread's boundary: it is raised again where results are asked)
            with self._changed:
                self._error = self._error or error
                self._changed.notify_all()
            return
        with self._changed:
            self._scored[job.place] = scored
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class _InTurn:
    """A scorer that is asked by one thread at a time."""

    scorer: Scorer
    turn: threading.Lock
    """One for all such scorers of a pool: they may share what they keep."""

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome | float | bool | None:
        with self.turn:
            return self.scorer(prompt, sample)
