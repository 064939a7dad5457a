"""A trained network with its optimiser: everything an optimiser step changes, saved and restored exactly."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch

from ropewalk.models.network import Network
from ropewalk.parallel.groups import Group
from ropewalk.records.errors import InputError
from ropewalk.training.config import ConstantSchedule, Optimizer, Precision, Schedule
from ropewalk.training.schedule import lr_factor

MOMENTS = ("exp_avg", "exp_avg_sq", "step")


@dataclass
class TrainState:
    """A network, its AdamW moments and the number of steps taken; and how its passes run.

    Weight decay acts on parameters of two or more dimensions (embeddings included), never on norms and biases.
    A tied parameter is one parameter. Frozen parameters are not trained but are saved.
    """

    network: Network
    optimizer: Optimizer
    schedule: Schedule = field(default_factory=ConstantSchedule)
    total_steps: int = 1
    """Length of the schedule, from the run's `StepPlan`."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    precision: Precision = field(default_factory=Precision)
    token_budget: int = 16_384
    """Tokens of a micro-batch."""
    group: Group = field(default_factory=Group)
    """The dp ranks that share each step."""
    step: int = 0
    """Optimiser steps taken, empty ones included: the schedule's clock."""
    trained: dict[str, torch.nn.Parameter] = field(init=False)
    adam: torch.optim.AdamW = field(init=False)

    def __post_init__(self) -> None:
        self.network.to(self.device)
        self.trained = {name: p for name, p in self.network.named_parameters() if p.requires_grad}
        matrices = [parameter for parameter in self.trained.values() if parameter.ndim >= 2]
        vectors = [parameter for parameter in self.trained.values() if parameter.ndim < 2]
        self.adam = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": self.optimizer.weight_decay},
                {"params": vectors, "weight_decay": 0.0},
            ],
            lr=self.optimizer.lr,
            betas=(self.optimizer.beta1, self.optimizer.beta2),
            eps=self.optimizer.eps,
            fused=True,
        )
        for parameter in self.trained.values():
            self.adam.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
                "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
            }

    @property
    def lr(self) -> float:
        """Learning rate of the coming step."""
        return self.optimizer.lr * lr_factor(self.step, self.total_steps, self.schedule)

    def update(self) -> None:
        """Apply the gradients that stand on the parameters, at this step's rate."""
        for settings in self.adam.param_groups:
            settings["lr"] = self.lr
        self.adam.step()

    def state_tensors(self) -> dict[str, torch.Tensor]:
        """Every tensor a step reads or changes, by name; not copies. Tied parameters appear once."""
        return dict(self._tensors())

    def load_state_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Restore what `state_tensors` gave, bit for bit. Raises `InputError` for a missing, extra or unlike tensor."""
        own = self.state_tensors()
        missing, extra = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
        if missing or extra:
            raise InputError(
                f"this state does not fit the network: missing {missing[:3]}, extra {extra[:3]} "
                f"({len(missing)} and {len(extra)} in all); resume with the recipe it was saved by"
            )
        for name, tensor in own.items():
            given = tensors[name]
            if given.shape != tensor.shape or given.dtype != tensor.dtype:
                raise InputError(
                    f"tensor {name} is {given.dtype} {list(given.shape)} in the state and {tensor.dtype} "
                    f"{list(tensor.shape)} in the network: resume with the recipe it was saved by"
                )
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(tensors[name])
        self.step = int(tensors["step"])

    def _tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield "step", torch.tensor(self.step, dtype=torch.int64)
        seen: set[int] = set()
        for name, tensor in self.network.state_dict().items():
            if tensor.numel() == 0 or tensor.data_ptr() not in seen:
                seen.add(tensor.data_ptr())
                yield f"network/{name}", tensor
        for name, parameter in self.trained.items():
            for moment in MOMENTS:
                yield f"{moment}/{name}", self.adam.state[parameter][moment]
