"""Parameter counts are those of the instantiated model."""

import pytest
import torch
import transformers
from transformers import PreTrainedConfig

from ropewalk.plan.shape import ModelShape
from ropewalk.records.errors import InputError

SIZES = {
    "vocab_size": 301,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "max_position_embeddings": 64,
}
CONFIGS = [
    transformers.LlamaConfig(**SIZES, num_key_value_heads=2, tie_word_embeddings=False),
    transformers.LlamaConfig(**SIZES, num_key_value_heads=6, tie_word_embeddings=True),
    transformers.LlamaConfig(**SIZES, num_key_value_heads=2, head_dim=16, attention_bias=True, mlp_bias=True),
    transformers.MistralConfig(**SIZES, num_key_value_heads=3),
    transformers.Qwen2Config(**SIZES, num_key_value_heads=2, tie_word_embeddings=True),
    transformers.Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=12),
    transformers.GPT2Config(vocab_size=301, n_embd=48, n_layer=2, n_head=4, n_positions=64),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.model_type}-{c.to_dict().get('head_dim')}")
def test_the_count_is_exact(config: PreTrainedConfig) -> None:
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    shape = ModelShape.from_config(config.to_dict())
    assert shape.exact and shape.parameters == sum(parameter.numel() for parameter in model.parameters())


def test_a_critic_has_one_row_for_a_head() -> None:
    shape = ModelShape.from_config(CONFIGS[0].to_dict())
    assert shape.with_scalar_head().parameters == shape.parameters - 301 * 48 + 48
    tied = ModelShape.from_config(CONFIGS[1].to_dict())
    assert tied.with_scalar_head().parameters == tied.parameters + 48


def test_known_models_have_their_published_size() -> None:
    llama_7b = ModelShape(32000, 4096, 32, 32, 32, 128, 11008, tied=False, max_positions=4096)
    smollm2 = ModelShape(49152, 576, 30, 9, 3, 64, 1536, tied=True, max_positions=8192)
    assert llama_7b.parameters == 6_738_415_616
    assert smollm2.parameters == 134_515_008


def test_an_unknown_family_is_counted_as_a_llama_and_says_so() -> None:
    config = {**CONFIGS[0].to_dict(), "model_type": "novel"}
    assert not ModelShape.from_config(config).exact


@pytest.mark.parametrize("value", [None, 0, "48", True])
def test_a_missing_size_is_named(value: object) -> None:
    with pytest.raises(InputError, match="hidden_size"):
        ModelShape.from_config({**CONFIGS[0].to_dict(), "hidden_size": value})
