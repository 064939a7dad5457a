"""A network: the body of a transformers causal LM and the heads a role needs, always in eval mode.

Parameters are named `body.*`, `lm_head.*`, `value_head.*`, `reward_head.*`; tied weights appear once. A network
without the policy head holds no language-model head of its own (a critic, a reward model).
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from ropewalk.models.attention import ATTENTION_NAME, LAYOUT_KEYWORD, AttentionLayout
from ropewalk.models.packed import TokenBatch
from ropewalk.records.errors import InputError

Heads: TypeAlias = frozenset[str]
POLICY: Heads = frozenset({"policy"})
_HEADS = frozenset({"policy", "value", "reward"})
_BATCH_BOUND_ROPE = frozenset({"dynamic", "longrope"})


@dataclass(frozen=True, slots=True)
class Architecture:
    """What is needed to write the network back as the transformers model it came from."""

    causal_class: str
    body_prefix: str
    """Name of the body inside the causal LM, e.g. `model`."""
    head_name: str
    """Name of the output embedding inside the causal LM, e.g. `lm_head`."""
    tied: bool
    """Input and output embeddings are one tensor."""


class Network(nn.Module):
    """Takes the given model over: sets ropewalk's attention in its config once, and eval mode.

    `heads` is any non-empty subset of policy, value, reward; scalar heads are linear maps of the last hidden state
    without bias, in float32, zero at first; a loaded reward model may have several reward heads. Raises `InputError`
    for an architecture it cannot run packed.
    """

    def __init__(self, causal_lm: PreTrainedModel, heads: Heads = POLICY) -> None:
        super().__init__()
        self.architecture = _architecture(causal_lm)
        causal_lm.set_attn_implementation(ATTENTION_NAME)
        self.body: PreTrainedModel = causal_lm.base_model
        self.config = causal_lm.config
        self.lm_head: nn.Module | None = causal_lm.get_output_embeddings()
        self.value_head: nn.Linear | None = None
        self.reward_head: nn.Linear | None = None
        self._set_heads(heads)
        self.eval()

    @property
    def heads(self) -> Heads:
        present = {"policy": self.lm_head, "value": self.value_head, "reward": self.reward_head}
        return frozenset(name for name, head in present.items() if head is not None)

    @property
    def width(self) -> int:
        return int(self.config.hidden_size)

    @property
    def vocabulary_size(self) -> int:
        """Number of logits; may exceed the tokenizer's length."""
        return int(self.config.vocab_size)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def train(self, mode: bool = True) -> "Network":
        """Ignored: dropout would make the first ratio differ from 1, so a network stays in eval mode."""
        return super().train(False)

    def hidden(self, batch: TokenBatch, *, checkpointing: bool = False) -> Tensor:
        """Last hidden states (T, D) in the batch's order; `checkpointing` recomputes layers for the backward."""
        self._check_length(batch.longest_tokens)
        tokens, positions = batch.tokens_T, batch.positions_T
        if batch.order_T is not None:
            tokens, positions = tokens[batch.order_T], positions[batch.order_T]
        with _checkpointed_layers(self.body) if checkpointing and torch.is_grad_enabled() else _nothing():
            hidden_TD = self.hidden_with(batch.layout, tokens[None], positions[None])[0]
        return hidden_TD if batch.inverse_T is None else hidden_TD.index_select(0, batch.inverse_T)

    def hidden_with(self, layout: AttentionLayout, tokens_BT: Tensor, positions_BT: Tensor) -> Tensor:
        """Last hidden states (B, T, D) with attention by any layout; packed training has B = 1."""
        out: Tensor = self.body(
            input_ids=tokens_BT, position_ids=positions_BT, use_cache=False, **{LAYOUT_KEYWORD: layout}
        ).last_hidden_state
        return out

    def logits(self, hidden_ND: Tensor) -> Tensor:
        """Raw logits (N, V), before temperature and bans."""
        if self.lm_head is None:
            raise InputError(f"a network with heads {sorted(self.heads)} has no policy head: it gives no logits")
        out: Tensor = self.lm_head(hidden_ND)
        return out

    def value(self, hidden_ND: Tensor) -> Tensor:
        """Value head (N,), float32."""
        return _scalar(self.value_head, hidden_ND, "value")

    def reward(self, hidden_ND: Tensor) -> Tensor:
        """The one reward head (N,), float32."""
        if self.reward_heads > 1:
            raise InputError(f"the network has {self.reward_heads} reward heads where one is read: name their weights")
        return _scalar(self.reward_head, hidden_ND, "reward")

    def rewards(self, hidden_ND: Tensor) -> Tensor:
        """All reward heads (N, H), float32."""
        if self.reward_head is None:
            raise InputError("the network has no reward head")
        with torch.autocast(hidden_ND.device.type, enabled=False):
            return hidden_ND.float() @ self.reward_head.weight.float().T

    @property
    def reward_heads(self) -> int:
        """How many reward heads there are, H; their names are the config's labels."""
        return 0 if self.reward_head is None else self.reward_head.out_features

    def set_reward_heads(self, weight_HD: Tensor) -> None:
        """Put a copy of these heads in place of the one there is."""
        head = nn.Linear(self.width, len(weight_HD), bias=False, device="meta").to_empty(device=self.device)
        with torch.no_grad():
            head.weight.copy_(weight_HD)
        self.reward_head = head.eval()

    def copy(self, heads: Heads | None = None, *, frozen: bool = False) -> "Network":
        """An independent copy without gradients; `frozen` parameters need none (a reference).

        Heads that both have are copied. A value head that the source lacks starts from its reward head where it
        has one (a critic from a reward model), else at zero; a policy head cannot be made from nothing.
        """
        gradients = [(p, p.grad) for p in self.parameters()]
        for parameter, _ in gradients:
            parameter.grad = None
        twin = copy.deepcopy(self)
        for parameter, gradient in gradients:
            parameter.grad = gradient
        if heads is not None:
            twin._set_heads(heads)
        twin.requires_grad_(not frozen)
        return twin

    def head_parameters(self) -> dict[str, nn.Parameter]:
        """The heads' own parameters by name; a tied policy head has none."""
        return {name: p for name, p in self.named_parameters() if not name.startswith("body.")}

    def _set_heads(self, heads: Heads) -> None:
        if not heads or not heads <= _HEADS:
            raise InputError(f"unknown heads {sorted(heads)}: a network has any of {sorted(_HEADS)}, at least one")
        if "policy" in heads and self.lm_head is None:
            raise InputError("a network without a policy head cannot be given one: start from the policy's folder")
        old_reward = self.reward_head
        if "policy" not in heads:
            self.lm_head = None
        if "value" not in heads:
            self.value_head = None
        elif self.value_head is None:
            self.value_head = self._scalar_head(old_reward)
        if "reward" not in heads:
            self.reward_head = None
        elif self.reward_head is None:
            self.reward_head = self._scalar_head(None)

    def _scalar_head(self, source: nn.Linear | None) -> nn.Linear:
        if source is not None and source.out_features != 1:
            raise InputError(
                f"a critic starts from a reward model with one head, and this one has {source.out_features}"
            )
        head = nn.Linear(self.width, 1, bias=False, device="meta").to_empty(device=self.device)
        with torch.no_grad():
            head.weight.zero_() if source is None else head.weight.copy_(source.weight)
        return head.eval()

    def _check_length(self, longest_tokens: int) -> None:
        most = getattr(self.config, "max_position_embeddings", None)
        if most is not None and longest_tokens > most:
            raise InputError(
                f"a sequence of {longest_tokens} tokens is longer than the model's {most} positions: shorten it"
            )


def sharpen(network: Network, factor: float) -> None:
    """Multiply the language-model head: a policy sampled at temperature 1 behaves as before at 1/factor.

    Refused where the head is tied to the embeddings, because that would change the body too.
    """
    if network.lm_head is None:
        raise InputError("only a network with a policy head can be sharpened")
    if network.architecture.tied:
        raise InputError("a head tied to the embeddings cannot be sharpened: take a model with an untied head")
    with torch.no_grad():
        for parameter in network.lm_head.parameters():
            parameter.mul_(factor)


def _architecture(causal_lm: PreTrainedModel) -> Architecture:
    name = type(causal_lm).__name__
    config = causal_lm.config
    head, body = causal_lm.get_output_embeddings(), causal_lm.base_model
    if getattr(config, "is_encoder_decoder", False) or head is None or body is causal_lm:
        raise InputError(f"{name} is not a causal language model with a body and a head: take a decoder-only model")
    windows = [kind for kind in getattr(config, "layer_types", None) or () if kind != "full_attention"]
    if windows or _has_window(config):
        raise InputError(
            f"{name} has {windows[0] if windows else 'sliding-window'} layers, which packed attention "
            "does not compute: take a model with full attention in every layer"
        )
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type")
    if rope in _BATCH_BOUND_ROPE:
        raise InputError(
            f"{name} has rotary positions of type {rope!r}, which depend on the longest sequence beside a sequence: "
            "set another rope_type in its config.json, such as default, linear, yarn or llama3"
        )
    embeddings = causal_lm.get_input_embeddings()
    return Architecture(
        causal_class=name,
        body_prefix=causal_lm.base_model_prefix,
        head_name=next(path for path, module in causal_lm.named_modules() if module is head),
        tied=getattr(head, "weight", None) is getattr(embeddings, "weight", head),
    )


def _has_window(config: object) -> bool:
    """`sliding_window` counts unless the config says that it is not used (Qwen2)."""
    return getattr(config, "sliding_window", None) is not None and getattr(config, "use_sliding_window", True)


def _scalar(head: nn.Linear | None, hidden_ND: Tensor, name: str) -> Tensor:
    if head is None:
        raise InputError(f"the network has no {name} head")
    with torch.autocast(hidden_ND.device.type, enabled=False):
        return torch.mv(hidden_ND.float(), head.weight[0].float())


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _checkpointed_layers(body: nn.Module) -> Iterator[None]:
    """Within the block every decoder layer keeps only its input and is recomputed in the backward pass.

    transformers' own switch works in train mode only; this one leaves mode and config alone.
    """
    layers = [module for module in body.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise InputError(f"{type(body).__name__} has no layers that can be checkpointed: switch checkpointing off")
    for layer in layers:
        layer.forward = partial(_checkpoint, layer.forward)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _checkpoint(forward: Callable[..., Tensor], *args: object, **kwargs: object) -> Tensor:
    # No dropout anywhere, hence no random state to keep.
    out: Tensor = checkpoint(partial(forward, **kwargs), *args, use_reentrant=False, preserve_rng_state=False)
    return out
