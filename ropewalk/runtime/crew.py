"""A crew: the workers of one mesh behind one call.

    controller ── call("forward", batch=…) ──▶ split ──▶ worker 0 … worker n-1 ──▶ join ──▶ Future

How a payload is cut and the answers are joined depends only on the method, so every host behaves alike.
Calls reach each worker in the order they were made. Sampling is no such call: requests go in one by one, and each
completion is heard as soon as it ends.

    controller ── inbox ──▶ the worker with the least to do ──▶ heard(completion)
        ▲                                                            │
        └──────────── further requests, from any thread ◀────────────┘
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ropewalk.records.metric import Metric, merge
from ropewalk.records.packed import PackedBatch
from ropewalk.records.sample import Completion
from ropewalk.rollout.inbox import Inbox
from ropewalk.training.packing import split_dp

Payload = dict[str, Any]
Column = Any


class Crew(Protocol):
    """Workers of one mesh."""

    size: int

    def call(self, method: str, **payload: Any) -> Future[Any]:
        """Run a worker method on every rank, each with its share; the future holds the joined answer."""

    def generate(self, inbox: Inbox, heard: Callable[[Completion], None]) -> Future[None]:
        """Complete what comes through the inbox until it is closed. The future is done when all is answered.

        `heard` gets each completion as it ends, one at a time, in a thread of the host's choice; what is known of a
        completion depends on its request and the weights, never on the others or on the number of workers. If
        `heard` raises or the inbox is abandoned, what runs is aborted, the future raises that, and the crew lives on.
        A call that is made meanwhile is answered after the generation: who keeps the inbox open must not wait for one.
        """

    def close(self) -> None:
        """End the workers."""


def complete(crew: Crew, inbox: Inbox, heard: Callable[[Completion], None]) -> None:
    """Generate and wait for the end of it. Whoever stops waiting, by Ctrl-C say, stops the generation too."""
    try:
        crew.generate(inbox, heard).result()
    except BaseException:
        inbox.abandon()
        raise


@dataclass(frozen=True, slots=True)
class Dispatch:
    """How one method's payload is cut over `n` ranks, and how the ranks' answers become one."""

    split: Callable[[Payload, int], list[Payload]]
    join: Callable[[Payload, list[Any]], Any]


def _same(payload: Payload, n: int) -> list[Payload]:
    return [payload] * n


def _split_rows(payload: Payload, n: int) -> list[Payload]:
    batch: PackedBatch = payload["batch"]
    return [{**payload, "batch": batch.select(rows)} for rows in split_dp(batch, n)]


def _split_requests(payload: Payload, n: int) -> list[Payload]:
    requests = payload["requests"]
    return [{**payload, "requests": requests[rank::n]} for rank in range(n)]


def _join_answers(payload: Payload, answers: list[Sequence[Any]]) -> list[Any]:
    n = len(answers)
    return [answers[place % n][place // n] for place in range(len(payload["requests"]))]


def _first(_payload: Payload, answers: list[Any]) -> Any:
    return answers[0]


def _join_columns(payload: Payload, answers: list[Mapping[str, Column]]) -> dict[str, Column]:
    """Put every rank's columns back where their rows came from."""
    batch: PackedBatch = payload["batch"]
    joined: dict[str, Column] = {}
    for rows, columns in zip(split_dp(batch, len(answers)), answers, strict=True):
        tokens = batch.positions_of(rows)
        for name, column in columns.items():
            place = tokens if len(column) == len(tokens) and name not in ROW_OUTPUTS else np.asarray(rows)
            size = batch.rows if name in ROW_OUTPUTS else batch.tokens
            joined.setdefault(name, np.zeros((size, *column.shape[1:]), column.dtype))[place] = column
    return joined


ROW_OUTPUTS = frozenset({"scores", "head_scores"})


def _join_metrics(_payload: Payload, answers: list[Mapping[str, Metric]]) -> dict[str, Metric]:
    return merge(answers)


DISPATCH: Mapping[str, Dispatch] = {
    "forward": Dispatch(_split_rows, _join_columns),
    "write": Dispatch(_split_requests, _join_answers),
    "train": Dispatch(_same, _join_metrics),
    "gradients": Dispatch(_same, _first),
    "publish": Dispatch(_same, _first),
    "fingerprint": Dispatch(_same, _first),
    "steps": Dispatch(_same, _first),
    "state_tensors": Dispatch(_same, _first),
    "load_state_tensors": Dispatch(_same, _first),
    "export": Dispatch(lambda payload, _n: [payload], _first),
    "sharpen": Dispatch(_same, _first),
}
"""Every worker method that may be called. A train call takes the whole batch to each rank, which trains its share of
every minibatch: so the minibatches are those of one rank."""
