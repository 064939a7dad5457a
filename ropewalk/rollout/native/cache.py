"""Keys and values of the rows that are being decoded: one block of memory per layer, a slot per row.

Rows are left-aligned: position p of a row's sequence lies at place p of its slot, so ending, moving and refilling a
row touches no other. Places beyond a row's length hold stale but finite numbers and are masked.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ropewalk.models.attention import AttentionLayout

Ints = npt.NDArray[np.int64]
_BLOCK_TOKENS = 32


def grown(held: tuple[int, int], needed: tuple[int, int], *, slots: int, budget_tokens: int) -> tuple[int, int]:
    """Rows and places to hold so that `needed` fits: with spare room, so that growing is rare, within the budget.

    `needed` is within the budget by the scheduler's word. What is held shrinks where both cannot stand.
    """
    if needed[0] <= held[0] and needed[1] <= held[1]:
        return held
    rows = held[0] if needed[0] <= held[0] else min(slots, max(needed[0], held[0] * 5 // 4))
    places = held[1]
    if needed[1] > places:
        places = -(-max(needed[1], places * 5 // 4) // _BLOCK_TOKENS) * _BLOCK_TOKENS
    if rows * places > budget_tokens:
        rows = needed[0]
        places = max(needed[1], min(places, budget_tokens // rows))
    return rows, places


class SlotCache:
    """Per layer a key and a value tensor (N slots, K heads, T places, E), made when the layer is first written."""

    def __init__(self, *, slots: int, budget_tokens: int) -> None:
        self._slots, self._budget_tokens = slots, budget_tokens
        self._held = (0, 0)
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def bytes(self) -> int:
        """Memory held."""
        return sum(x.numel() * x.element_size() for pair in self._layers.values() for x in pair)

    def clear(self) -> None:
        """Forget everything and give the memory back."""
        self._held, self._layers = (0, 0), {}

    def reserve(self, rows: int, places: int) -> None:
        """Make room; what is held is kept."""
        held = grown(self._held, (rows, places), slots=self._slots, budget_tokens=self._budget_tokens)
        if held == self._held:
            return
        keep = (slice(0, min(held[0], self._held[0])), slice(None), slice(0, min(held[1], self._held[1])))
        for layer, pair in self._layers.items():
            key, value = (x.new_zeros(held[0], x.shape[1], held[1], x.shape[3]) for x in pair)
            key[keep], value[keep] = pair[0][keep], pair[1][keep]
            self._layers[layer] = (key, value)
        self._held = held

    def layer(self, number: int, like_key: Tensor, like_value: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer; heads, widths, dtype and device are those of the tensors to be written."""
        if number not in self._layers:
            key, value = (
                x.new_zeros(self._held[0], x.shape[1], self._held[1], x.shape[3]) for x in (like_key, like_value)
            )
            self._layers[number] = (key, value)
        return self._layers[number]

    def move(self, source_N: Ints, target_N: Ints, places: int) -> None:
        """Copy the first places of some slots into others; no slot is both source and target."""
        if not len(source_N):
            return
        source, target = torch.from_numpy(source_N), torch.from_numpy(target_N)
        for pair in self._layers.values():
            for x in pair:
                x[target.to(x.device), :, :places] = x[source.to(x.device), :, :places]


@dataclass(frozen=True)
class PrefillLayout:
    """Packed attention among whole prompts whose keys are kept: token `source_M` goes to (`row_M`, `place_M`)."""

    packed: AttentionLayout
    cache: SlotCache
    source_M: Tensor
    row_M: Tensor
    place_M: Tensor

    def attend(
        self, module: nn.Module, query_BHTE: Tensor, key_BKTE: Tensor, value_BKTE: Tensor, scaling: float
    ) -> Tensor:
        """One flat batch: B is 1."""
        keys, values = self.cache.layer(layer_number(module), key_BKTE, value_BKTE)
        keys[self.row_M, :, self.place_M] = key_BKTE[0, :, self.source_M].transpose(0, 1)
        values[self.row_M, :, self.place_M] = value_BKTE[0, :, self.source_M].transpose(0, 1)
        return self.packed.attend(module, query_BHTE, key_BKTE, value_BKTE, scaling)


class DecodeLayout:
    """One new token of each of the first N rows attends to what its own slot holds, itself included."""

    def __init__(self, cache: SlotCache, place_N: Tensor, longest: int) -> None:
        """`place_N`: where each row's token goes; `longest`: one more than the largest of them."""
        self._cache, self._place_N, self._longest = cache, place_N, longest
        self._row_N = torch.arange(len(place_N), device=place_N.device)
        beyond_NT = torch.arange(longest, device=place_N.device) > place_N[:, None]
        self._beyond_N11T = beyond_NT[:, None, None]

    def attend(
        self, module: nn.Module, query_BHTE: Tensor, key_BKTE: Tensor, value_BKTE: Tensor, scaling: float
    ) -> Tensor:
        """B is N, T is 1. Query heads that share a key head are folded into one matrix, the softmax is in float32."""
        n, heads, _, width = query_BHTE.shape
        keys, values = self._cache.layer(layer_number(module), key_BKTE, value_BKTE)
        keys[self._row_N, :, self._place_N] = key_BKTE[:, :, 0]
        values[self._row_N, :, self._place_N] = value_BKTE[:, :, 0]
        seen = (slice(0, n), slice(None), slice(0, self._longest))
        folded = query_BHTE.reshape(n, keys.shape[1], heads // keys.shape[1], width)
        scores = torch.matmul(folded, keys[seen].transpose(2, 3)).float() * scaling
        weights = torch.softmax(scores.masked_fill(self._beyond_N11T, -torch.inf), -1).to(values.dtype)
        return torch.matmul(weights, values[seen]).reshape(n, 1, heads, values.shape[3])


def layer_number(module: nn.Module) -> int:
    """Attention layers of transformers know their number."""
    number = module.layer_idx
    assert isinstance(number, int)
    return number
