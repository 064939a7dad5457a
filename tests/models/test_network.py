"""Heads, copies and refusals of a network."""

import pytest
import torch
import transformers as tf

from ropewalk.models.fingerprint import fingerprint
from ropewalk.models.heads import token_values
from ropewalk.models.logprobs import policy_outputs
from ropewalk.models.network import Network, sharpen
from ropewalk.models.packed import token_batch
from ropewalk.models.verify import stock_logits, verify
from ropewalk.records.errors import InputError
from tests.fakes import ARCHITECTURES, nudge, reinitialise, tiny_gpt2, tiny_llama
from tests.models.stock import ROWS, pack

TINY = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
GPT_TINY = {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 0, "eos_token_id": 0}


def stock_model(config: object) -> tf.PreTrainedModel:
    with torch.random.fork_rng(devices=[]):
        model = tf.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    reinitialise(model, 1, 0.25)
    return model


def test_parameters_are_named_by_part() -> None:
    """body.*, then the heads; tied weights once; a critic has no language-model head."""
    names = {name.split(".")[0] for name, _ in tiny_llama(heads=frozenset({"policy", "value"})).named_parameters()}
    assert names == {"body", "lm_head", "value_head"}
    assert {name.split(".")[0] for name, _ in tiny_gpt2().named_parameters()} == {"body"}
    assert list(tiny_llama(heads=frozenset({"reward"})).head_parameters()) == ["reward_head.weight"]
    critic = tiny_llama().copy(frozenset({"value"}))
    assert critic.heads == {"value"} and critic.lm_head is None
    assert tiny_gpt2().architecture.tied and not tiny_llama().architecture.tied


def test_scalar_heads_start_at_zero() -> None:
    network = tiny_llama(heads=frozenset({"policy", "value", "reward"}))
    batch = token_batch(pack(ROWS))
    hidden = network.hidden(batch)
    assert not network.value(hidden).any() and not network.reward(hidden).any()


@pytest.mark.parametrize("architecture", list(ARCHITECTURES))
def test_reference_is_the_policy_before_the_first_step(architecture: str) -> None:
    """Fault C2: a frozen copy of the starting policy gives its very log-probs, and keeps them while it trains."""
    policy = ARCHITECTURES[architecture](1)
    nudge(policy, 2)
    reference = policy.copy(frozen=True)
    assert fingerprint(reference) == fingerprint(policy)
    batch = token_batch(pack(ROWS))

    def logprobs(network: Network) -> torch.Tensor:
        return policy_outputs(network, network.hidden(batch), batch, temperature=1.0)["logprobs"]

    before = logprobs(policy)
    assert torch.equal(before, logprobs(reference))
    assert not any(p.requires_grad for p in reference.parameters())
    nudge(policy, 3)
    assert torch.equal(before, logprobs(reference))
    assert not torch.equal(before, logprobs(policy))


def test_copy_leaves_gradients_where_they_are() -> None:
    policy = tiny_llama(1)
    batch = token_batch(pack(ROWS))
    policy.hidden(batch).sum().backward()
    gradients = {name: p.grad for name, p in policy.named_parameters() if p.grad is not None}
    twin = policy.copy()
    assert all(p.grad is None for p in twin.parameters())
    assert all(dict(policy.named_parameters())[name].grad is gradient for name, gradient in gradients.items())
    assert all(p.requires_grad for p in twin.parameters())


def test_critic_from_a_reward_model_begins_with_its_head() -> None:
    scorer = tiny_llama(1, heads=frozenset({"reward"}))
    nudge(scorer, 2)
    critic = scorer.copy(frozenset({"value"}))
    batch = token_batch(pack(ROWS))
    hidden = scorer.hidden(batch)
    expected = scorer.reward(hidden)[batch.source_N]
    found = token_values(critic, critic.hidden(batch), batch)[batch.target_N]
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)
    assert torch.equal(critic.value_head.weight, scorer.reward_head.weight)
    assert critic.heads == {"value"}


def test_sharpening_is_a_lower_temperature() -> None:
    network, sharp = tiny_llama(1), tiny_llama(1)
    sharpen(sharp, 2.0)
    batch = token_batch(pack(ROWS))
    cold = policy_outputs(network, network.hidden(batch), batch, temperature=0.5)["logprobs"]
    plain = policy_outputs(sharp, sharp.hidden(batch), batch, temperature=1.0)["logprobs"]
    torch.testing.assert_close(cold, plain, atol=1e-5, rtol=1e-5)
    with pytest.raises(InputError, match="tied"):
        sharpen(tiny_gpt2(), 2.0)


def test_one_attention_for_life() -> None:
    """Neither config nor mode changes by running the network, with or without checkpointing."""
    network = tiny_gpt2(1)
    before = network.config.to_dict(), network.config._attn_implementation
    batch = token_batch(pack(ROWS))
    network.hidden(batch, checkpointing=True).sum().backward()
    with torch.no_grad():
        network.hidden(batch)
    assert (network.config.to_dict(), network.config._attn_implementation) == before
    with pytest.raises(InputError, match="without an attention layout"):
        network.body(input_ids=torch.tensor([[1, 2]]))


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda: tiny_llama(heads=frozenset({"critic"})), "unknown heads"),
        (lambda: tiny_llama(heads=frozenset()), "unknown heads"),
        (lambda: tiny_llama(heads=frozenset({"value"})).copy(frozenset({"policy"})), "cannot be given one"),
        (lambda: tiny_llama(heads=frozenset({"value"})).logits(torch.zeros(1, 32)), "no policy head"),
        (lambda: tiny_llama().value(torch.zeros(1, 32)), "no value head"),
        (
            lambda: tiny_llama(max_positions=4).hidden(token_batch(pack([[1] * 5]))),
            "longer than the model's 4 positions",
        ),
    ],
)
def test_refusals(act: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        act()


KEPT = {
    "qwen2": lambda: tf.Qwen2Config(**TINY, num_key_value_heads=2),
    "qwen3": lambda: tf.Qwen3Config(**TINY, num_key_value_heads=2, head_dim=16),
    "mistral": lambda: tf.MistralConfig(**TINY, num_key_value_heads=2, sliding_window=None),
    "gemma": lambda: tf.GemmaConfig(**TINY, num_key_value_heads=1, head_dim=8),
    "gpt_neox": lambda: tf.GPTNeoXConfig(**TINY),
    "phi": lambda: tf.PhiConfig(**TINY),
    "mixtral": lambda: tf.MixtralConfig(**TINY, num_key_value_heads=2, num_local_experts=4, sliding_window=None),
    "gpt2 by layer": lambda: tf.GPT2Config(**GPT_TINY, scale_attn_by_inverse_layer_idx=True),
}
REFUSED = {
    "sliding window": (
        lambda: tf.MistralConfig(**TINY, num_key_value_heads=2, sliding_window=8),
        "sliding-window layers",
    ),
    "some sliding layers": (
        lambda: tf.Gemma3TextConfig(**TINY, num_key_value_heads=2, head_dim=8),
        "sliding_attention",
    ),
    "soft caps": (
        lambda: tf.Gemma2Config(**TINY, num_key_value_heads=2, head_dim=8, layer_types=["full_attention"] * 2),
        "soft-capped|sliding-window",
    ),
    "alibi": (lambda: tf.BloomConfig(**GPT_TINY), "other outputs when run packed"),
    "scaled logits": (lambda: tf.CohereConfig(**TINY, logit_scale=0.1), "other outputs when run packed"),
    "keywords dropped": (lambda: tf.StableLmConfig(**TINY, num_key_value_heads=2), "does not hand keywords on"),
    "positions by batch": (
        lambda: tf.LlamaConfig(**TINY, rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}),
        "longest sequence beside",
    ),
    "encoder and decoder": (lambda: tf.BertConfig(**TINY, is_decoder=True), "other outputs when run packed"),
}


@pytest.mark.parametrize("name", list(KEPT))
def test_architectures_that_run_packed(name: str) -> None:
    model = stock_model(KEPT[name]())
    expected = stock_logits(model)
    verify(Network(model), expected)


@pytest.mark.parametrize("name", list(REFUSED))
def test_architectures_that_packed_attention_cannot_carry_are_refused(name: str) -> None:
    """Fault N4: what cannot be isolated or computed is refused with a sentence, never run wrongly."""
    make, says = REFUSED[name]
    with pytest.raises(InputError, match=says):
        model = stock_model(make())
        expected = stock_logits(model)
        verify(Network(model), expected)
