"""What every engine can do. One contract suite, tests/contracts/test_rollout_engine.py, runs on all engines."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias

from ropewalk.models.network import Network
from ropewalk.records.sample import Completion, Request
from ropewalk.records.version import PolicyVersion

Joining: TypeAlias = Callable[[], Sequence[Request]]
"""Asked between two tokens for requests to put in line."""


class RolloutEngine(Protocol):
    """Samples completions of requests under published weights.

    Every request submitted leaves the engine exactly once, as a completion that carries it. What a request is
    answered depends on its seed, prompt, settings and the weights, never on its neighbours or its place in line.
    """

    @property
    def version(self) -> PolicyVersion | None:
        """Of the published weights; None before the first publish."""
        ...

    def publish(self, weights: Network, version: PolicyVersion) -> None:
        """Sample with these weights from now on; nothing computed with older ones is reused.

        Raises `InputError` if requests are running and the engine is not paused, if the tensors are not exactly
        those of the engine's model, or if their fingerprint is not the version's.
        """
        ...

    def submit(self, requests: Sequence[Request]) -> None:
        """Put requests in line, all or none.

        Raises `InputError` before the first publish, for a request that is already in the engine (same group and
        index), and for one that can never fit.
        """
        ...

    def stream(self, joining: Joining | None = None) -> Iterator[Completion]:
        """Completions in the order in which they end, until none is left or the engine is paused.

        What `joining` gives is submitted before every token; what it raises ends the iteration, not the requests.
        """
        ...

    def pause(self) -> None:
        """Stop after the current token; what is running stays. `stream` ends."""
        ...

    def resume(self) -> None:
        """Go on after `pause`, under the weights published last; refused if they changed since."""
        ...

    def abort(self) -> None:
        """End everything as it stands: the next `stream` yields it with finish `aborted`. Also ends a pause."""
        ...
