"""The native engine: every live row grows by one token per step, free slots are refilled before the next.

Between steps nothing is in the air: publish, pause, resume and abort act on whole tokens. The network is an alias
of the trainer's; its weights are watched, and tokens are only ever sampled from weights that were published. After
a publish in the middle of a sample its keys are computed again under the new weights, so every token's log-prob is
that of the version it carries, given its whole prefix.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from ropewalk.models.fingerprint import fingerprint
from ropewalk.models.network import Network
from ropewalk.models.packed import token_batch
from ropewalk.records.errors import InputError
from ropewalk.records.packed import PackedBatch
from ropewalk.records.sample import Completion, Finish, Request
from ropewalk.records.version import PolicyVersion
from ropewalk.rollout.config import NativeEngineConfig
from ropewalk.rollout.native.cache import DecodeLayout, PrefillLayout, SlotCache
from ropewalk.rollout.native.sampling import draw
from ropewalk.rollout.native.scheduler import Ended, Fresh, Limits, Scheduler, Shared
from ropewalk.rollout.native.text import Texts
from ropewalk.rollout.native.weights import WeightsWatch, check_same_tensors
from ropewalk.rollout.protocol import Joining

Ints = npt.NDArray[np.int64]


class NativeEngine:
    """Continuous batching over a transformers model. See `RolloutEngine` for what each method promises.

    Reads the network's parameters and nothing else of it; mode, config, gradients and global random state stay as
    they are. Generation settings stored with a checkpoint are never read.
    """

    def __init__(
        self,
        network: Network,
        tokenizer: PreTrainedTokenizerFast,
        config: NativeEngineConfig | None = None,
    ) -> None:
        config = config or NativeEngineConfig()
        self._network = network
        self._texts = Texts(tokenizer)
        self._prefill_tokens = config.prefill_tokens
        positions = getattr(network.config, "max_position_embeddings", None)
        self._scheduler = Scheduler(Limits(config.slots, config.cache_tokens, positions))
        self._cache = SlotCache(slots=config.slots, budget_tokens=config.cache_tokens)
        self._watch: WeightsWatch | None = None
        self._ready: deque[Completion] = deque()
        self._paused = False

    # --- weights ---

    @property
    def version(self) -> PolicyVersion | None:
        return self._watch.version if self._watch else None

    @property
    def cache_bytes(self) -> int:
        """Memory of the key/value cache; nothing while idle."""
        return self._cache.bytes

    def publish(self, weights: Network, version: PolicyVersion) -> None:
        """An alias, a version and an empty cache: no weight is copied."""
        if self._scheduler.running and not self._paused:
            raise InputError("weights cannot change under running requests: pause the engine first")
        check_same_tensors(self._network, weights)
        actual = fingerprint(weights)
        if actual != version.fingerprint:
            raise InputError(
                f"the weights to publish have fingerprint {actual}, version {version.step} says "
                f"{version.fingerprint}: take the fingerprint after the last update"
            )
        self._network = weights
        self._watch = WeightsWatch(weights, version)
        self._forget_cache()

    def _forget_cache(self) -> None:
        self._scheduler.forget_cache()
        self._cache.clear()

    # --- requests ---

    def submit(self, requests: Sequence[Request]) -> None:
        if self._watch is None:
            raise InputError("the engine has no weights yet: publish them first")
        self._scheduler.submit(requests)

    def stream(self, joining: Joining | None = None) -> Iterator[Completion]:
        while True:
            while self._ready:
                yield self._ready.popleft()
            if self._paused:
                return
            if joining is not None and (asked := joining()):
                self.submit(asked)
            if self._scheduler.idle:
                return
            self._ready.extend(self.step())

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        if self._watch is not None:
            self._watch.check_bytes()
        self._paused = False

    def abort(self) -> None:
        self._forget_cache()
        self._paused = False
        if self._watch is not None:
            self._watch.doubt()
        self._ready.extend(self._completion(ended, "aborted") for ended in self._scheduler.abort())

    def follow(self, request: Request) -> Generator[str, None, Completion]:
        """One completion piece by piece, for a reader who watches it grow; returns the completion.

        Pieces are whole characters and join to the completion's text: what may turn out to begin a stop string is
        held back.
        """
        self.submit([request])
        held = max(map(len, request.sampling.stop_strings), default=1) - 1
        said = 0
        while True:
            for completion in self.step():
                if completion.request is request:
                    yield completion.text[said:]
                    return completion
                self._ready.append(completion)
            text, _ = self._texts.final(self._scheduler.said_by(request).tolist(), (), ())
            sure = len(text.rstrip("\ufffd")) - held
            if sure > said:
                yield text[said:sure]
                said = sure

    # --- one step ---

    @torch.no_grad()
    def step(self) -> list[Completion]:
        """One token for every live row; the completions that ended on it.

        Raises `InputError` for stale weights. Whatever else goes wrong in the middle aborts all that is running.
        """
        if self._watch is None:
            raise InputError("the engine has no weights yet: publish them first")
        if self._paused:
            raise InputError("the engine is paused: resume it before the next token")
        self._watch.check()
        whole = False
        try:
            self._make_ready()
            done = self._grow(self._watch.version.step) if self._scheduler.live else []
            whole = True
        finally:
            if not whole:  # some rows may have grown and others not
                self.abort()
        if self._scheduler.idle:
            self._cache.clear()
        return done

    def _make_ready(self) -> None:
        """Seat waiting requests and fill the slots whose keys are missing."""
        scheduler = self._scheduler
        moves = scheduler.fill()
        n = scheduler.live
        places = int((scheduler.prompt_N + scheduler.generated_N)[:n].max(initial=0))
        self._cache.move(moves.source_N, moves.target_N, places)
        self._cache.reserve(n, places)
        shared, fresh = scheduler.prefill()
        self._share(shared)
        for wave in _waves(fresh, self._prefill_tokens):
            self._prefill(wave)

    def _share(self, shared: Sequence[Shared]) -> None:
        if shared:
            source, target = (np.array([getattr(s, end) for s in shared]) for end in ("source", "target"))
            self._cache.move(source, target, max(s.tokens for s in shared))

    def _prefill(self, wave: Sequence[Fresh]) -> None:
        """Compute the keys of some beginnings in one packed forward pass and write each to all its rows."""
        device = self._network.device
        ends = np.cumsum([len(fresh.tokens_T) for fresh in wave])
        starts = ends - [len(fresh.tokens_T) for fresh in wave]
        packed = PackedBatch(
            np.concatenate([fresh.tokens_T for fresh in wave]),
            np.stack([starts, ends, np.full(len(wave), -1)], 1).astype(np.int64),
        )
        batch = token_batch(packed, device)
        spans = [
            (start, len(fresh.tokens_T), row) for start, fresh in zip(starts, wave, strict=True) for row in fresh.rows
        ]
        token_M = np.concatenate([np.arange(start, start + length) for start, length, _ in spans])
        place_M = np.concatenate([np.arange(length) for _, length, _ in spans])
        row_M = np.concatenate([np.full(length, row) for _, length, row in spans])
        source_M = self._tensor(token_M)
        tokens_T, positions_T = batch.tokens_T, batch.positions_T
        if batch.order_T is not None and batch.inverse_T is not None:
            source_M = batch.inverse_T[source_M]
            tokens_T, positions_T = tokens_T[batch.order_T], positions_T[batch.order_T]
        layout = PrefillLayout(batch.layout, self._cache, source_M, self._tensor(row_M), self._tensor(place_M))
        self._network.hidden_with(layout, tokens_T[None], positions_T[None])

    def _grow(self, version: int) -> list[Completion]:
        """Feed each row's newest token, draw the next, and take out the rows that ended."""
        scheduler = self._scheduler
        n = scheduler.live
        place_N = self._tensor(scheduler.cached_N[:n])
        tokens_N = self._tensor(scheduler.last_token_N[:n])
        layout = DecodeLayout(self._cache, place_N, int(scheduler.cached_N[:n].max()) + 1)
        hidden_ND = self._network.hidden_with(layout, tokens_N[:, None], place_N[:, None])[:, 0]
        ids_N, logprobs_N = self._draw(self._network.logits(hidden_ND))
        stopped, full = scheduler.record(ids_N.cpu().numpy(), logprobs_N.cpu().numpy(), version)
        finish: dict[int, Finish] = dict.fromkeys(full.tolist(), "length")
        finish |= dict.fromkeys((row for row in scheduler.watched().tolist() if self._says_stop(row)), "stop")
        finish |= dict.fromkeys(stopped.tolist(), "stop")
        return [self._completion(scheduler.end(row), reason) for row, reason in sorted(finish.items())]

    def _draw(self, logits_NV: Tensor) -> tuple[Tensor, Tensor]:
        """Ids and log-probs; one draw per kind of sampling setting among the rows (nearly always one)."""
        scheduler = self._scheduler
        kind_N = scheduler.kind_N[: scheduler.live]
        uniforms_N = torch.from_numpy(scheduler.uniforms()).to(logits_NV.device)
        present = np.unique(kind_N).tolist()
        ids_N = torch.empty(len(kind_N), dtype=torch.int64, device=logits_NV.device)
        logprobs_N = torch.empty(len(kind_N), dtype=torch.float32, device=logits_NV.device)
        for kind in present:
            temperature, banned_ids = scheduler.kinds[kind]
            banned = torch.tensor(banned_ids, dtype=torch.int64, device=logits_NV.device)
            if len(present) == 1:
                return draw(logits_NV, uniforms_N, temperature=temperature, banned=banned)
            rows = self._tensor(np.flatnonzero(kind_N == kind))
            drawn = draw(logits_NV[rows], uniforms_N[rows], temperature=temperature, banned=banned)
            ids_N[rows], logprobs_N[rows] = drawn
        return ids_N, logprobs_N

    def _says_stop(self, row: int) -> bool:
        request = self._scheduler.requests[row]
        assert request is not None
        return self._texts.stopped(self._scheduler.sampled(row), request.sampling.stop_strings)

    def _completion(self, ended: Ended, finish: Finish) -> Completion:
        sampling = ended.request.sampling
        text, _ = self._texts.final(ended.token_ids.tolist(), sampling.eos_ids, sampling.stop_strings)
        return Completion(ended.request, ended.token_ids, ended.logprobs, ended.versions, finish, text)

    def _tensor(self, array: Ints) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._network.device)


def _waves(fresh: Iterable[Fresh], most_tokens: int) -> Iterator[list[Fresh]]:
    """Neighbours together up to the budget; one that exceeds it alone."""
    wave: list[Fresh] = []
    tokens = 0
    for one in fresh:
        if wave and tokens + len(one.tokens_T) > most_tokens:
            yield wave
            wave, tokens = [], 0
        wave.append(one)
        tokens += len(one.tokens_T)
    if wave:
        yield wave
