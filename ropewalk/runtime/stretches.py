"""Work of many small pieces as few spans: pieces of one worker that are near each other are one span."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ropewalk.records.span import Span
from ropewalk.runtime.clock import Stopwatch

MOST_SPANS = 20
"""Of one worker: pauses shorter than such a part of the whole do not split a span."""
WORKED = "worked_seconds"
"""Key of `Span.info`: how long was worked in a span that has pauses in it."""


@dataclass
class Stretches:
    """When each worker scored, from the first piece to the last. Workers may be threads."""

    watch: Stopwatch
    pieces: list[tuple[int, float, float]] = field(default_factory=list)
    """Worker, start and end."""

    @contextmanager
    def busy(self, worker: int) -> Iterator[None]:
        """Entered by a worker for a piece of work."""
        start = self.watch.seconds()
        try:
            yield
        finally:
            self.pieces.append((worker, start, self.watch.seconds()))

    def write(self) -> None:
        """Hand the spans to the clock, a lane for each worker."""
        pieces = sorted(self.pieces)
        whole = max((end for _, _, end in pieces), default=0.0) - min((start for _, start, _ in pieces), default=0.0)
        for worker in sorted({worker for worker, _, _ in pieces}):
            own = [(start, end) for one, start, end in pieces if one == worker]
            begin, until, worked = own[0][0], own[0][0], 0.0
            for start, end in own:
                if start - until > whole / MOST_SPANS:
                    self._add(worker, begin, until, worked)
                    begin, worked = start, 0.0
                until, worked = end, worked + end - start
            self._add(worker, begin, until, worked)

    def _add(self, worker: int, start: float, end: float, worked: float) -> None:
        self.watch.add(Span("score", f"scorers/{worker}", start, end, {WORKED: round(worked, 6)}))
