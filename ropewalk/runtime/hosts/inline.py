"""The default host: one worker in the driver's own process."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ropewalk.parallel.groups import Group
from ropewalk.records.sample import Completion
from ropewalk.rollout.inbox import Inbox
from ropewalk.runtime.crew import DISPATCH
from ropewalk.runtime.roles import Setup
from ropewalk.runtime.worker import Worker


class InlineCrew:
    """A direct call: no process group, nothing copied."""

    size = 1

    def __init__(self, setup: Setup) -> None:
        self.worker = Worker(setup, Group())

    def call(self, method: str, **payload: Any) -> Future[Any]:
        dispatch = DISPATCH[method]
        future: Future[Any] = Future()
        (share,) = dispatch.split(payload, 1)
        try:
            answer = getattr(self.worker, method)(**share)
        except Exception as error:  # noqa: BLE001  (it is raised again where the future is read)
            future.set_exception(error)
        else:
            future.set_result(dispatch.join(payload, [answer]))
        return future

    def generate(self, inbox: Inbox, heard: Callable[[Completion], None]) -> Future[None]:
        """In the caller's thread: the future is done when this returns."""
        future: Future[None] = Future()
        try:
            self.worker.answer(inbox, heard)
        except Exception as error:  # noqa: BLE001  (it is raised again where the future is read)
            future.set_exception(error)
        else:
            future.set_result(None)
        return future

    def close(self) -> None:
        """Nothing outlives the driver."""
