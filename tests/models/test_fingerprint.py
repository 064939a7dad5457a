"""Equal bytes, equal fingerprint; any change, another."""

import copy

import torch

from ropewalk.models.fingerprint import fingerprint
from tests.fakes import tiny_gpt2, tiny_llama


def test_same_weights_same_fingerprint() -> None:
    assert fingerprint(tiny_llama(1)) == fingerprint(tiny_llama(1)) == fingerprint(copy.deepcopy(tiny_llama(1)))
    assert fingerprint(tiny_llama(1)) != fingerprint(tiny_llama(2))


def test_every_bit_type_and_name_counts() -> None:
    network = tiny_llama(1)
    before = fingerprint(network)
    with torch.no_grad():
        bits = network.lm_head.weight.view(torch.int32)
        bits[0, 0] ^= 1
    assert fingerprint(network) != before
    with torch.no_grad():
        bits[0, 0] ^= 1
    assert fingerprint(network) == before
    assert fingerprint(tiny_llama(1).to(torch.bfloat16)) != before
    assert fingerprint(tiny_llama(1).body) != before


def test_tied_weights_count_once() -> None:
    """A tied head adds nothing: the body alone has the same tensors."""
    network = tiny_gpt2(1)
    assert network.lm_head.weight is network.body.wte.weight
    bodies = {name for name, _ in network.named_parameters()}
    assert all(name.startswith("body.") for name in bodies)
    before = fingerprint(network)
    with torch.no_grad():
        network.lm_head.weight[0, 0] += 1
    assert fingerprint(network) != before


def test_layout_in_memory_does_not_count() -> None:
    network = tiny_llama(1)
    before = fingerprint(network)
    weight = network.lm_head.weight
    weight.data = weight.data.t().contiguous().t()
    assert fingerprint(network) == before
