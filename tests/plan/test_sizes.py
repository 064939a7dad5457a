"""Named sizes have the parameters that the models they are shaped like publish."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import save_file

from ropewalk.plan.shape import ModelShape
from ropewalk.plan.sizes import SIZES, held_parameters, shape_of
from ropewalk.records.errors import InputError

SMALL = {
    "vocab_size": 301,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "max_position_embeddings": 64,
}
PUBLISHED = {
    "135m": 134_515_008,
    "0.5b": 494_032_768,
    "1b": 1_235_814_400,
    "1.5b": 1_543_714_304,
    "3b": 3_212_749_824,
    "7b": 6_738_415_616,
    "8b": 8_030_261_248,
    "13b": 13_015_864_320,
    "70b": 68_976_648_192,
    "8x7b": 46_702_792_704,
    "72b": 72_706_203_648,
}
"""Counts that the models' own weight files have."""

ACTIVE = {
    "30b-a3b": (30.5, 3.3),
    "235b-a22b": (235, 22),
    "deepseek-v3": (671, 37),
    "8x7b": (46.7, 12.9),
    "8x22b": (141, 39),
}
"""Billions in all and active, as published."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_size_is_that_of_its_model(name: str) -> None:
    assert SIZES[name].shape.parameters == PUBLISHED[name]


@pytest.mark.parametrize("name", ACTIVE)
def test_mixtures_of_experts_have_their_published_sizes(name: str) -> None:
    shape, (total, active) = SIZES[name].shape, ACTIVE[name]
    assert shape.parameters / 1e9 == pytest.approx(total, rel=0.005)
    assert shape.multiplied_parameters / 1e9 <= shape.active_parameters / 1e9
    assert shape.active_parameters / 1e9 == pytest.approx(active, rel=0.02)


@pytest.mark.parametrize("name", SIZES)
def test_a_name_says_the_size(name: str) -> None:
    """Within 5 % in billions, where the name is a number."""
    shape = shape_of(name.upper())
    digits = name.split("-")[0].removesuffix("b")
    if digits.replace(".", "").isdigit():
        assert shape.parameters / 1e9 == pytest.approx(float(digits), rel=0.25 if len(digits) == 1 else 0.07)
    assert shape.exact and shape.heads % shape.kv_heads == 0 and SIZES[name].like


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("7b", (32, 4096, 11008, 32, 32)),
        ("34b", (48, 8192, 22016, 64, 8)),
        ("70b", (80, 8192, 28672, 64, 8)),
    ],
)
def test_the_sizes_of_the_reference_cases_do_not_move(name: str, sizes: tuple[int, ...]) -> None:
    shape = shape_of(name)
    assert (shape.layers, shape.width, shape.ffn, shape.heads, shape.kv_heads) == sizes
    assert (shape.vocabulary, shape.tied, shape.head_dim) == (32_000, False, 128)


def test_a_folder_and_its_config_are_one_model(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 4096,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    wanted = shape_of("7b")
    for model in (tmp_path, str(tmp_path), tmp_path / "config.json"):
        assert shape_of(model) == wanted
    assert shape_of(tmp_path.name, beside=tmp_path.parent) == wanted


def test_deepseek_is_read_from_its_config_as_it_is_named() -> None:
    config = {
        "model_type": "deepseek_v3",
        "vocab_size": 129280,
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "num_hidden_layers": 61,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "n_shared_experts": 1,
        "n_routed_experts": 256,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 3,
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "max_position_embeddings": 163840,
        "num_nextn_predict_layers": 1,
    }
    named = shape_of("deepseek-v3")
    assert ModelShape.from_config(config) == named
    assert named.kv_numbers == 576 and replace(named, latent=None).kv_numbers == 2 * 128 * 192


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("6b", "7b"),
        ("33B", "32b"),
        ("65b", "70b"),
        ("400b", "405b"),
        ("360m", "0.5b"),
        ("30b-3a", "30b-a3b"),
        ("deepseek", "deepseek-v3"),
        ("", "7b"),
    ],
)
def test_an_unknown_size_names_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(InputError, match=f"unknown model size .* did you mean '{nearest}'"):
        shape_of(name, beside=Path("no/such/folder"))


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no model at .*: name a folder with a config\.json, or a size"):
        shape_of(tmp_path / "gone")
    with pytest.raises(InputError, match="there is no model at"):
        shape_of(tmp_path)
    for text in ("{", "[1]"):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(InputError, match=r"config\.json"):
            shape_of(tmp_path)


def test_weights_are_counted_from_their_headers(tmp_path: Path) -> None:
    assert held_parameters(tmp_path) is None
    save_file({"a": torch.zeros(3, 5), "b": torch.zeros(7)}, tmp_path / "one.safetensors", {"format": "pt"})
    save_file({"c": torch.zeros(2, 2, 2, dtype=torch.bfloat16)}, tmp_path / "two.safetensors")
    assert held_parameters(tmp_path) == 15 + 7 + 8
    for damaged in (b"", b"\x05\0\0\0\0\0\0\0{}", b"\xff" * 9, b"\x02\0\0\0\0\0\0\0[]", b'\x08\0\0\0\0\0\0\0{"a": 1}'):
        (tmp_path / "two.safetensors").write_bytes(damaged)
        assert held_parameters(tmp_path) is None


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (transformers.Olmo2Config(**SMALL, pad_token_id=0), "of what its weights hold"),
        (transformers.PhiConfig(**SMALL), None),
    ],
)
def test_an_unknown_family_is_held_against_its_weights(
    tmp_path: Path, config: transformers.PreTrainedConfig, said: str | None
) -> None:
    """Near the real count it is planned, and says how near; far from it it is refused."""
    config.save_pretrained(tmp_path)
    bare = shape_of(tmp_path)
    assert not bare.exact and "no weights beside its config.json" in bare.doubt and bare.with_scalar_head().doubt
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.save_pretrained(tmp_path)
    held = sum(p.numel() for p in model.parameters())
    assert held_parameters(tmp_path) == held
    if said is None:
        with pytest.raises(InputError, match=f"makes {bare.parameters:,} parameters, and its weights hold {held:,}"):
            shape_of(tmp_path)
    else:
        assert f"{bare.parameters / held - 1:+.1%} {said}" in shape_of(tmp_path).doubt
