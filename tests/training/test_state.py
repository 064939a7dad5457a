"""A saved and restored state goes on bit for bit."""

from pathlib import Path

import pytest
import torch

from ropewalk.records.errors import InputError
from ropewalk.training.checkpoint import load, save
from ropewalk.training.config import CosineSchedule, Optimizer
from ropewalk.training.state import TrainState
from ropewalk.training.step import train_batch
from tests.fakes import tiny_llama
from tests.parity.beds import POLICY, bed, network

SCHEDULE = CosineSchedule(kind="cosine", warmup_steps=2)


def fresh(name: str, architecture: str = "llama", seed: int = 0) -> TrainState:
    return TrainState(
        network(architecture, bed(name).heads, seed), Optimizer(lr=1e-2, weight_decay=0.1), SCHEDULE, total_steps=12
    )


def go(trained: TrainState, name: str, first: int, last: int) -> None:
    for iteration in range(first, last):
        made = bed(name, seed=iteration)
        train_batch(trained, made.batch, made.objective, sampling=made.sampling, epochs=2, seed=(7, iteration))


def same(mine: TrainState, theirs: TrainState) -> bool:
    own, other = mine.state_tensors(), theirs.state_tensors()
    return own.keys() == other.keys() and all(torch.equal(own[name], other[name]) for name in own)


@pytest.mark.parametrize("name", ["grpo-token", "joint-sequence", "critic-token", "pairs"])
@pytest.mark.parametrize("stop", [0, 1, 3])
def test_resuming_is_bit_equal(tmp_path: Path, name: str, stop: int) -> None:
    """Faults I1, I5, I6: save after any iteration, load into other weights, go on: heads and moments included."""
    through = fresh(name)
    go(through, name, 0, 4)
    before = fresh(name)
    go(before, name, 0, stop)
    path = save(tmp_path, before.step, tensors={"role": before.state_tensors()}, state={})
    after = fresh(name, seed=99)
    assert not same(after, before)
    after.load_state_tensors(load(path).tensors["role"])
    assert same(after, before)
    go(after, name, stop, 4)
    assert same(after, through)


def test_tied_tensors_are_saved_once_and_stay_tied(tmp_path: Path) -> None:
    """Fault I6 with tied embeddings: one tensor in the file, one in the network."""
    trained = TrainState(tiny_llama(tied=True), Optimizer())
    names = trained.state_tensors()
    assert len({tensor.data_ptr() for tensor in names.values()}) == len(names)
    path = save(tmp_path, 0, tensors={"role": names}, state={})
    twin = TrainState(tiny_llama(seed=4, tied=True), Optimizer())
    twin.load_state_tensors(load(path).tensors["role"])
    assert twin.network.lm_head is not None
    assert twin.network.lm_head.weight is twin.network.body.get_input_embeddings().weight
    assert same(trained, twin)


def test_a_state_of_another_network_is_refused() -> None:
    """Fault I6: a missing or extra tensor, another shape or type is an error that names it."""
    policy, critic = fresh("grpo-token"), fresh("joint-token")
    with pytest.raises(InputError, match=r"missing \['exp_avg/value_head.weight'"):
        critic.load_state_tensors(policy.state_tensors())
    with pytest.raises(InputError, match=r"extra \['exp_avg/value_head.weight'"):
        policy.load_state_tensors(critic.state_tensors())
    tensors = policy.state_tensors()
    name = next(key for key in tensors if key.startswith("network/") and tensors[key].ndim == 2)
    with pytest.raises(InputError, match=f"tensor {name} is torch.float32 "):
        policy.load_state_tensors({**tensors, name: tensors[name][:1]})
    with pytest.raises(InputError, match=f"tensor {name} is torch.bfloat16 "):
        policy.load_state_tensors({**tensors, name: tensors[name].bfloat16()})


def test_only_matrices_decay() -> None:
    """Norms and biases are left alone by weight decay; a frozen parameter by everything, but it is saved."""
    part = network("gpt2", POLICY)
    frozen = next(name for name, p in part.named_parameters() if p.ndim == 2)
    part.get_parameter(frozen).requires_grad_(False)
    trained = TrainState(part, Optimizer(weight_decay=0.1))
    matrices, vectors = trained.adam.param_groups
    assert matrices["weight_decay"] == 0.1 and all(p.ndim >= 2 for p in matrices["params"])
    assert vectors["weight_decay"] == 0.0 and all(p.ndim < 2 for p in vectors["params"])
    assert frozen not in trained.trained
    assert f"network/{frozen}" in trained.state_tensors()
    assert f"exp_avg/{frozen}" not in trained.state_tensors()
