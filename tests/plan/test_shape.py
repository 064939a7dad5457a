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
ROUTED = {"moe_intermediate_size": 28, "num_experts_per_tok": 2}
LATENT = {
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 12,
    "v_head_dim": 10,
    "n_routed_experts": 8,
    "n_group": 2,
    "topk_group": 1,
}
CONFIGS = [
    transformers.LlamaConfig(**SIZES, num_key_value_heads=2, tie_word_embeddings=False),
    transformers.LlamaConfig(**SIZES, num_key_value_heads=6, tie_word_embeddings=True),
    transformers.LlamaConfig(**SIZES, num_key_value_heads=2, head_dim=16, attention_bias=True, mlp_bias=True),
    transformers.MistralConfig(**SIZES, num_key_value_heads=3),
    transformers.Qwen2Config(**SIZES, num_key_value_heads=2, tie_word_embeddings=True),
    transformers.Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=12),
    transformers.GPT2Config(vocab_size=301, n_embd=48, n_layer=2, n_head=4, n_positions=64),
    transformers.MixtralConfig(**SIZES, num_key_value_heads=2, num_local_experts=5, num_experts_per_tok=2),
    transformers.Qwen3MoeConfig(**SIZES, **ROUTED, num_key_value_heads=2, head_dim=12, num_experts=6),
    transformers.Qwen3MoeConfig(**SIZES, **ROUTED, num_key_value_heads=2, head_dim=16, mlp_only_layers=[1]),
    transformers.Qwen3MoeConfig(**SIZES, **ROUTED, num_key_value_heads=2, head_dim=20, decoder_sparse_step=2),
    transformers.DeepseekV3Config(**SIZES, **ROUTED, **LATENT, q_lora_rank=24, first_k_dense_replace=1),
    transformers.DeepseekV3Config(**SIZES, **ROUTED, **LATENT, q_lora_rank=None, n_shared_experts=2),
    transformers.DeepseekV3Config(**SIZES, **ROUTED, **LATENT, q_lora_rank=None, first_k_dense_replace=2),
    transformers.DeepseekV3Config(
        **SIZES, **ROUTED, **LATENT, q_lora_rank=20, attention_bias=True, first_k_dense_replace=0
    ),
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


def active(model: torch.nn.Module, per_token: int) -> int:
    """Parameters of a real model that one token passes: of stacked experts only `per_token`."""
    return sum(
        p.numel() * per_token // p.shape[0] if ".experts." in name else p.numel()
        for name, p in model.named_parameters()
    )


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.model_type)
def test_active_parameters_are_what_one_token_passes(config: PreTrainedConfig) -> None:
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    shape = ModelShape.from_config(config.to_dict())
    assert shape.active_parameters == active(model, 2)
    assert (shape.active_parameters == shape.parameters) == (shape.experts is None)
    looked_up = {p for module in model.modules() if isinstance(module, torch.nn.Embedding) for p in module.parameters()}
    looked_up -= set(model.get_output_embeddings().parameters())
    assert shape.active_parameters - shape.multiplied_parameters == sum(p.numel() for p in looked_up)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.model_type)
def test_the_cache_holds_what_is_counted(config: PreTrainedConfig) -> None:
    """Numbers per token and layer, of a real cache after three tokens; a latent one by its definition."""
    shape = ModelShape.from_config(config.to_dict())
    if shape.latent is not None:
        assert (shape.kv_numbers, shape.kv_shards) == (config.kv_lora_rank + config.qk_rope_head_dim, 1)
        return
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        cache = model(torch.tensor([[1, 2, 3]]), use_cache=True).past_key_values
    held = sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)
    assert held == 3 * shape.layers * shape.kv_numbers and shape.kv_shards == shape.kv_heads


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.model_type)
def test_layers_and_the_rest_make_the_whole(config: PreTrainedConfig) -> None:
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    shape = ModelShape.from_config(config.to_dict())
    body = sum(p.numel() for name, p in model.named_parameters() if ".layers." in name or ".h." in name)
    assert shape.body_parameters == body


@pytest.mark.parametrize(
    "config", [c for c in CONFIGS if c.model_type != "gpt2"], ids=lambda c: f"{c.model_type}-{c.hidden_size}"
)
def test_adapters_lie_on_every_matrix_of_the_layers(config: PreTrainedConfig) -> None:
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    linear = [m for name, m in model.named_modules() if isinstance(m, torch.nn.Linear) and ".layers." in name]
    sides = sum(m.in_features + m.out_features for m in linear)
    assert ModelShape.from_config(config.to_dict()).adapter_parameters(3) == 3 * sides


def test_an_unknown_family_is_counted_as_a_llama_and_says_so() -> None:
    config = {**CONFIGS[0].to_dict(), "model_type": "novel"}
    assert not ModelShape.from_config(config).exact


@pytest.mark.parametrize("value", [None, 0, "48", True])
def test_a_missing_size_is_named(value: object) -> None:
    with pytest.raises(InputError, match="hidden_size"):
        ModelShape.from_config({**CONFIGS[0].to_dict(), "hidden_size": value})


def test_a_token_passes_no_more_experts_than_there_are() -> None:
    config = {**CONFIGS[7].to_dict(), "num_experts_per_tok": 9}
    with pytest.raises(InputError, match="cannot pass 9 of 5 experts: give it 5 at most"):
        ModelShape.from_config(config)


@pytest.mark.parametrize("name", ["num_key_value_heads", "head_dim", "decoder_sparse_step", "n_shared_experts"])
@pytest.mark.parametrize("value", ["four", -4, 2.5])
def test_sizes_that_may_be_left_out_are_whole_numbers_where_they_are_given(name: str, value: object) -> None:
    config = {
        "model_type": "qwen3_moe", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 64,
        "num_experts": 4, "num_experts_per_tok": 2,
    }  # fmt: skip
    assert ModelShape.from_config(config).kv_heads == 4
    with pytest.raises(InputError, match=f"{name} = .*a positive whole number"):
        ModelShape.from_config({**config, name: value})


def test_query_heads_are_a_multiple_of_the_key_value_heads() -> None:
    config = {
        "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 3, "intermediate_size": 128, "max_position_embeddings": 64,
    }  # fmt: skip
    with pytest.raises(InputError, match=r"num_attention_heads = 4 and num_key_value_heads = 3.*multiple"):
        ModelShape.from_config(config)


NO_DECODERS = [
    (transformers.T5Config(), "has an encoder beside its decoder"),
    (transformers.BartConfig(), "has an encoder beside its decoder"),
    (transformers.BertConfig(), "is an encoder"),
    (transformers.RobertaConfig(), "is an encoder"),
    (transformers.MambaConfig(), "has layers that are no attention"),
    (transformers.FalconMambaConfig(), "has layers that are no attention"),
    (transformers.JambaConfig(), "has layers that are no attention"),
    (transformers.RecurrentGemmaConfig(), "has layers that are no attention"),
    (transformers.Qwen3NextConfig(), "has layers that are no attention"),
    (transformers.Gemma3Config(), "is made of several models"),
    (transformers.Llama4Config(), "is made of several models"),
    (transformers.Ernie4_5_MoeConfig(), "has experts whose sizes have names of their own"),
]


@pytest.mark.parametrize(("config", "why"), NO_DECODERS, ids=lambda c: getattr(c, "model_type", ""))
def test_what_is_no_decoder_of_attention_and_feed_forward_layers_is_refused(config: PreTrainedConfig, why: str) -> None:
    with pytest.raises(InputError, match=f"family '{config.model_type}' {why}.*: give a size"):
        ModelShape.from_config(config.to_dict())


@pytest.mark.parametrize(
    "changed",
    [
        {"num_hidden_layers": 10**12},
        {"hidden_size": 10**30},
        {"mlp_only_layers": "all"},
        {"mlp_only_layers": ["1"]},
    ],
)
def test_sizes_that_no_model_has_are_refused_at_once(changed: dict[str, object]) -> None:
    (key,) = changed
    with pytest.raises(InputError, match=key):
        ModelShape.from_config({**CONFIGS[8].to_dict(), **changed})
