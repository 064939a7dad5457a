"""Who sits in which slot: a table of live rows and a queue of waiting requests, without a tensor in sight.

Always true between steps: live rows are 0 … n-1 after `fill`; the cache needed, rows x longest reserved sequence,
is within the budget; requests start in the order submitted; each leaves exactly once. A row's cache holds valid
keys for the first `cached` of its tokens; a decode step feeds the one token after them, so a row is *ready* when
`cached` is one less than its tokens (prompt + sampled). New rows, and all rows after new weights, start at 0.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ropewalk.records.errors import InputError
from ropewalk.records.sample import Request
from ropewalk.rollout.native.uniforms import UNIFORM_BLOCK, uniforms

Ints = npt.NDArray[np.int64]
Key = tuple[str, int]
Kind = tuple[float, tuple[int, ...]]
"""Temperature and banned ids: rows of one kind are drawn from in one call."""


@dataclass(frozen=True)
class Limits:
    """What bounds the engine."""

    slots: int
    cache_tokens: int
    max_positions: int | None
    """Of the model; None where positions are unbounded."""


@dataclass(frozen=True)
class Moves:
    """Rows of the cache to copy, `source_N[i]` to `target_N[i]`, before anything else happens in the step."""

    source_N: Ints
    target_N: Ints


@dataclass(frozen=True)
class Fresh:
    """Keys to compute once: the tokens, and every row that begins with them."""

    tokens_T: Ints
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Shared:
    """Keys that a live row already holds: copy the first `tokens` of `source` to `target`."""

    source: int
    target: int
    tokens: int


@dataclass(frozen=True)
class Ended:
    """What a request got: copies of its arrays."""

    request: Request
    token_ids: Ints
    logprobs: npt.NDArray[np.float32]
    versions: Ints


class Scheduler:
    """Queue and table. Rows are the first axis of every array; a row number is a slot of the cache."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._waiting: deque[Request] = deque()
        self._keys: set[Key] = set()
        self.live = 0
        """Rows in use; those in `_holes` have ended since the last `fill`."""
        self._holes: set[int] = set()
        self.requests: list[Request | None] = [None] * limits.slots
        self.cached_N = np.zeros(limits.slots, np.int64)
        self.generated_N = np.zeros(limits.slots, np.int64)
        self.prompt_N = np.zeros(limits.slots, np.int64)
        self.budget_N = np.zeros(limits.slots, np.int64)
        self.last_token_N = np.zeros(limits.slots, np.int64)
        self.kind_N = np.zeros(limits.slots, np.int64)
        """Index into `kinds`."""
        self.kinds: list[Kind] = []
        self.watched_N = np.zeros(limits.slots, np.bool_)
        """Rows with stop strings, whose text must be looked at after every token."""
        self._eos_NE = np.full((limits.slots, 1), -1, np.int64)
        self._tokens_NT = np.zeros((limits.slots, 16), np.int64)
        self._logprobs_NT = np.zeros((limits.slots, 16), np.float32)
        self._versions_NT = np.zeros((limits.slots, 16), np.int64)
        self._uniforms_NU = np.zeros((limits.slots, UNIFORM_BLOCK))

    # --- requests in ---

    @property
    def idle(self) -> bool:
        return not self._waiting and not self.running

    @property
    def running(self) -> int:
        return self.live - len(self._holes)

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue all, or raise `InputError` and queue none."""
        keys = set(self._keys)
        for request in requests:
            self._check(request)
            key = _key(request)
            if key in keys:
                raise InputError(
                    f"request {request.group_id}/{request.index} is already in the engine: number the samples of a "
                    "group differently"
                )
            keys.add(key)
        self._keys = keys
        self._waiting.extend(requests)

    def _check(self, request: Request) -> None:
        prompt, new = len(request.prompt_ids), request.sampling.max_new_tokens
        name = f"prompt {request.prompt_id!r}"
        most = self.limits.max_positions
        if prompt == 0:
            raise InputError(f"{name} has no tokens: give it at least one, e.g. a begin token")
        if most is not None and prompt >= most:
            raise InputError(f"{name} has {prompt} tokens, the model {most} positions: shorten or drop it")
        if most is not None and prompt + new > most:
            raise InputError(
                f"{name} has {prompt} tokens; with max_new_tokens = {new} that exceeds the model's {most} positions: "
                f"set sampling.max_new_tokens to at most {most - prompt}"
            )
        if _reserved(request) > self.limits.cache_tokens:
            raise InputError(
                f"{name} with max_new_tokens = {new} needs {_reserved(request)} cache tokens, the engine has "
                f"{self.limits.cache_tokens}: raise engine.cache_tokens"
            )

    # --- slots ---

    def fill(self) -> Moves:
        """Give free slots to waiting requests, lowest slot first, then close the holes that are left."""
        self._trim()
        if not self._waiting and not self._holes:
            return Moves(np.empty(0, np.int64), np.empty(0, np.int64))
        longest = int((self.prompt_N + self.budget_N)[: self.live].max(initial=0)) - 1
        while self._waiting and self.running < self.limits.slots:
            longest = max(longest, _reserved(self._waiting[0]))
            if self.running and (self.running + 1) * longest > self.limits.cache_tokens:
                break
            self._seat(self._waiting.popleft())
        return self._compact()

    def _seat(self, request: Request) -> None:
        row = min(self._holes, default=self.live)
        if row in self._holes:
            self._holes.remove(row)
        else:
            self.live += 1
        self.requests[row] = request
        self.cached_N[row] = self.generated_N[row] = 0
        self.prompt_N[row] = len(request.prompt_ids)
        self.budget_N[row] = request.sampling.max_new_tokens
        self.last_token_N[row] = request.prompt_ids[-1]
        kind = (request.sampling.temperature, request.sampling.banned_ids)
        if kind not in self.kinds:
            self.kinds.append(kind)
        self.kind_N[row] = self.kinds.index(kind)
        self.watched_N[row] = bool(request.sampling.stop_strings)
        eos = request.sampling.eos_ids
        if len(eos) > self._eos_NE.shape[1]:
            self._eos_NE = np.pad(self._eos_NE, ((0, 0), (0, len(eos) - self._eos_NE.shape[1])), constant_values=-1)
        self._eos_NE[row] = -1
        self._eos_NE[row, : len(eos)] = eos

    def _compact(self) -> Moves:
        """Live rows from the end move into holes. A row seated in this step never moves: it took a lower hole."""
        source, target = [], []
        for hole in sorted(self._holes):
            self._trim()
            if hole >= self.live:
                break
            last = self.live - 1
            source.append(last)
            target.append(hole)
            self._holes.remove(hole)
            self._holes.add(last)
            self.requests[hole] = self.requests[last]
            for array in self._arrays():
                array[hole] = array[last]
        self._trim()
        return Moves(np.array(source, np.int64), np.array(target, np.int64))

    def _trim(self) -> None:
        while self.live - 1 in self._holes:
            self._holes.remove(self.live - 1)
            self.live -= 1

    def _arrays(self) -> tuple[npt.NDArray[np.generic], ...]:
        counts = (self.cached_N, self.generated_N, self.prompt_N, self.budget_N, self.last_token_N)
        settings = (self.kind_N, self.watched_N, self._eos_NE, self._uniforms_NU)
        return (*counts, *settings, self._tokens_NT, self._logprobs_NT, self._versions_NT)

    def rows(self) -> Iterator[int]:
        """Live rows."""
        return (row for row in range(self.live) if row not in self._holes)

    def _request(self, row: int) -> Request:
        request = self.requests[row]
        assert request is not None
        return request

    # --- prefill ---

    def prefill(self) -> tuple[list[Shared], list[Fresh]]:
        """What makes every live row ready: copies from ready rows with the same beginning, and what to compute.

        Marks the rows ready. Rows with the same tokens are computed once.
        """
        missing = np.flatnonzero(self.cached_N[: self.live] < self._needed())
        if not len(missing):
            return [], []
        holders = {self._prompt_key(row): row for row in range(self.live) if self.cached_N[row]}
        shared: list[Shared] = []
        fresh: dict[bytes, list[int]] = {}
        for row in missing.tolist():
            tokens = int(self.prompt_N[row] + self.generated_N[row]) - 1
            holder = holders.get(self._prompt_key(row))
            if holder is not None and not self.generated_N[row]:
                shared.append(Shared(holder, row, tokens))
            else:
                fresh.setdefault(self.sequence(row)[:-1].tobytes(), []).append(row)
            self.cached_N[row] = tokens
        return shared, [Fresh(np.frombuffer(key, np.int64), tuple(rows)) for key, rows in fresh.items()]

    def _needed(self) -> Ints:
        needed: Ints = self.prompt_N[: self.live] + self.generated_N[: self.live] - 1
        return needed

    def _prompt_key(self, row: int) -> bytes:
        return np.asarray(self._request(row).prompt_ids, np.int64).tobytes()

    def said_by(self, request: Request) -> Ints:
        """Tokens said so far in answer to this very request; none while it waits."""
        rows = (row for row in self.rows() if self.requests[row] is request)
        return np.concatenate([self.sampled(row) for row in rows] or [np.empty(0, np.int64)])

    def sequence(self, row: int) -> Ints:
        """Prompt and sampled tokens of a row."""
        return np.concatenate([np.asarray(self._request(row).prompt_ids, np.int64), self.sampled(row)])

    def forget_cache(self) -> None:
        """New weights: no key in the cache is valid any more."""
        self.cached_N[:] = 0

    # --- tokens ---

    def uniforms(self) -> npt.NDArray[np.float64]:
        """The number (N,) with which each live row's next token is drawn."""
        n = self.live
        place_N = self.generated_N[:n] % UNIFORM_BLOCK
        for row in np.flatnonzero(place_N == 0).tolist():
            block = int(self.generated_N[row]) // UNIFORM_BLOCK
            self._uniforms_NU[row] = uniforms(self._request(row).seed, block)
        drawn: npt.NDArray[np.float64] = self._uniforms_NU[np.arange(n), place_N]
        return drawn

    def watched(self) -> Ints:
        """Live rows with stop strings."""
        return np.flatnonzero(self.watched_N[: self.live])

    def sampled(self, row: int) -> Ints:
        """Tokens a row has said so far."""
        return self._tokens_NT[row, : self.generated_N[row]]

    def record(self, ids_N: Ints, logprobs_N: npt.NDArray[np.float32], version: int) -> tuple[Ints, Ints]:
        """Append one token to every live row; the rows that ended on it by an end token, and by length."""
        n = self.live
        self._widen()
        at = (np.arange(n), self.generated_N[:n])
        self._tokens_NT[at], self._logprobs_NT[at], self._versions_NT[at] = ids_N, logprobs_N, version
        self.generated_N[:n] += 1
        self.cached_N[:n] += 1
        self.last_token_N[:n] = ids_N
        stopped = (ids_N[:, None] == self._eos_NE[:n]).any(1)
        full = (self.generated_N[:n] >= self.budget_N[:n]) & ~stopped
        return np.flatnonzero(stopped), np.flatnonzero(full)

    def _widen(self) -> None:
        """Room for one more token in every row; doubling, so that the copies stay few."""
        width = self._tokens_NT.shape[1]
        if self.live and int(self.generated_N[: self.live].max()) >= width:
            pad = ((0, 0), (0, width))
            self._tokens_NT = np.pad(self._tokens_NT, pad)
            self._logprobs_NT = np.pad(self._logprobs_NT, pad)
            self._versions_NT = np.pad(self._versions_NT, pad)

    # --- requests out ---

    def end(self, row: int) -> Ended:
        """Take a live row out; its slot is free at the next `fill`."""
        request, count = self._request(row), int(self.generated_N[row])
        self.requests[row] = None
        self.cached_N[row] = self.prompt_N[row] = self.budget_N[row] = 0
        self._holes.add(row)
        self._keys.remove(_key(request))
        said = (row, slice(0, count))
        return Ended(
            request, self._tokens_NT[said].copy(), self._logprobs_NT[said].copy(), self._versions_NT[said].copy()
        )

    def abort(self) -> list[Ended]:
        """Take everything out: running rows as they stand, waiting requests with nothing said."""
        ended = [self.end(row) for row in list(self.rows())]
        for request in self._waiting:
            self._keys.remove(_key(request))
            ended.append(Ended(request, np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.int64)))
        self._waiting.clear()
        return ended


def _key(request: Request) -> Key:
    return request.group_id, request.index


def _reserved(request: Request) -> int:
    """Cache entries it may come to need: the last sampled token is never fed back."""
    return len(request.prompt_ids) + request.sampling.max_new_tokens - 1
