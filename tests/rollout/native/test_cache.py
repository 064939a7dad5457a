"""The slot cache: growth within the budget, moves and decode attention against plain arithmetic."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from ropewalk.rollout.native.cache import DecodeLayout, SlotCache, grown

LAYER = nn.Module()
LAYER.layer_idx = 0  # type: ignore[assignment]


@given(
    steps=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 900)), max_size=12),
    budget=st.integers(1000, 4000),
)
def test_growth_fits_the_need_and_the_budget(steps: list[tuple[int, int]], budget: int) -> None:
    held = (0, 0)
    for needed in steps:
        if needed[0] * needed[1] > budget:
            continue
        held = grown(held, needed, slots=40, budget_tokens=budget)
        assert held[0] >= needed[0] and held[1] >= needed[1]
        assert held[0] <= 40
        assert held[0] * held[1] <= budget


def test_growing_keeps_what_is_held() -> None:
    cache = SlotCache(slots=8, budget_tokens=10_000)
    cache.reserve(2, 3)
    like = torch.randn(1, 2, 1, 4)
    key, value = cache.layer(0, like, like)
    key.normal_(), value.normal_()
    old = key.clone(), value.clone()
    cache.reserve(5, 200)
    new = cache.layer(0, like, like)
    for before, after in zip(old, new, strict=True):
        assert after.shape[0] >= 5 and after.shape[2] >= 200
        assert torch.equal(after[:2, :, : before.shape[2]], before[:2])
    assert cache.bytes == sum(x.numel() * 4 for x in new)
    cache.clear()
    assert cache.bytes == 0


@pytest.mark.parametrize(("heads", "shared"), [(4, 4), (4, 2), (6, 1)])
def test_decoding_is_plain_attention_over_each_rows_own_places(heads: int, shared: int) -> None:
    generator = torch.Generator().manual_seed(heads * 10 + shared)
    cache = SlotCache(slots=3, budget_tokens=1000)
    cache.reserve(3, 10)
    lengths = [0, 4, 9]
    new_key, new_value = (torch.randn(3, shared, 1, 8, generator=generator) for _ in range(2))
    keys, values = cache.layer(0, new_key, new_value)
    keys.copy_(torch.randn(keys.shape, generator=generator)), values.copy_(torch.randn(keys.shape, generator=generator))
    query = torch.randn(3, heads, 1, 8, generator=generator)
    out = DecodeLayout(cache, torch.tensor(lengths), 10).attend(LAYER, query, new_key, new_value, 0.3)
    assert out.shape == (3, 1, heads, 8)
    for row, length in enumerate(lengths):
        for head in range(heads):
            own = head // (heads // shared)
            key = torch.cat([keys[row, own, :length], new_key[row, own]])
            value = torch.cat([values[row, own, :length], new_value[row, own]])
            weights = torch.softmax(key @ query[row, head, 0] * 0.3, 0)
            assert torch.allclose(out[row, 0, head], weights @ value, atol=1e-6)


def test_moves_copy_whole_beginnings() -> None:
    cache = SlotCache(slots=4, budget_tokens=1000)
    cache.reserve(4, 6)
    like = torch.zeros(1, 1, 1, 2)
    key, _ = cache.layer(0, like, like)
    key.copy_(torch.arange(key.numel(), dtype=torch.float32).reshape(key.shape))
    before = key.clone()
    cache.move(np.array([3, 2]), np.array([0, 1]), 5)
    assert torch.equal(key[[0, 1], :, :5], before[[3, 2], :, :5])
    assert torch.equal(key[[2, 3]], before[[2, 3]])
