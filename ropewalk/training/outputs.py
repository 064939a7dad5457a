"""From a packed batch to the tensors an objective reads: the network's outputs and the batch's columns."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from ropewalk.models.heads import row_head_scores, row_scores, token_scores, token_values
from ropewalk.models.logprobs import policy_outputs
from ropewalk.models.network import Network
from ropewalk.models.packed import TokenBatch
from ropewalk.records.errors import InputError
from ropewalk.records.packed import Array, PackedBatch
from ropewalk.records.sample import SamplingRecord
from ropewalk.training.config import Precision

POLICY_OUTPUTS = frozenset({"logprobs", "entropy"})
ROW_OUTPUTS = frozenset({"scores", "head_scores"})
OUTPUTS = POLICY_OUTPUTS | {"values", "token_scores"} | ROW_OUTPUTS


def network_outputs(
    network: Network,
    batch: TokenBatch,
    wanted: frozenset[str],
    *,
    sampling: SamplingRecord | None,
    precision: Precision,
) -> dict[str, Tensor]:
    """Columns `logprobs`, `entropy`, `values`, `token_scores` (T,), `scores` (R,) and `head_scores` (R, H) in float32;
    token columns are 0 outside `mask_T`.

    Log-probs are those of the distribution in `sampling` (temperature, then bans); without a record, of the plain
    model. Raises `InputError` for a greedy record (temperature 0) and for unknown names.
    """
    if not wanted <= OUTPUTS:
        raise InputError(f"unknown outputs {sorted(wanted - OUTPUTS)}: choose among {', '.join(sorted(OUTPUTS))}")
    with _arithmetic(precision, batch.tokens_T.device.type):
        hidden_TD = network.hidden(batch, checkpointing=precision.activation_checkpointing)
        outputs: dict[str, Tensor] = {}
        if wanted & POLICY_OUTPUTS:
            outputs |= policy_outputs(
                network,
                hidden_TD,
                batch,
                temperature=1.0 if sampling is None else sampling.temperature,
                banned_ids=() if sampling is None else sampling.banned_ids,
                wanted=wanted & POLICY_OUTPUTS,
            )
        if "values" in wanted:
            outputs["values"] = token_values(network, hidden_TD, batch)
        if "scores" in wanted:
            outputs["scores"] = row_scores(network, hidden_TD, batch)
        if "head_scores" in wanted:
            outputs["head_scores"] = row_head_scores(network, hidden_TD, batch)
        if "token_scores" in wanted:
            outputs["token_scores"] = token_scores(network, hidden_TD, batch)
    return outputs


def columns_of(batch: PackedBatch, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """All columns of the batch as tensors, and `row_T`, the row of each token (-1 in a shared prompt)."""
    columns = {**batch.token_columns, **batch.row_columns, "row_T": batch.row_T}
    return {name: tensor_of(column).to(device) for name, column in columns.items()}


def tensor_of(column: Array) -> Tensor:
    """A tensor that shares the column's memory where numpy lets it."""
    return torch.from_numpy(column if column.flags.writeable else np.array(column))


@contextmanager
def _arithmetic(precision: Precision, device_type: str) -> Iterator[None]:
    if precision.dtype == "fp32":
        yield
        return
    with torch.autocast(device_type, dtype=torch.bfloat16):
        yield
