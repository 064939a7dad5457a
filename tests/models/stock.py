"""The oracle: the same weights in the stock transformers model with eager attention, row by row or padded."""

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from ropewalk.models.network import Network
from ropewalk.records.packed import PackedBatch

ROWS = [[5, 6, 7], [5, 2, 7, 2], [9], [5, 6, 7, 8, 9, 10, 11], [5, 6, 7, 2], [11, 3]]
"""Equal and unequal lengths, a common beginning, the end id (2) inside and last."""


def stock(network: Network) -> PreTrainedModel:
    config = copy.deepcopy(network.config)
    with torch.random.fork_rng(devices=[]):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    model.base_model.load_state_dict(network.body.state_dict())
    if network.lm_head is not None:
        model.get_output_embeddings().load_state_dict(network.lm_head.state_dict())
    return model


def stock_hidden(model: PreTrainedModel, rows: Sequence[Sequence[int]], padding: str = "none") -> list[Tensor]:
    """Last hidden states of every row, real tokens only: alone, or in one batch padded left or right with id 2."""
    if padding == "none":
        return [model.base_model(input_ids=torch.tensor([row]), use_cache=False).last_hidden_state[0] for row in rows]
    width = max(len(row) for row in rows) + 3
    ids = torch.full((len(rows), width), 2)
    mask = torch.zeros(len(rows), width, dtype=torch.int64)
    places = [slice(width - len(row), width) if padding == "left" else slice(0, len(row)) for row in rows]
    for i, (row, place) in enumerate(zip(rows, places, strict=True)):
        ids[i, place] = torch.tensor(row)
        mask[i, place] = 1
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    hidden = model.base_model(
        input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False
    ).last_hidden_state
    return [hidden[i, place] for i, place in enumerate(places)]


def pack(rows: Sequence[Sequence[int]], **columns: Sequence[float]) -> PackedBatch:
    """Rows one after the other, no shared prompts."""
    ends = np.cumsum([len(row) for row in rows])
    segments = [(end - len(row), end, -1) for row, end in zip(rows, ends, strict=True)]
    return PackedBatch(
        np.concatenate([np.array(row, np.int64) for row in rows]),
        np.array(segments, np.int64),
        {name: np.array(column) for name, column in columns.items()},
    )


def pack_group(prompt: Sequence[int], answers: Sequence[Sequence[int]]) -> PackedBatch:
    """A shared prompt and its answers, then the first answer once more as a row of its own."""
    segments, end = [(0, len(prompt), -1)], len(prompt)
    for answer in answers:
        segments.append((end, end + len(answer), 0))
        end += len(answer)
    alone = [*prompt, *answers[0]]
    segments.append((end, end + len(alone), -1))
    tokens = [*prompt, *(token for answer in answers for token in answer), *alone]
    return PackedBatch(np.array(tokens, np.int64), np.array(segments, np.int64))
