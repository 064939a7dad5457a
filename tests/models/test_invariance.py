"""What a sequence gets depends on that sequence alone: not on neighbours, order, padding or a shared prompt."""

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from ropewalk.models.heads import row_scores, token_values
from ropewalk.models.logprobs import policy_outputs
from ropewalk.models.network import Network
from ropewalk.models.packed import token_batch
from ropewalk.records.packed import PackedBatch
from tests.fakes import ARCHITECTURES, nudge
from tests.models.stock import ROWS, pack, pack_group, stock, stock_hidden

ALL = frozenset({"policy", "value", "reward"})


@pytest.fixture(params=list(ARCHITECTURES))
def network(request: pytest.FixtureRequest) -> Network:
    network = ARCHITECTURES[request.param](3, heads=ALL)
    nudge(network, 4)  # scalar heads are zero at first
    return network


def described(network: Network, packed: PackedBatch) -> dict[str, Tensor]:
    batch = token_batch(packed)
    hidden = network.hidden(batch)
    wanted = frozenset({"logprobs", "entropy"})
    return policy_outputs(network, hidden, batch, temperature=0.7, banned_ids=[0], wanted=wanted) | {
        "values": token_values(network, hidden, batch),
        "scores": row_scores(network, hidden, batch),
    }


def expected(network: Network, rows: list[list[int]], padding: str) -> dict[str, Tensor]:
    """The same by hand from stock hidden states."""
    columns: dict[str, list[Tensor]] = {"logprobs": [], "entropy": [], "values": [], "scores": []}
    zero = torch.zeros(1)
    for row, hidden in zip(rows, stock_hidden(stock(network), rows, padding), strict=True):
        logits = network.logits(hidden[:-1]) / 0.7
        logits[:, 0] = -torch.inf
        logprobs = logits.log_softmax(-1)
        kept = logprobs[:, 1:]
        chosen = logprobs.gather(1, torch.tensor(row[1:]).view(-1, 1))[:, 0]
        columns["logprobs"] += [zero, chosen]
        columns["entropy"] += [zero, -(kept.exp() * kept).sum(-1)]
        columns["values"] += [zero, hidden[:-1] @ network.value_head.weight[0]]
        columns["scores"].append(hidden[-1:] @ network.reward_head.weight[0])
    return {name: torch.cat(parts) for name, parts in columns.items()}


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor], tolerance: float = 2e-5) -> None:
    assert one.keys() == other.keys()
    for name, column in one.items():
        torch.testing.assert_close(
            column, other[name], atol=tolerance, rtol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("padding", ["none", "left", "right"])
@torch.no_grad()
def test_packed_rows_equal_stock_rows(network: Network, padding: str) -> None:
    """Fault B4, M1: log-probs, entropy, values and scores as of the stock model, alone and padded on either side."""
    assert_same(described(network, pack(ROWS)), expected(network, ROWS, padding))


@given(seed=st.integers(0, 2**32 - 1))
@torch.no_grad()
def test_any_order_and_company(seed: int) -> None:
    """Fault B4, N4: each row's outputs are the same in a pack of any rows in any order as alone."""
    generator = np.random.default_rng(seed)
    network = list(ARCHITECTURES.values())[seed % 2](5, heads=ALL)
    nudge(network, 6)
    rows = [generator.integers(1, 250, generator.integers(1, 12)).tolist() for _ in range(generator.integers(1, 7))]
    together = described(network, pack(rows))
    ends = np.cumsum([0, *(len(row) for row in rows)])
    for number, (row, (start, end)) in enumerate(zip(rows, pairwise(ends), strict=True)):
        alone = described(network, pack([row]))
        mine = {name: together[name][start:end] for name in ("logprobs", "entropy", "values")}
        assert_same(mine | {"scores": together["scores"][number : number + 1]}, alone)


@torch.no_grad()
def test_shared_prompt_equals_repeated_prompt(network: Network) -> None:
    """A child's outputs are those of the row prompt + answer, its first token predicted by the parent's last."""
    prompt, answers = [5, 6, 2, 8], [[9, 2], [9, 10, 11], [12, 2], [13]]
    shared = described(network, pack_group(prompt, answers))
    rows = [[*prompt, *answer] for answer in [*answers, answers[0]]]
    repeated = described(network, pack(rows))
    torch.testing.assert_close(shared["scores"], repeated["scores"], atol=2e-5, rtol=2e-5)
    own = np.concatenate([np.arange(len(row)) >= len(prompt) for row in rows[:-1]])
    for name in ("logprobs", "entropy", "values"):
        children = shared[name][len(prompt) : len(prompt) + sum(map(len, answers))]
        torch.testing.assert_close(children, repeated[name][: len(own)][torch.from_numpy(own)], atol=2e-5, rtol=2e-5)


def test_neighbours_cannot_be_felt(network: Network) -> None:
    """Fault N4: changing row A changes not one bit of row B, and B's gradient does not reach A's own tokens."""
    first, second = [5, 6, 7, 8], [9, 10, 11, 12]
    before = described(network, pack([first, second]))
    after = described(network, pack([[20, 21, 22, 23], second]))
    for name in ("logprobs", "entropy", "values"):
        assert torch.equal(before[name][4:], after[name][4:])
    assert torch.equal(before["scores"][1], after["scores"][1])
    before["logprobs"][4:].sum().backward()
    touched = network.body.get_input_embeddings().weight.grad
    if network.architecture.tied:
        return  # the head's gradient covers every id
    assert not touched[first].any()
    assert touched[second[:-1]].abs().sum(1).all()


@pytest.mark.parametrize("checkpointing", [False, True])
def test_gradient_of_a_pack_is_the_sum_of_separate_ones(network: Network, checkpointing: bool) -> None:
    """Packed, with or without a shared prompt and checkpointing: one gradient, to 1e-5."""
    prompt, answers = [5, 6, 2, 8], [[9, 2], [9, 10, 11], [12, 2], [13]]
    rows = [[*prompt, *answer] for answer in [*answers, answers[0]]]

    def gradients(batches: list[PackedBatch]) -> dict[str, Tensor]:
        network.zero_grad()
        for packed in batches:
            batch = token_batch(packed)
            hidden = network.hidden(batch, checkpointing=checkpointing)
            out = policy_outputs(network, hidden, batch, temperature=1.0)["logprobs"]
            keep = batch.positions_T >= len(prompt)
            values = token_values(network, hidden, batch)
            ((out + values.square()) * keep).sum().add(row_scores(network, hidden, batch).square().sum()).backward()
        return {name: p.grad.clone() for name, p in network.named_parameters()}

    separate = gradients([pack([row]) for row in rows])
    for other in (gradients([pack(rows)]), gradients([pack_group(prompt, answers)])):
        for name, gradient in separate.items():
            scale = gradient.abs().max().clamp(min=1.0)
            torch.testing.assert_close(other[name] / scale, gradient / scale, atol=1e-5, rtol=0, msg=name)


def test_checkpointing_changes_no_bit(network: Network) -> None:
    """Recomputing layers gives the very same hidden states and gradients, and leaves no trace on the layers."""
    batch = token_batch(pack_group([5, 6, 2], [[7, 8], [9]]))

    def run(checkpointing: bool) -> tuple[Tensor, dict[str, Tensor]]:
        network.zero_grad()
        hidden = network.hidden(batch, checkpointing=checkpointing)
        hidden.square().sum().backward()
        return hidden, {n: p.grad.clone() for n, p in network.body.named_parameters()}

    (plain, plain_gradients), (again, again_gradients) = run(False), run(True)
    assert torch.equal(plain, again)
    assert all(torch.equal(plain_gradients[name], again_gradients[name]) for name in plain_gradients)
    assert not any("forward" in vars(module) for module in network.modules())


def test_score_is_read_at_the_recorded_end() -> None:
    """Fault M1: end = pad = 2 inside the text: the score is that of position 3, whatever stands beside the row."""
    network = ARCHITECTURES["llama"](1, heads=frozenset({"reward"}))
    nudge(network, 2)
    alone = token_batch(pack([[5, 2, 7, 2]]))
    hidden = network.hidden(alone)
    assert torch.equal(row_scores(network, hidden, alone), network.reward(hidden[3:4]))
    beside = token_batch(pack([[5, 2, 7, 2, 2, 2], [5, 2, 7, 2], [2]]))
    scores = row_scores(network, network.hidden(beside), beside)
    torch.testing.assert_close(scores[1:2], row_scores(network, hidden, alone), atol=1e-6, rtol=1e-6)


def test_configured_dropout_is_never_active() -> None:
    """Fault B3: with dropout 0.1 in the config, two passes agree to the bit, also after a call to train()."""
    network = ARCHITECTURES["gpt2"](1)
    assert network.config.resid_pdrop > 0
    batch = token_batch(pack(ROWS))
    first = network.hidden(batch)
    network.train()
    assert torch.equal(first, network.hidden(batch))
    assert not any(module.training for module in network.modules())
