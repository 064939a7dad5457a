"""The small real model: loaded, verified, packed as alone, saved and loaded again."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ropewalk.models.chat import prompt_ids
from ropewalk.models.load import load_policy
from ropewalk.models.logprobs import policy_outputs
from ropewalk.models.packed import token_batch
from ropewalk.records.prompt import Message
from tests.models.stock import pack, pack_group, stock, stock_hidden


@pytest.mark.real
@torch.no_grad()
def test_shared_prompts_give_the_stock_logprobs(smollm2: Path) -> None:
    """Fault B4, N4: within 1e-4 of the stock model, each row alone; the end id is the padding id and may be said."""
    model = load_policy(smollm2)
    assert (model.eos_ids, model.pad_id) == ((2,), 2)
    prompt = prompt_ids(model.tokenizer, (Message("user", "What is the capital of France?"),))
    answers = [model.tokenizer.encode(text) for text in ("The capital of France is Paris.", "Paris", "I like tea.")]
    packed = pack_group(prompt, answers)
    batch = token_batch(packed)
    found = policy_outputs(model.network, model.network.hidden(batch), batch, temperature=1.0)["logprobs"]
    oracle = stock(model.network)
    for row, answer in enumerate([*answers, answers[0]]):
        ids = [*prompt, *answer]
        (hidden,) = stock_hidden(oracle, [ids])
        logits = oracle.get_output_embeddings()(hidden[len(prompt) - 1 : -1])
        wanted = logits.log_softmax(-1).gather(1, torch.tensor(answer)[:, None])[:, 0]
        mine = found[torch.from_numpy(packed.row_T == row)][-len(answer) :]
        np.testing.assert_allclose(mine, wanted, atol=1e-4)


@pytest.mark.real
@pytest.mark.slow
@torch.no_grad()
def test_padded_batches_agree_on_the_real_model(smollm2: Path) -> None:
    """Fault B4: left and right padding, by the stock model, give the packed hidden states."""
    model = load_policy(smollm2)
    rows = [model.tokenizer.encode(text) for text in ("One two three.", "Hello", "The sky is blue and the sea is too.")]
    mine = model.network.hidden(token_batch(pack(rows)))
    for padding in ("left", "right"):
        wanted = torch.cat(stock_hidden(stock(model.network), rows, padding))
        torch.testing.assert_close(mine, wanted, atol=2e-3, rtol=1e-3)
