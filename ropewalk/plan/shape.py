"""The sizes of a model, read from its `config.json`, and how many parameters they make. Exact for known families."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ropewalk.records.errors import InputError


@dataclass(frozen=True, slots=True)
class Traits:
    """What a family of decoders has beside its sizes."""

    gated: bool = True
    """Three matrices in the feed-forward part (gate, up, down), otherwise two."""
    qkv_bias: bool = False
    output_bias: bool = False
    ffn_bias: bool = False
    norm_bias: bool = False
    qk_norm: bool = False
    """A norm over each head of queries and keys."""
    learned_positions: bool = False


LLAMA = Traits()
FAMILIES: Mapping[str, Traits] = {
    "llama": LLAMA,
    "mistral": LLAMA,
    "qwen2": Traits(qkv_bias=True),
    "qwen3": Traits(qk_norm=True),
    "gpt2": Traits(gated=False, qkv_bias=True, output_bias=True, ffn_bias=True, norm_bias=True, learned_positions=True),
}


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a decoder with its head."""

    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    tied: bool
    max_positions: int
    vocabulary_head: bool = True
    """False for a critic or a reward model of its own."""
    scalar_heads: int = 0
    """Value and reward heads: one row of weights each, no bias."""
    traits: Traits = LLAMA
    exact: bool = True
    """False for a family that is not known here: it is counted as if it were a Llama."""

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> "ModelShape":
        """Read a transformers `config.json`. Raises InputError naming a size it lacks."""
        family = str(config.get("model_type", ""))
        if family == "gpt2":
            return _gpt2(config)
        width, heads = _size(config, "hidden_size"), _size(config, "num_attention_heads")
        traits = FAMILIES.get(family, LLAMA)
        if config.get("attention_bias"):
            traits = replace(traits, qkv_bias=True, output_bias=True)
        if config.get("mlp_bias"):
            traits = replace(traits, ffn_bias=True)
        return ModelShape(
            vocabulary=_size(config, "vocab_size"),
            width=width,
            layers=_size(config, "num_hidden_layers"),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or width // heads),
            ffn=_size(config, "intermediate_size"),
            tied=bool(config.get("tie_word_embeddings", False)),
            max_positions=_size(config, "max_position_embeddings"),
            traits=traits,
            exact=family in FAMILIES,
        )

    def with_scalar_head(self) -> "ModelShape":
        """The same body with one number per position: a critic or a reward model."""
        return replace(self, vocabulary_head=False, scalar_heads=1)

    @property
    def layer_parameters(self) -> int:
        """One decoder layer, norms included."""
        t, d = self.traits, self.width
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = d * (queries + 2 * keys) + queries * d
        attention += t.qkv_bias * (queries + 2 * keys) + t.output_bias * d + t.qk_norm * 2 * self.head_dim
        ffn = (2 + t.gated) * d * self.ffn + t.ffn_bias * (self.ffn * (1 + t.gated) + d)
        return attention + ffn + 2 * self._norm_parameters

    @property
    def head_parameters(self) -> int:
        """What the heads add to the body: nothing for one tied to the embedding."""
        separate = self.vocabulary_head and not self.tied
        return separate * self.vocabulary * self.width + self.scalar_heads * self.width

    @property
    def parameters(self) -> int:
        """All of them, tied ones once."""
        embeddings = self.vocabulary * self.width
        if self.traits.learned_positions:
            embeddings += self.max_positions * self.width
        return embeddings + self.layers * self.layer_parameters + self._norm_parameters + self.head_parameters

    @property
    def _norm_parameters(self) -> int:
        return self.width * (1 + self.traits.norm_bias)


def _gpt2(config: Mapping[str, Any]) -> ModelShape:
    width, heads = _size(config, "n_embd"), _size(config, "n_head")
    return ModelShape(
        vocabulary=_size(config, "vocab_size"),
        width=width,
        layers=_size(config, "n_layer"),
        heads=heads,
        kv_heads=heads,
        head_dim=width // heads,
        ffn=int(config.get("n_inner") or 4 * width),
        tied=bool(config.get("tie_word_embeddings", True)),
        max_positions=_size(config, "n_positions"),
        traits=FAMILIES["gpt2"],
    )


def _size(config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"config.json gives {name} = {value!r}: a positive whole number is needed there")
    return value
