"""Reward models with several heads: saved, loaded and read as transformers reads them; one head is today's."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from ropewalk.models.export import save_scorer
from ropewalk.models.fingerprint import fingerprint
from ropewalk.models.heads import row_head_scores, row_scores, token_scores
from ropewalk.models.load import load_scorer
from ropewalk.models.network import Network
from ropewalk.models.packed import token_batch
from ropewalk.records.errors import InputError
from ropewalk.training.forward import forward
from tests.fakes import ARCHITECTURES, nudge
from tests.models.folders import change_tensors, loaded
from tests.models.stock import ROWS, pack, stock, stock_hidden

NAMES = {0: "help", 1: "safe", 2: "true"}


def with_heads(architecture: str, heads: int = 3, seed: int = 1) -> Network:
    made = ARCHITECTURES[architecture](seed, heads=frozenset({"reward"}))
    nudge(made, 2)
    made.set_reward_heads(torch.randn(heads, made.width, generator=torch.Generator().manual_seed(seed)))
    made.config.num_labels = heads
    if heads == len(NAMES):
        made.config.id2label, made.config.label2id = dict(NAMES), {name: i for i, name in NAMES.items()}
    return made


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_load_save_load_moves_no_bit_and_keeps_the_names(tmp_path: Path, architecture: str) -> None:
    """Fault I6: every head, by us to the bit and by transformers."""
    network = with_heads(architecture)
    batch = token_batch(pack(ROWS))
    scores_RH = row_head_scores(network, network.hidden(batch), batch)
    first = load_scorer(save_scorer(loaded(network), tmp_path / "a"), many_heads=True)
    again = load_scorer(save_scorer(first, tmp_path / "b"), many_heads=True).network
    assert again.reward_heads == 3 and again.config.id2label == NAMES
    assert fingerprint(again) == fingerprint(network) == fingerprint(first.network)
    assert torch.equal(row_head_scores(again, again.hidden(batch), batch), scores_RH)
    classifier = AutoModelForSequenceClassification.from_pretrained(tmp_path / "b", local_files_only=True)
    assert classifier.config.id2label == NAMES
    by_stock = torch.cat([classifier(torch.tensor([row])).logits for row in ROWS])
    torch.testing.assert_close(by_stock, scores_RH, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_packed_is_padded(architecture: str, padding: str) -> None:
    """Fault M1, B4: each head at the last real token, and every token of a process reward model."""
    network = with_heads(architecture)
    batch = token_batch(pack(ROWS))
    hidden = stock_hidden(stock(network), ROWS, padding)
    weight_HD = network.reward_head.weight
    by_hand = torch.stack([row[-1] @ weight_HD.T for row in hidden])
    torch.testing.assert_close(row_head_scores(network, network.hidden(batch), batch), by_hand, atol=1e-5, rtol=1e-4)
    network.set_reward_heads(weight_HD[:1])
    found = token_scores(network, network.hidden(batch), batch)[batch.mask_T]
    expected = torch.cat([(row @ weight_HD[0])[1:] for row in hidden])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_columns_of_several_heads_lie_in_rows_in_any_micro_batches() -> None:
    network, batch = with_heads("llama"), pack(ROWS)
    whole = forward(network, batch, outputs=frozenset({"head_scores"}))["head_scores"]
    assert whole.shape == (len(ROWS), 3)
    for budget in (1, 5, 9):
        cut = forward(network, batch, outputs=frozenset({"head_scores"}), token_budget=budget)["head_scores"]
        assert cut == pytest.approx(whole, abs=1e-5)
    none = forward(network, batch.select([]), outputs=frozenset({"head_scores"}))["head_scores"]
    assert none.shape == (0, 3)


def test_one_head_of_many_is_the_scalar_one() -> None:
    network = with_heads("llama", heads=1)
    batch = token_batch(pack(ROWS))
    hidden = network.hidden(batch)
    assert torch.equal(row_head_scores(network, hidden, batch)[:, 0], row_scores(network, hidden, batch))


def test_several_heads_are_not_taken_for_one(tmp_path: Path) -> None:
    """A model with three heads has no one score: not for a plain reward, not for a critic."""
    network = with_heads("llama")
    folder = save_scorer(loaded(network), tmp_path / "three")
    with pytest.raises(InputError, match="3 labels"):
        load_scorer(folder)
    with pytest.raises(InputError, match="3 reward heads where one is read"):
        network.reward(torch.zeros(1, network.width))
    with pytest.raises(InputError, match="with one head, and this one has 3"):
        network.copy(frozenset({"value"}))
    assert load_scorer(folder, many_heads=True).network.copy().reward_heads == 3


def test_a_head_that_is_missing_is_an_error(tmp_path: Path) -> None:
    """Fault I6: a language model's folder has two labels by default and no head."""
    folder = save_scorer(loaded(with_heads("llama")), tmp_path / "three")
    change_tensors(folder, drop="score.weight")
    with pytest.raises(InputError, match=r"missing score\.weight"):
        load_scorer(folder, many_heads=True)
