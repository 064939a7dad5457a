"""Log-probs and entropy of a policy, by chunks over tokens: the full T x V logits never exist.

`sampling_logits` defines the distribution; the engine samples from it and the trainer scores under it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ropewalk.models.network import Network
from ropewalk.models.packed import TokenBatch
from ropewalk.records.errors import InputError

CHUNK_LOGITS = 2**25
"""Logits in a chunk unless told: 128 MiB in float32."""


def sampling_logits(logits_NV: Tensor, temperature: float | Tensor, banned: Tensor | None = None) -> Tensor:
    """logits / temperature in float32, then -inf at the banned ids: THE distribution of a policy.

    `temperature` is a number, or a tensor (N, 1) of positive numbers; the number 0 (greedy choice) leaves the logits
    un-tempered. `banned` holds ids (K,) int64, or flags (N, V) bool.
    """
    logits = logits_NV.float()
    if isinstance(temperature, Tensor) or temperature not in (0, 1):
        logits = logits / temperature
    if banned is None or banned.numel() == 0:
        return logits
    if banned.dtype == torch.bool:
        return logits.masked_fill(banned, -torch.inf)
    return logits.index_fill(-1, banned, -torch.inf)


def chosen_logprobs(logits_NV: Tensor, ids_N: Tensor) -> Tensor:
    """log softmax(logits)[id] = logits[id] - logsumexp(logits), shape (N,)."""
    return logits_NV.gather(-1, ids_N[:, None])[:, 0] - torch.logsumexp(logits_NV, -1)


def entropies(logits_NV: Tensor) -> Tensor:
    """-Σ p log p in nats, shape (N,); ids with logit -inf contribute 0, also to the gradient."""
    logprobs = torch.log_softmax(logits_NV, -1)
    return -(logprobs.exp() * logprobs.masked_fill(logits_NV == -torch.inf, 0.0)).sum(-1)


def policy_outputs(
    network: Network,
    hidden_TD: Tensor,
    batch: TokenBatch,
    *,
    temperature: float,
    banned_ids: Sequence[int] = (),
    wanted: frozenset[str] = frozenset({"logprobs"}),
    chunk_tokens: int | None = None,
) -> dict[str, Tensor]:
    """Columns (T,) float32 of `logprobs` and/or `entropy`, each at the token it describes; 0 where `mask_T` is False.

    Chunks are checkpointed, so peak memory is that of one chunk in forward and backward. Raises `InputError` at
    temperature 0, for unknown names, and where a token to be described is banned.
    """
    if temperature <= 0:
        raise InputError(f"log-probs for training need a temperature above 0, got {temperature}: sample with one")
    if not wanted <= {"logprobs", "entropy"}:
        raise InputError(f"unknown policy outputs {sorted(wanted)}: choose among logprobs, entropy")
    banned = torch.tensor(sorted(banned_ids), dtype=torch.int64, device=hidden_TD.device)
    ids_N = batch.tokens_T[batch.target_N]
    _check_not_banned(ids_N, banned)
    names = sorted(wanted)

    def describe(chunk_N: Tensor, chunk_ids_N: Tensor) -> tuple[Tensor, ...]:
        logits = sampling_logits(network.logits(hidden_TD.index_select(0, chunk_N)), temperature, banned)
        return tuple(chosen_logprobs(logits, chunk_ids_N) if n == "logprobs" else entropies(logits) for n in names)

    size = chunk_tokens or max(1, CHUNK_LOGITS // network.vocabulary_size)
    sources, ids = torch.split(batch.source_N, size), torch.split(ids_N, size)
    keep = len(sources) == 1 or not torch.is_grad_enabled()
    parts = [
        describe(s, i) if keep else checkpoint(describe, s, i, use_reentrant=False, preserve_rng_state=False)
        for s, i in zip(sources, ids, strict=True)
    ]
    columns = [torch.cat(column) for column in zip(*parts, strict=True)]
    return {name: spread(column, batch) for name, column in zip(names, columns, strict=True)}


def spread(column_N: Tensor, batch: TokenBatch) -> Tensor:
    """A column over all tokens from the values at `target_N`; 0 elsewhere."""
    return column_N.new_zeros(batch.tokens).index_copy(0, batch.target_N, column_N)


def _check_not_banned(ids_N: Tensor, banned: Tensor) -> None:
    if not banned.numel():
        return
    hit = torch.isin(ids_N, banned)
    if bool(hit.any()):
        raise InputError(
            f"token id {int(ids_N[hit][0])} is banned, yet a completion to learn from contains it: "
            "its log-prob would be -inf; take it off the banned ids or drop the row"
        )
