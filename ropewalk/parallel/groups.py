"""Process groups: the ranks that add up their gradients and counts.

Every rank of a group calls the same collectives in the same order, whatever its share of the batch; a group of one
needs no process group and every collective on it is free.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal, TypeAlias

import torch
import torch.distributed as dist

Backend: TypeAlias = Literal["gloo", "nccl"]


@dataclass(frozen=True, slots=True)
class Group:
    """A rank's handle on its group. `Group()` is a world of one."""

    rank: int = 0
    size: int = 1
    handle: dist.ProcessGroup | None = None
    """None in a world of one."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Where the tensors of its collectives live."""

    def all_reduce_flat(self, tensors: Sequence[torch.Tensor]) -> None:
        """Sum each tensor over the ranks, in place: one collective per dtype, since latency outweighs the copies."""
        if self.handle is None:
            return
        for dtype in sorted({tensor.dtype for tensor in tensors}, key=str):
            same = [tensor for tensor in tensors if tensor.dtype == dtype]
            flat = torch.cat([tensor.reshape(-1) for tensor in same])
            dist.all_reduce(flat, group=self.handle)
            parts = torch.split(flat, [tensor.numel() for tensor in same])
            torch._foreach_copy_(same, [part.view_as(tensor) for part, tensor in zip(parts, same, strict=True)])

    def sum_counts(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Sum named numbers over the ranks, in float64. Every rank gives the same names."""
        if self.handle is None:
            return dict(counts)
        names = sorted(counts)
        totals = torch.tensor([counts[name] for name in names], dtype=torch.float64, device=self.device)
        dist.all_reduce(totals, group=self.handle)
        return dict(zip(names, totals.tolist(), strict=True))

    def barrier(self) -> None:
        """Wait until every rank is here."""
        if self.handle is not None:
            dist.all_reduce(torch.zeros(1, device=self.device), group=self.handle)

    def close(self) -> None:
        """Leave the group; nothing may be called on it afterwards."""
        if self.handle is not None:
            dist.destroy_process_group(self.handle)


def open_group(
    rank: int, size: int, rendezvous: Path, *, backend: Backend = "gloo", timeout_seconds: float = 60.0
) -> Group:
    """Join the group of `size` ranks that meet at the file `rendezvous` (fresh, in a folder all ranks see).

    A collective in which a rank does not take part within `timeout_seconds` raises on the others.
    """
    if size == 1:
        return Group()
    device = torch.device("cuda", torch.cuda.current_device()) if backend == "nccl" else torch.device("cpu")
    dist.init_process_group(
        backend,
        init_method=f"file://{rendezvous.resolve()}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=timeout_seconds),
    )
    return Group(rank, size, dist.group.WORLD, device)
