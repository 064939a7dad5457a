"""Forward-only scoring: a role's outputs over a whole batch, without gradients."""

import numpy as np
import torch

from ropewalk.models.network import Network
from ropewalk.models.packed import token_batch
from ropewalk.records.packed import Array, PackedBatch
from ropewalk.records.sample import SamplingRecord
from ropewalk.training.config import Precision
from ropewalk.training.outputs import ROW_OUTPUTS, network_outputs
from ropewalk.training.packing import micro_batches


def forward(
    network: Network,
    batch: PackedBatch,
    *,
    outputs: frozenset[str],
    sampling: SamplingRecord | None = None,
    token_budget: int = 16_384,
    device: torch.device | str = "cpu",
    precision: Precision | None = None,
) -> dict[str, Array]:
    """float32 columns in the batch's own order: `logprobs`, `entropy`, `values`, `token_scores` per token, `scores` and
    `head_scores` (R, H) per row.

    Token columns are 0 where nothing was asked (outside `policy_mask`, or a first token). The result does not depend
    on the micro-batches, but for round-off. A batch without rows gives empty columns.
    """
    wide = {"head_scores": (network.reward_heads,)}
    scored: dict[str, Array] = {
        name: np.zeros((batch.rows if name in ROW_OUTPUTS else batch.tokens, *wide.get(name, ())), np.float32)
        for name in sorted(outputs)
    }
    with torch.no_grad():
        for rows in micro_batches(batch, token_budget):
            part = batch.select(rows)
            found = network_outputs(
                network, token_batch(part, device), outputs, sampling=sampling, precision=precision or Precision()
            )
            tokens = batch.positions_of(rows)
            for name, column in found.items():
                scored[name][rows if name in ROW_OUTPUTS else tokens] = column.float().cpu().numpy()
    return scored
