"""What the ranks of a test do. Plain functions, so that a fresh process can import them."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from ropewalk.parallel.groups import Group
from ropewalk.records.errors import RunStopped
from ropewalk.training.step import gradients, optimiser_step, train_batch
from tests.parity.beds import bed, state

Answer = dict[str, Any]


class CountingGroup(Group):
    """A group that notes the size of every collective it takes part in."""

    __slots__ = ("noted",)

    def __init__(self, group: Group) -> None:
        super().__init__(group.rank, group.size, group.handle, group.device)
        object.__setattr__(self, "noted", [])

    def all_reduce_flat(self, tensors: Sequence[torch.Tensor]) -> None:
        self.noted.append(sum(tensor.numel() for tensor in tensors))  # type: ignore[attr-defined]
        super().all_reduce_flat(tensors)

    def sum_counts(self, counts: Any) -> dict[str, float]:
        self.noted.append(sorted(counts))  # type: ignore[attr-defined]
        return super().sum_counts(counts)


def collectives(group: Group) -> Answer:
    whole, half = torch.full((2, 3), float(group.rank + 1)), torch.full((4,), group.rank + 1.0, dtype=torch.bfloat16)
    turned = torch.full((3, 2), float(group.rank)).t()
    group.all_reduce_flat([whole, half, turned])
    group.barrier()
    return {
        "whole": whole.tolist(),
        "half": half.tolist(),
        "turned": turned.tolist(),
        "counts": group.sum_counts({"b": 0.25 + group.rank, "a": 2.0**40 + 1}),
    }


def train(group: Group, name: str, architecture: str, rows: int | None, budget: int) -> Answer:
    """Gradients, one step, two epochs, and an epoch of two minibatches, over the first `rows` rows of a bed."""
    made = bed(name)
    batch = made.batch if rows is None else made.batch.select(range(rows))
    counting = CountingGroup(group)
    first = state(architecture, made.heads, token_budget=budget)
    first.group = counting
    found = gradients(first, batch, made.objective, sampling=made.sampling)
    result = optimiser_step(first, batch, made.objective, sampling=made.sampling)
    later = train_batch(first, batch, made.objective, sampling=made.sampling, epochs=2, seed=(3,))
    dealt = train_batch(first, batch, made.objective, sampling=made.sampling, minibatches=2, seed=(3,))
    return {
        "gradients": {key: gradient.numpy() for key, gradient in found.items()},
        "metrics": dict(result.metrics),
        "later": dict(later),
        "dealt": dict(dealt),
        "logprobs": result.logprobs_T,
        "weights": {key: p.detach().numpy() for key, p in first.network.named_parameters()},
        "collectives": counting.noted,  # type: ignore[attr-defined]
        "empty": result.empty,
    }


def stop_on_one_rank(group: Group) -> Answer:
    """A row that only one rank trains has a bad advantage: all ranks stop, with one message."""
    made = bed("ppo-token")
    advantages = made.batch.token_columns["advantages"].copy()
    advantages[made.batch.positions_of([0])] = float("nan")
    trained = state("llama", made.heads)
    trained.group = group
    batch = made.batch.with_columns(tokens={"advantages": advantages})
    try:
        optimiser_step(trained, batch, made.objective, sampling=made.sampling)
    except RunStopped as error:
        return {"message": str(error), "step": trained.step}
    return {}


def leave_early(group: Group) -> Answer:
    """Rank 1 ends without taking part; the other must learn of it, not wait."""
    group.barrier()  # whoever leaves before all have met is told by another error than the one meant here
    if group.rank == 1:
        return {"heard": True}
    try:
        group.barrier()
    except dist.DistError as error:
        return {"heard": bool(str(error))}
    except RuntimeError as error:
        return {"heard": bool(str(error))}
    return {"heard": False}
