"""A bounded memory in which each thing is made once, however many threads ask for it at the same time."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Once(Generic[Value]):
    """Remembers the last `kept` values by key. Two that ask for one key wait for one making of it."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._known: OrderedDict[Hashable, Future[Value]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Value], keep: Callable[[Value], bool] = lambda _: True) -> Value:
        """The value of `key`, made now if it is not known. What `keep` rejects, and exceptions, are not remembered."""
        with self._lock:
            known = self._known.get(key)
            future: Future[Value] = Future() if known is None else known
            if known is None:
                self._known[key] = future
                while len(self._known) > self._kept:
                    self._known.popitem(last=False)
        if known is None:
            self._make(key, future, make, keep)
        return future.result()

    def _make(
        self, key: Hashable, future: "Future[Value]", make: Callable[[], Value], keep: Callable[[Value], bool]
    ) -> None:
        wanted = False
        try:
            value = make()
            future.set_result(value)
            wanted = keep(value)
        except BaseException as error:  # noqa: BLE001  whoever else waits for it must hear of it
            future.set_exception(error)
        finally:
            if not wanted:
                with self._lock:
                    if self._known.get(key) is future:
                        del self._known[key]
