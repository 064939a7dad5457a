"""Folders are loaded whole or refused with a sentence; nothing in them runs."""

import pickle  # noqa: TID251 - to plant one that must never be opened
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from ropewalk.models.config import FreshModel
from ropewalk.models.export import save_policy
from ropewalk.models.fingerprint import fingerprint
from ropewalk.models.language import load_language, word_language
from ropewalk.models.load import fresh_policy, load_policy, load_scorer
from ropewalk.models.logprobs import policy_outputs
from ropewalk.models.packed import token_batch
from ropewalk.records.errors import InputError
from tests.fakes import EOS_ID, PAD_ID, TURN_END_ID, tiny_gpt2, tiny_llama
from tests.models.folders import change_json, change_tensors, loaded, policy_folder
from tests.models.stock import ROWS, pack, stock, stock_hidden

WORDS = ["[", "rome", "paris", "has", "sun", "."]


@pytest.mark.parametrize("make", [tiny_llama, tiny_gpt2, lambda seed: tiny_llama(seed, tied=True)])
def test_round_trip_keeps_every_bit(tmp_path: Path, make: Callable[..., object]) -> None:
    network = make(1)
    again = load_policy(policy_folder(tmp_path, network))
    assert fingerprint(again.network) == fingerprint(network)
    assert again.network.architecture == network.architecture
    assert (again.eos_ids, again.pad_id, again.vocabulary_size) == ((EOS_ID, TURN_END_ID), PAD_ID, 264)
    assert again.notes == []


def test_every_end_id_counts(tmp_path: Path) -> None:
    """Fault A7: the ends of config.json, generation_config.json and the tokenizer together, the tokenizer's first."""
    folder = policy_folder(tmp_path)
    change_json(folder / "config.json", {"eos_token_id": [7, 9]})
    change_json(folder / "generation_config.json", {"eos_token_id": [9, 11]})
    assert load_policy(folder).eos_ids == (EOS_ID, 7, 9, 11)
    change_json(folder / "generation_config.json", {"eos_token_id": 12})
    assert load_policy(folder).eos_ids == (EOS_ID, 7, 9, 12)


def test_stored_generation_settings_are_ignored_and_named(tmp_path: Path) -> None:
    """Fault Q1: top_k 1 and repetition penalty 1.5 change nothing, and the user is told."""
    folder = policy_folder(tmp_path)
    batch = token_batch(pack(ROWS))
    before = load_policy(folder).network
    settings = {"top_k": 1, "repetition_penalty": 1.5, "do_sample": True, "transformers_version": "5.0.0"}
    change_json(folder / "generation_config.json", settings)
    after = load_policy(folder)
    one, other = (
        policy_outputs(n, n.hidden(batch), batch, temperature=1.0)["logprobs"] for n in (before, after.network)
    )
    assert torch.equal(one, other)
    (note,) = after.notes
    assert "top_k=1" in note and "repetition_penalty=1.5" in note and "version" not in note
    saved = save_policy(after, tmp_path / "again")
    assert load_policy(saved).notes == []


class Bomb:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Path]]:
        return Path.touch, (self.target,)


def test_pickled_weights_are_refused_unopened(tmp_path: Path) -> None:
    """Fault H7: a pickle that would create a file is never opened."""
    folder = policy_folder(tmp_path)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb(tmp_path / "hit")))
    for load in (load_policy, load_scorer):
        with pytest.raises(InputError, match=r"only pickled weights \(pytorch_model.bin\)"):
            load(folder)
    assert not (tmp_path / "hit").exists()


def test_pickle_beside_safetensors_is_left_alone(tmp_path: Path) -> None:
    folder = policy_folder(tmp_path)
    (folder / "optimizer.pt").write_bytes(pickle.dumps(Bomb(tmp_path / "hit")))
    assert load_policy(folder).notes == ["ignored pickled file optimizer.pt"]
    assert not (tmp_path / "hit").exists()


def lose_end_ids(folder: Path) -> None:
    change_json(folder / "config.json", {"eos_token_id": None})
    change_json(folder / "generation_config.json", {"eos_token_id": None})
    change_json(folder / "tokenizer_config.json", {"eos_token": None})


def lose_tokenizer(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()


def cut_off(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-100])


def config(**changes: object) -> Callable[[Path], None]:
    return lambda folder: change_json(folder / "config.json", changes)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no config": lambda folder: (folder / "config.json").unlink(),
    "config is no JSON": lambda folder: (folder / "config.json").write_text("{"),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "own model code": config(auto_map={"AutoModelForCausalLM": "evil.Model"}),
    "own tokenizer code": lambda folder: change_json(
        folder / "tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.T", None]}}
    ),
    "encoder-decoder": config(is_encoder_decoder=True),
    "unknown architecture": config(model_type="nonesuch"),
    "tensor missing": lambda folder: change_tensors(folder, drop="model.layers.1.mlp.up_proj.weight"),
    "tensor unexpected": lambda folder: change_tensors(folder, add="model.layers.1.mlp.side_proj.weight"),
    "wrong shape": config(intermediate_size=48),
    "cut off": cut_off,
    "no end id": lose_end_ids,
    "no tokenizer": lose_tokenizer,
}


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("no config", "has no config.json"),
        ("config is no JSON", "config.json is not JSON"),
        ("no weights", r"holds no \*.safetensors"),
        ("own model code", "code in a model folder never runs"),
        ("own tokenizer code", "code in a model folder never runs"),
        ("encoder-decoder", "is an encoder-decoder"),
        ("unknown architecture", "cannot be loaded"),
        ("tensor missing", r"missing model.layers.1.mlp.up_proj.weight"),
        ("tensor unexpected", r"unexpected model.layers.1.mlp.side_proj.weight"),
        ("wrong shape", "mismatched model.layers.0.mlp.down_proj.weight"),
        ("cut off", "cannot be loaded"),
        ("no end id", "declares no end-of-sequence id"),
        ("no tokenizer", "tokenizer"),
    ],
)
def test_damaged_folders_are_refused_by_name(tmp_path: Path, kind: str, says: str) -> None:
    """Fault I6, H7: what is missing or extra is an error that names it, never a random start."""
    folder = policy_folder(tmp_path)
    DAMAGE[kind](folder)
    with pytest.raises(InputError, match=says) as error:
        load_policy(folder)
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("path", ["missing", "missing/folder/deep", "~nobody"])
def test_a_missing_folder_is_said_to_be_missing(tmp_path: Path, path: str) -> None:
    with pytest.raises(InputError, match="there is no model folder"):
        load_policy(tmp_path / path)


def test_a_hub_id_without_a_network_is_one_sentence() -> None:
    with pytest.raises(InputError, match="nobody/nothing is neither a local folder nor a model that can be fetched"):
        load_policy("nobody/nothing")


def test_language_is_read_as_the_model_would_be(tmp_path: Path) -> None:
    """Controllers read the tokenizer and ids without the weights: the same facts as loading gives."""
    folder = policy_folder(tmp_path)
    change_json(folder / "generation_config.json", {"top_k": 1})
    model, language = load_policy(folder), load_language(folder)
    assert (language.eos_ids, language.pad_id, language.vocabulary_size, list(language.notes)) == (
        model.eos_ids,
        model.pad_id,
        model.vocabulary_size,
        model.notes,
    )
    assert language.max_positions == model.network.config.max_position_embeddings
    fresh, words = fresh_policy(FreshModel(), WORDS, ".", seed=0), word_language(FreshModel(), WORDS, ".", "<pad>")
    assert (words.eos_ids, words.pad_id, words.vocabulary_size) == (fresh.eos_ids, fresh.pad_id, fresh.vocabulary_size)
    assert words.tokenizer.get_vocab() == fresh.tokenizer.get_vocab()


@pytest.mark.parametrize("sizes", [{"width": 10, "heads": 3}, {"heads": 6, "kv_heads": 4}, {"width": 6, "heads": 6}])
def test_sizes_that_do_not_divide_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match="multiple"):
        FreshModel(**sizes)


def test_loading_leaves_the_global_generator_alone(tmp_path: Path) -> None:
    folder = policy_folder(tmp_path)
    state = torch.random.get_rng_state()
    load_policy(folder)
    fresh_policy(FreshModel(width=16, heads=2, kv_heads=1, ffn=16), WORDS, ".", seed=1)
    assert torch.equal(state, torch.random.get_rng_state())


def test_bf16_folder_comes_up_in_float32_unless_told(tmp_path: Path) -> None:
    folder = save_policy(loaded(), tmp_path / "half", dtype="bfloat16")
    assert {p.dtype for p in load_policy(folder).network.parameters()} == {torch.float32}
    assert {p.dtype for p in load_policy(folder, dtype="bfloat16").network.parameters()} == {torch.bfloat16}


def test_fresh_models_hang_on_their_seed_alone() -> None:
    config = FreshModel(width=24, layers=2, heads=2, kv_heads=1, ffn=32, init_std=0.05)
    one, same, other = (fresh_policy(config, WORDS, ".", seed=seed) for seed in (1, 1, 2))
    assert fingerprint(one.network) == fingerprint(same.network) != fingerprint(other.network)
    matrices = torch.cat([p.detach().flatten() for p in one.network.parameters() if p.dim() > 1])
    assert abs(float(matrices.std()) - 0.05) < 0.002 and abs(float(matrices.mean())) < 0.002
    assert all((p == 1).all() for p in one.network.parameters() if p.dim() == 1)
    rows = [[1, 2, 3], [4, 5]]
    hidden = one.network.hidden(token_batch(pack(rows)))
    torch.testing.assert_close(hidden, torch.cat(stock_hidden(stock(one.network), rows)), atol=1e-5, rtol=1e-5)


def test_a_fresh_model_speaks_in_words() -> None:
    """One id per word, spaces between, the end word an ordinary word of the text, nothing added."""
    model = fresh_policy(FreshModel(width=12, heads=1, kv_heads=1, ffn=8), WORDS, ".", seed=1)
    ids = model.tokenizer.encode("[ rome has sun .")
    assert len(ids) == 5 and model.tokenizer.decode(ids) == "[ rome has sun ."
    assert (model.eos_ids, model.pad_id) == ((ids[-1],), 0)
    assert model.vocabulary_size == len(WORDS) + 1


def test_the_city_model_is_small() -> None:
    model = fresh_policy(FreshModel(), [f"w{i}" for i in range(60)], ".", seed=0)
    assert sum(p.numel() for p in model.network.parameters()) < 1_000_000


@pytest.mark.parametrize("words", [["a", "a"], ["a b"], [""]])
def test_word_lists_are_checked(words: list[str]) -> None:
    with pytest.raises(InputError, match="word list"):
        fresh_policy(FreshModel(), words, ".", seed=0)
