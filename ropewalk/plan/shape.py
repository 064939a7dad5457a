"""The sizes of a model, read from its `config.json`, and how many parameters they make. Exact for known families.

Three counts of a mixture of experts must not be confused: `parameters` lie in memory, `active_parameters` are passed
by one token, and of these the embedding's rows are looked up, not multiplied with (`multiplied_parameters`).
"""

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
LARGEST = 1_000_000_000
"""A size of a config above it is a mistake."""
MOST_LAYERS = 100_000
FAMILIES: Mapping[str, Traits] = {
    "llama": LLAMA,
    "mistral": LLAMA,
    "qwen2": Traits(qkv_bias=True),
    "qwen3": Traits(qk_norm=True),
    "mixtral": LLAMA,
    "qwen3_moe": Traits(qk_norm=True),
    "deepseek_v3": LLAMA,
    "gpt2": Traits(gated=False, qkv_bias=True, output_bias=True, ffn_bias=True, norm_bias=True, learned_positions=True),
}


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts in place of the feed-forward part: every token passes `per_token + shared` of them."""

    count: int
    """Routed experts of a layer."""
    per_token: int
    ffn: int
    """Inner width of one expert."""
    shared: int = 0
    """Experts beside the routed ones, which every token passes."""
    dense_layers: int = 0
    """Layers that keep one dense feed-forward part, of the model's own `ffn`."""

    def __post_init__(self) -> None:
        if self.per_token > self.count:
            raise InputError(
                f"a token cannot pass {self.per_token} of {self.count} experts: give it {self.count} at most"
            )


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Keys and values of all heads are made from one narrow vector, which is all the cache holds (DeepSeek-V2)."""

    kv_rank: int
    query_rank: int | None
    """None: queries are made from the hidden state directly."""
    rope_dim: int
    """Of a head's query and of the one key that all heads share: the part that is rotated."""
    nope_dim: int
    value_dim: int


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
    doubt: str = ""
    """Of a family that is not known here, which is counted as if it were a Llama: a sentence that says so."""
    experts: Experts | None = None
    latent: LatentAttention | None = None
    """With it `head_dim` is that of queries: both parts."""

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> "ModelShape":
        """Read a transformers `config.json`. Raises InputError naming a size it lacks, or why it is no such decoder."""
        family = str(config.get("model_type", ""))
        if family == "gpt2":
            return _gpt2(config)
        if family not in FAMILIES:
            _check_decoder(family, config)
        width, heads = _size(config, "hidden_size"), _size(config, "num_attention_heads")
        traits = FAMILIES.get(family, LLAMA)
        if config.get("attention_bias"):
            traits = replace(traits, qkv_bias=True, output_bias=True)
        if config.get("mlp_bias"):
            traits = replace(traits, ffn_bias=True)
        layers, latent = _size(config, "num_hidden_layers"), _latent(config)
        if layers > MOST_LAYERS:
            raise InputError(f"config.json gives num_hidden_layers = {layers}: give {MOST_LAYERS:,} at most")
        kv_heads = _size_or(config, "num_key_value_heads", heads)
        if latent is None and heads % kv_heads:
            raise InputError(
                f"config.json gives num_attention_heads = {heads} and num_key_value_heads = {kv_heads}: the first has "
                "to be a multiple of the second"
            )
        return ModelShape(
            vocabulary=_size(config, "vocab_size"),
            width=width,
            layers=layers,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=latent.rope_dim + latent.nope_dim if latent else _size_or(config, "head_dim", width // heads),
            ffn=_size(config, "intermediate_size"),
            tied=bool(config.get("tie_word_embeddings", False)),
            max_positions=_size(config, "max_position_embeddings"),
            traits=traits,
            doubt="" if family in FAMILIES else f"family {family!r} is not known here and counted as a Llama",
            experts=_experts(config, layers),
            latent=latent,
        )

    def with_scalar_head(self) -> "ModelShape":
        """The same body with one number per position: a critic or a reward model."""
        return replace(self, vocabulary_head=False, scalar_heads=1)

    @property
    def exact(self) -> bool:
        """Its parameters are those of the real model."""
        return not self.doubt

    @property
    def layer_parameters(self) -> int:
        """One decoder layer, norms included; of a mixture of experts a layer that has them."""
        e = self.experts
        if e is None:
            return self.dense_layer_parameters
        router, inner = self.width * e.count, 3 * self.width * e.ffn * (e.count + e.shared)
        return self.attention_parameters + router + inner + 2 * self._norm_parameters

    @property
    def dense_layer_parameters(self) -> int:
        """One layer without experts."""
        t = self.traits
        inner = (2 + t.gated) * self.width * self.ffn + t.ffn_bias * (self.ffn * (1 + t.gated) + self.width)
        return self.attention_parameters + inner + 2 * self._norm_parameters

    @property
    def attention_parameters(self) -> int:
        """The attention of one layer."""
        t, d, latent = self.traits, self.width, self.latent
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        if latent is None:
            biases = t.qkv_bias * (queries + 2 * keys) + t.output_bias * d + t.qk_norm * 2 * self.head_dim
            return d * (queries + 2 * keys) + queries * d + biases
        rank = latent.query_rank
        query = d * queries if rank is None else d * rank + rank + rank * queries + t.qkv_bias * rank
        narrow = latent.kv_rank + latent.rope_dim
        key_value = d * narrow + t.qkv_bias * narrow + latent.kv_rank
        key_value += latent.kv_rank * self.heads * (latent.nope_dim + latent.value_dim)
        return query + key_value + self.heads * latent.value_dim * d + t.output_bias * d

    @property
    def sparse_layers(self) -> int:
        """Layers with experts."""
        return 0 if self.experts is None else self.layers - self.experts.dense_layers

    @property
    def body_parameters(self) -> int:
        """All layers, without embeddings, last norm and heads."""
        dense = self.layers - self.sparse_layers
        return self.sparse_layers * self.layer_parameters + dense * self.dense_layer_parameters

    @property
    def active_ffn(self) -> int:
        """Inner width that one token passes in a layer: that of a layer with experts where there are some."""
        e = self.experts
        return self.ffn if e is None else (e.per_token + e.shared) * e.ffn

    @property
    def kv_numbers(self) -> int:
        """Numbers that the cache holds for one token in one layer."""
        if self.latent is not None:
            return self.latent.kv_rank + self.latent.rope_dim
        return 2 * self.kv_heads * self.head_dim

    @property
    def kv_shards(self) -> int:
        """Most tp ranks that the cache can be split over: beyond, ranks hold copies."""
        return 1 if self.latent is not None else self.kv_heads

    @property
    def active_parameters(self) -> int:
        """Those that one token passes, embeddings and heads included as publications count them."""
        e = self.experts
        idle = 3 * self.width * e.ffn * (e.count - e.per_token) if e else 0
        return self.parameters - self.sparse_layers * idle

    @property
    def multiplied_parameters(self) -> int:
        """Active ones without what is only looked up: a forward pass takes 2 FLOPs for each and token."""
        lookups = 0 if self.tied and self.vocabulary_head else self.vocabulary * self.width
        return self.active_parameters - lookups - self.traits.learned_positions * self.max_positions * self.width

    def adapter_parameters(self, rank: int) -> int:
        """LoRA on every matrix of the layers: rank x (inputs + outputs) each. Routed experts and routers get none."""
        e, d = self.experts, self.width
        dense = (2 + self.traits.gated) * (d + self.ffn)
        shared = 3 * (d + e.shared * e.ffn) if e and e.shared else 0
        sides = self.layers * self._attention_sides + self.sparse_layers * shared
        return rank * (sides + (self.layers - self.sparse_layers) * dense)

    @property
    def _attention_sides(self) -> int:
        """Inputs and outputs of one layer's attention matrices, added up."""
        d, latent = self.width, self.latent
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        if latent is None:
            return 2 * (d + queries) + 2 * (d + keys)
        rank = latent.query_rank
        query = d + queries if rank is None else (d + rank) + (rank + queries)
        key_value = d + latent.kv_rank + latent.rope_dim
        key_value += latent.kv_rank + self.heads * (latent.nope_dim + latent.value_dim)
        return query + key_value + self.heads * latent.value_dim + d

    @property
    def routed_parameters(self) -> int:
        """Of all experts that a router chooses among."""
        e = self.experts
        return self.sparse_layers * 3 * self.width * e.ffn * e.count if e else 0

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
        return embeddings + self.body_parameters + self._norm_parameters + self.head_parameters

    @property
    def _norm_parameters(self) -> int:
        return self.width * (1 + self.traits.norm_bias)


EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")
STATEFUL = ("mamba", "ssm_", "state_size", "linear_", "conv_", "lru_", "rwkv", "xlstm", "recurrent")
"""Beginnings of the keys by which configs tell layers that are no attention over all tokens."""


def _check_decoder(family: str, config: Mapping[str, Any]) -> None:
    """Raises InputError for an unknown family whose config shows that it is no decoder of attention and feed-forward
    layers, or that it has experts under names that are not read here."""
    layers = {str(kind) for kind in config.get("layer_types") or ()}
    stateful = sorted(key for key in config if key.startswith(STATEFUL) and config[key])
    stateful += sorted(kind for kind in layers if kind == "linear_attention" or not kind.endswith("attention"))
    experts = sorted(key for key in config if ("expert" in key or "moe" in key) and _above_one(config[key]))
    if config.get("is_encoder_decoder"):
        why = "has an encoder beside its decoder"
    elif config.get("type_vocab_size"):
        why = "is an encoder (it has type_vocab_size)"
    elif isinstance(config.get("text_config"), Mapping):
        why = "is made of several models (it has text_config)"
    elif stateful:
        why = f"has layers that are no attention ({', '.join(stateful[:3])})"
    elif experts and not any(config.get(name) for name in EXPERT_COUNTS):
        why = f"has experts whose sizes have names of their own ({', '.join(experts[:3])})"
    else:
        return
    raise InputError(
        f"a model of family {family!r} {why}, and what is counted here are decoders of attention and feed-forward "
        f"layers: give a size such as '7b' that comes near, or a config.json of {', '.join(FAMILIES)}"
    )


def _above_one(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 1


def _gpt2(config: Mapping[str, Any]) -> ModelShape:
    width, heads = _size(config, "n_embd"), _size(config, "n_head")
    return ModelShape(
        vocabulary=_size(config, "vocab_size"),
        width=width,
        layers=_size(config, "n_layer"),
        heads=heads,
        kv_heads=heads,
        head_dim=width // heads,
        ffn=_size_or(config, "n_inner", 4 * width),
        tied=bool(config.get("tie_word_embeddings", True)),
        max_positions=_size(config, "n_positions"),
        traits=FAMILIES["gpt2"],
    )


def _experts(config: Mapping[str, Any], layers: int) -> Experts | None:
    """The mixture of experts, under any of the names that families give its sizes; None for a dense model."""
    count = next((name for name in EXPERT_COUNTS if config.get(name)), None)
    dense = _dense_layers(config, layers)
    if count is None or dense == layers:
        return None
    return Experts(
        count=_size(config, count),
        per_token=_size(config, "num_experts_per_tok"),
        ffn=_size(config, "moe_intermediate_size" if config.get("moe_intermediate_size") else "intermediate_size"),
        shared=_size_or(config, "n_shared_experts", 0),
        dense_layers=dense,
    )


def _dense_layers(config: Mapping[str, Any], layers: int) -> int:
    first, step = _size_or(config, "first_k_dense_replace", 0), _size_or(config, "decoder_sparse_step", 1)
    only = config.get("mlp_only_layers") or ()
    if not isinstance(only, list | tuple) or not all(isinstance(layer, int) for layer in only):
        raise InputError(f"config.json gives mlp_only_layers = {only!r}: a list of whole numbers is needed there")
    return sum(layer < first or layer in only or (layer + 1) % step != 0 for layer in range(layers))


def _latent(config: Mapping[str, Any]) -> LatentAttention | None:
    if not config.get("kv_lora_rank"):
        return None
    return LatentAttention(
        kv_rank=_size(config, "kv_lora_rank"),
        query_rank=_size(config, "q_lora_rank") if config.get("q_lora_rank") else None,
        rope_dim=_size(config, "qk_rope_head_dim"),
        nope_dim=_size(config, "qk_nope_head_dim"),
        value_dim=_size(config, "v_head_dim"),
    )


def _size_or(config: Mapping[str, Any], name: str, usual: int) -> int:
    return _size(config, name) if config.get(name) else usual


def _size(config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"config.json gives {name} = {value!r}: a positive whole number is needed there")
    if value > LARGEST:
        raise InputError(f"config.json gives {name} = {value}, and no model has more than {LARGEST:,} of these")
    return value
