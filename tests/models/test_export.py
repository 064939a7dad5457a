"""Folders that transformers loads without us: whole, equal, and written without touching the network."""

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BloomConfig

from ropewalk.models.export import save_policy, save_scorer
from ropewalk.models.fingerprint import fingerprint
from ropewalk.models.heads import row_scores
from ropewalk.models.load import LoadedModel, load_policy, load_scorer
from ropewalk.models.packed import token_batch
from ropewalk.records.errors import InputError, RunStopped
from tests.fakes import CHAT_TEMPLATE, EOS_ID, PAD_ID, TURN_END_ID, nudge, tiny_gpt2, tiny_llama
from tests.models.folders import change_tensors, loaded
from tests.models.stock import ROWS, pack

REWARD = frozenset({"reward"})

PLAIN = """
import json, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
assert not any(name.startswith("ropewalk") for name in sys.modules)
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], local_files_only=True)
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], local_files_only=True)
ids = tokenizer("a plain text", return_tensors="pt").input_ids
generated = model.generate(ids, max_new_tokens=4, do_sample=False)
print(json.dumps({
    "ids": ids[0].tolist(), "last": model(ids).logits[0, -1].tolist(), "generated": generated[0].tolist(),
    "template": tokenizer.chat_template, "attention": model.config._attn_implementation,
    "ends": model.generation_config.eos_token_id,
}))
"""


@pytest.mark.parametrize("make", [tiny_llama, tiny_gpt2])
def test_transformers_loads_it_without_ropewalk(tmp_path: Path, make: object) -> None:
    network = make(1)
    folder = save_policy(loaded(network), tmp_path / "model")
    command = [sys.executable, "-c", PLAIN, folder]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=280, cwd=tmp_path)
    found = json.loads(run.stdout.splitlines()[-1])
    logits = network.logits(network.hidden(token_batch(pack([found["ids"]])))[-1:])[0]
    torch.testing.assert_close(torch.tensor(found["last"]), logits, atol=1e-5, rtol=1e-5)
    assert len(found["generated"]) > len(found["ids"])
    assert found["template"] == CHAT_TEMPLATE
    assert found["attention"] == "sdpa"
    assert found["ends"] == [EOS_ID, TURN_END_ID]


def test_nothing_of_ours_and_no_sampling_settings_are_written(tmp_path: Path) -> None:
    folder = save_policy(loaded(), tmp_path / "model")
    assert "ropewalk" not in (folder / "config.json").read_text()
    ids = json.loads((folder / "generation_config.json").read_text())
    assert ids == {"bos_token_id": 259, "eos_token_id": [EOS_ID, TURN_END_ID], "pad_token_id": PAD_ID}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_saving_a_hundred_times_moves_no_bit(tmp_path: Path) -> None:
    """Fault H4: a bf16 export is computed out of place; weights, config and fingerprint stay."""
    model = loaded(tiny_llama(1, vocabulary_size=264))
    before, config = fingerprint(model.network), model.network.config.to_dict()
    for number in range(100):
        save_policy(model, tmp_path / str(number), dtype="bfloat16")
    assert fingerprint(model.network) == before
    assert model.network.config.to_dict() == config
    first, last = (load_file(tmp_path / n / "model.safetensors") for n in ("0", "99"))
    assert all(torch.equal(first[name], last[name]) for name in first)
    assert {tensor.dtype for tensor in first.values()} == {torch.bfloat16}


@pytest.mark.parametrize("make", [tiny_llama, tiny_gpt2])
def test_a_reward_model_comes_back_with_its_scores(tmp_path: Path, make: object) -> None:
    """Fault I6: scores are identical after save and load, by us to the bit and by transformers."""
    network = make(1, heads=REWARD)
    nudge(network, 2)
    batch = token_batch(pack(ROWS))
    scores = row_scores(network, network.hidden(batch), batch)
    folder = save_scorer(loaded(network), tmp_path / "scorer")
    again = load_scorer(folder).network
    assert again.heads == REWARD
    assert fingerprint(again) == fingerprint(network)
    assert torch.equal(row_scores(again, again.hidden(batch), batch), scores)
    stock = AutoModelForSequenceClassification.from_pretrained(folder, local_files_only=True)
    assert stock.num_labels == 1
    by_stock = torch.cat([stock(torch.tensor([row])).logits[0] for row in ROWS])
    torch.testing.assert_close(by_stock, scores, atol=1e-5, rtol=1e-5)
    assert AutoTokenizer.from_pretrained(folder, local_files_only=True).encode("ab") == [97, 98]


@pytest.mark.parametrize(
    ("change", "says"),
    [({"drop": "score.weight"}, "missing score.weight"), ({"add": "score.bias"}, "unexpected score.bias")],
)
def test_a_head_that_is_missing_or_extra_is_an_error(tmp_path: Path, change: dict[str, str], says: str) -> None:
    """Fault I6: never random weights with a warning."""
    folder = save_scorer(loaded(tiny_llama(1, heads=REWARD)), tmp_path / "scorer")
    change_tensors(folder, **change)
    with pytest.raises(InputError, match=says):
        load_scorer(folder)


def test_a_scorer_that_packing_cannot_carry_is_refused(tmp_path: Path) -> None:
    """Fault N4: also a reward model is run beside its stock form when it is loaded."""
    folder = save_scorer(loaded(tiny_llama(1, heads=REWARD)), tmp_path / "scorer")
    alibi = BloomConfig(vocab_size=264, hidden_size=32, n_layer=1, n_head=4, num_labels=1)
    AutoModelForSequenceClassification.from_config(alibi).save_pretrained(folder)
    with pytest.raises(InputError, match="BloomForCausalLM gives other outputs when run packed"):
        load_scorer(folder)


def test_a_policy_is_no_reward_model_and_the_reverse(tmp_path: Path) -> None:
    policy = save_policy(loaded(), tmp_path / "policy")
    with pytest.raises(InputError, match="2 labels"):
        load_scorer(policy)
    scorer = save_scorer(loaded(tiny_llama(1, heads=REWARD)), tmp_path / "scorer")
    with pytest.raises(InputError, match=r"missing lm_head.weight; unexpected score.weight"):
        load_policy(scorer)
    with pytest.raises(InputError, match="no policy to save"):
        save_policy(load_scorer(scorer), tmp_path / "x")
    with pytest.raises(InputError, match="no reward head to save"):
        save_scorer(load_policy(policy), tmp_path / "x")


def test_a_folder_is_never_overwritten(tmp_path: Path) -> None:
    folder = save_policy(loaded(tiny_llama(1)), tmp_path / "model")
    before = fingerprint(load_policy(folder).network)
    with pytest.raises(InputError, match="exists already"):
        save_policy(loaded(tiny_llama(2)), folder)
    assert fingerprint(load_policy(folder).network) == before


class FullDisk:
    """A tokenizer whose files no longer fit."""

    bos_token_id = None

    def save_pretrained(self, place: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    model = LoadedModel(tiny_llama(1), FullDisk(), (1,), None, 264)
    with pytest.raises(RunStopped, match=r"no room to write .*free some space"):
        save_policy(model, tmp_path / "deep" / "model")
    assert list((tmp_path / "deep").iterdir()) == []
