"""Log-probs and entropy: the plain formulas, whatever the chunks, bans and precision."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from ropewalk.models.heads import token_values
from ropewalk.models.logprobs import chosen_logprobs, entropies, policy_outputs, sampling_logits
from ropewalk.models.network import Network
from ropewalk.models.packed import token_batch
from ropewalk.records.errors import InputError
from tests.fakes import ARCHITECTURES, nudge, tiny_llama
from tests.models.stock import ROWS, pack

ROOT = Path(__file__).resolve().parents[2]
BOTH = frozenset({"logprobs", "entropy"})


def plain(network: Network, hidden: Tensor, batch: object, temperature: float, banned: list[int]) -> dict[str, Tensor]:
    """All logits at once, float64 where it matters not for the gradient."""
    logits = network.logits(hidden[batch.source_N]).float() / temperature
    flags = torch.zeros(logits.shape[1], dtype=torch.bool).index_fill(0, torch.tensor(banned, dtype=torch.int64), True)
    logprobs = logits.masked_fill(flags, -torch.inf).log_softmax(-1)
    kept = logprobs[:, ~flags]
    zeros = torch.zeros(batch.tokens)
    return {
        "logprobs": zeros.index_copy(0, batch.target_N, logprobs.gather(1, batch.tokens_T[batch.target_N, None])[:, 0]),
        "entropy": zeros.index_copy(0, batch.target_N, -(kept.exp() * kept).sum(-1)),
    }


def test_temperature_is_in_the_logprob() -> None:
    """Fault B1: logits [2, 0], T = 0.5, token 0: -0.01815, not -0.12693; the number 0 leaves logits as they are."""
    logits, ids = torch.tensor([[2.0, 0.0]]), torch.tensor([0])
    assert chosen_logprobs(sampling_logits(logits, 0.5), ids).item() == pytest.approx(-0.01815, abs=1e-5)
    for untempered in (0, 0.0, 1):
        assert torch.equal(sampling_logits(logits, untempered), logits)
    per_row = sampling_logits(logits.expand(2, 2), torch.tensor([[0.5], [2.0]]))
    assert per_row.tolist() == [[4.0, 0.0], [1.0, 0.0]]


def test_bans_have_probability_zero() -> None:
    """By ids or by flags alike; the rest is normalised over what may be said."""
    logits = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 9.0]])
    by_id = sampling_logits(logits, 1.0, torch.tensor([2]))
    by_flag = sampling_logits(logits, 1.0, torch.tensor([[False, False, True]]).expand(2, 3))
    assert torch.equal(by_id, by_flag)
    assert by_id.softmax(-1)[:, 2].tolist() == [0.0, 0.0]
    assert entropies(by_id)[1].item() == pytest.approx(math.log(2))


def test_entropy_of_a_uniform_choice() -> None:
    assert entropies(torch.zeros(3, 8)).tolist() == pytest.approx([math.log(8)] * 3)


@pytest.mark.parametrize("architecture", list(ARCHITECTURES))
@pytest.mark.parametrize("chunk_tokens", [1, 4, 7, None])
def test_chunks_change_nothing(architecture: str, chunk_tokens: int | None) -> None:
    """Fault O1: values and gradients of checkpointed chunks are those of one plain pass; with bans all are finite."""
    network = ARCHITECTURES[architecture](2)
    batch = token_batch(pack(ROWS, policy_mask=[i % 3 != 1 for i in range(sum(map(len, ROWS)))]))

    def run(chunked: bool) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        network.zero_grad()
        hidden = network.hidden(batch)
        out = (
            policy_outputs(
                network, hidden, batch, temperature=1.3, banned_ids=[0, 4], wanted=BOTH, chunk_tokens=chunk_tokens
            )
            if chunked
            else plain(network, hidden, batch, 1.3, [0, 4])
        )
        (out["logprobs"].sum() + 0.1 * out["entropy"].square().sum()).backward()
        return out, {name: p.grad.clone() for name, p in network.named_parameters()}

    (found, gradients), (expected, expected_gradients) = run(True), run(False)
    for name in BOTH:
        torch.testing.assert_close(found[name], expected[name], atol=1e-5, rtol=1e-5)
    for name, gradient in gradients.items():
        assert gradient.isfinite().all()
        torch.testing.assert_close(gradient, expected_gradients[name], atol=2e-5, rtol=2e-5, msg=name)


def test_only_masked_positions_are_computed() -> None:
    """Fault C4: NaN in hidden states that predict no target reaches neither a column nor a gradient."""
    network = tiny_llama(1, heads=frozenset({"policy", "value"}))
    nudge(network, 2)
    batch = token_batch(pack([[5, 6, 7, 8, 9]], policy_mask=[False, False, True, True, False]))
    assert batch.target_N.tolist() == [2, 3]
    assert batch.source_N.tolist() == [1, 2]
    hidden = network.hidden(batch).detach()
    wanted = policy_outputs(network, hidden, batch, temperature=1.0, wanted=BOTH)
    poisoned = hidden.clone()
    poisoned[[0, 3, 4]] = torch.nan
    poisoned.requires_grad_()
    found = policy_outputs(network, poisoned, batch, temperature=1.0, wanted=BOTH, chunk_tokens=1)
    found["values"] = token_values(network, poisoned, batch)
    for name in BOTH:
        torch.testing.assert_close(found[name], wanted[name], atol=1e-6, rtol=1e-6)
    sum(column.sum() for column in found.values()).backward()
    assert poisoned.grad.isfinite().all()
    assert network.lm_head.weight.grad.isfinite().all()
    assert not poisoned.grad[[0, 3, 4]].any()


def test_a_batch_without_targets_has_zero_columns_and_gradients() -> None:
    network = tiny_llama(1)
    batch = token_batch(pack([[5, 6, 7]], policy_mask=[False] * 3))
    columns = policy_outputs(network, network.hidden(batch), batch, temperature=1.0, wanted=BOTH)
    assert all(column.tolist() == [0.0] * 3 for column in columns.values())
    columns["logprobs"].sum().backward()
    assert not any(p.grad.any() for p in network.parameters())


def test_half_precision_logits_are_normalised_in_float32() -> None:
    """Probabilities sum to 1 far below bf16's own resolution."""
    network = tiny_llama(1).to(torch.bfloat16)
    batch = token_batch(pack(ROWS))
    hidden = network.hidden(batch)
    column = policy_outputs(network, hidden, batch, temperature=1.0)["logprobs"]
    assert column.dtype == torch.float32
    logits = network.logits(hidden[batch.source_N])
    assert logits.dtype == torch.bfloat16
    exact = logits.double().log_softmax(-1).gather(1, batch.tokens_T[batch.target_N, None])[:, 0]
    np.testing.assert_allclose(column[batch.target_N].detach(), exact.detach(), atol=1e-5)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"temperature": 0.0}, "temperature above 0"),
        ({"wanted": frozenset({"logits"})}, "unknown policy outputs"),
        ({"banned_ids": [7]}, "token id 7 is banned"),
    ],
)
def test_refusals(change: dict[str, object], says: str) -> None:
    """Fault B1 (temperature 0 is refused for training), and a target that the policy may not say."""
    network = tiny_llama(1)
    batch = token_batch(pack([[5, 6, 7]]))
    with pytest.raises(InputError, match=says):
        policy_outputs(network, network.hidden(batch), batch, **({"temperature": 1.0} | change))


# VmHWM and not ru_maxrss: the latter starts, across an exec, from the peak of the process that started this one.
MEMORY = """
import json, re
from pathlib import Path
import numpy as np, torch
from ropewalk.models.logprobs import policy_outputs
from ropewalk.models.packed import token_batch
from tests.fakes import tiny_llama
from tests.models.stock import pack

network = tiny_llama(1, vocabulary_size=16384, max_positions=1024)
peaks = []
for tokens, chunk in ((64, 64), (1024, 64), (1024, 1024)):
    batch = token_batch(pack([np.arange(1, 1 + tokens).tolist()]))
    hidden = network.hidden(batch).detach().requires_grad_()
    wanted = frozenset({"logprobs", "entropy"})
    columns = policy_outputs(network, hidden, batch, temperature=0.9, wanted=wanted, chunk_tokens=chunk)
    (columns["logprobs"].sum() + columns["entropy"].sum()).backward()
    peaks.append(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
print(json.dumps(peaks))
"""


def test_peak_memory_is_that_of_one_chunk() -> None:
    """Fault O1: 16 times the tokens in chunks of 64 add little to the peak; one chunk of all adds its full logits."""
    # Freed tensors must go back to the system at once, or the peak shows the allocator's holes.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "262144"}
    command = [sys.executable, "-c", MEMORY]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=280, env=environment, cwd=ROOT)
    first, many, plain_pass = json.loads(run.stdout.splitlines()[-1])
    logits_mib = 1024 * 16384 * 4 / 2**20
    assert many - first < logits_mib / 2
    assert plain_pass - many > logits_mib
