"""The test bed: tiny networks, toy tokenizers, a scripted engine and a clock. Nothing is downloaded.

Everything here is deterministic from its arguments and leaves the global random state as it was.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from ropewalk.models.network import Network
from ropewalk.records.errors import InputError
from ropewalk.records.sample import Completion, Finish, Request
from ropewalk.records.version import PolicyVersion
from ropewalk.rollout.protocol import Joining

# --- tokenizers ------------------------------------------------------------------------------------

PAD_ID, EOS_ID, TURN_END_ID, BOS_ID = 256, 257, 258, 259
VOCABULARY_SIZE = 260

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}<turn>{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def _byte_letters() -> dict[int, str]:
    """The printable letter that byte-level tokenizers write for each byte (the GPT-2 table)."""
    kept = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    letters = {byte: chr(byte) for byte in kept}
    for extra, byte in enumerate(byte for byte in range(256) if byte not in letters):
        letters[byte] = chr(256 + extra)
    return letters


def _byte_level(merges: Sequence[tuple[str, str]]) -> PreTrainedTokenizerFast:
    letters = _byte_letters()
    vocabulary = {letters[byte]: byte for byte in range(256)}
    vocabulary |= {"<pad>": PAD_ID, "<eos>": EOS_ID, "<turn>": TURN_END_ID, "<bos>": BOS_ID}
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<bos>",
        additional_special_tokens=["<turn>"],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Ids 0-255 are bytes; 256 pad, 257 end of sequence, 258 end of turn (a second end), 259 begin."""
    return _byte_level([])


def toy_bpe() -> PreTrainedTokenizerFast:
    """The byte tokenizer plus merges `ab` (260), `c ` (261) and `c a` (262), the last across a word boundary."""
    space = _byte_letters()[ord(" ")]
    return _byte_level([("a", "b"), ("c", space), (f"c{space}", "a")])


# --- networks --------------------------------------------------------------------------------------


def reinitialise(module: nn.Module, seed: int, std: float) -> None:
    """Normal weights of this spread for every matrix, from an own generator; vectors stay as built."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, parameter in sorted(module.named_parameters()):
            if parameter.ndim > 1:
                parameter.normal_(0.0, std, generator=generator)


def tiny_llama(
    seed: int = 0,
    *,
    vocabulary_size: int = 264,
    max_positions: int = 128,
    tied: bool = False,
    std: float = 0.2,
    heads: frozenset[str] = frozenset({"policy"}),
) -> Network:
    """Rotary positions, 4 query heads on 2 key heads, 2 layers of width 32."""
    config = LlamaConfig(
        vocab_size=vocabulary_size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=max_positions,
        tie_word_embeddings=tied,
        pad_token_id=PAD_ID if vocabulary_size > PAD_ID else 0,
        bos_token_id=None,
        eos_token_id=EOS_ID if vocabulary_size > EOS_ID else 1,
    )
    with torch.random.fork_rng(devices=[]):
        causal_lm = LlamaForCausalLM(config)
    reinitialise(causal_lm, seed, std)
    return Network(causal_lm.eval(), heads=heads).eval()


def tiny_gpt2(
    seed: int = 0,
    *,
    vocabulary_size: int = 264,
    max_positions: int = 128,
    std: float = 0.2,
    heads: frozenset[str] = frozenset({"policy"}),
) -> Network:
    """Learned positions, 4 heads, tied head, biases, dropout configured (and never active), 2 layers of width 32."""
    config = GPT2Config(
        vocab_size=vocabulary_size,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=max_positions,
        bos_token_id=None,
        eos_token_id=EOS_ID if vocabulary_size > EOS_ID else 1,
    )
    with torch.random.fork_rng(devices=[]):
        causal_lm = GPT2LMHeadModel(config)
    reinitialise(causal_lm, seed, std)
    return Network(causal_lm.eval(), heads=heads).eval()


ARCHITECTURES: Mapping[str, Callable[..., Network]] = {"llama": tiny_llama, "gpt2": tiny_gpt2}


def nudge(network: nn.Module, seed: int, scale: float = 0.05) -> None:
    """An optimiser step's stand-in: moves every parameter in place."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, parameter in sorted(network.named_parameters()):
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=scale)


# --- engine ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What a scripted engine says to one request."""

    token_ids: Sequence[int]
    logprobs: Sequence[float] | None = None
    """None: −1 for each token."""
    finish: Finish = "stop"
    text: str | None = None
    """None: the ids joined by spaces, the end token left out."""


def drawn_answer(request: Request) -> Answer:
    """Ids from the request's seed alone: ends on a tenth of the tokens, or at the limit."""
    generator = np.random.default_rng(request.seed)
    allowed = [i for i in range(50) if i not in request.sampling.banned_ids and i not in request.sampling.eos_ids]
    ids: list[int] = []
    while len(ids) < request.sampling.max_new_tokens:
        if request.sampling.eos_ids and generator.random() < 0.1:
            return Answer([*ids, request.sampling.eos_ids[0]])
        ids.append(int(generator.choice(allowed)))
    return Answer(ids, finish="length")


@dataclass
class ScriptedEngine:
    """Answers requests by a script, one token of each request per round, `slots` at a time."""

    script: Callable[[Request], Answer] = drawn_answer
    slots: int = 4
    version: PolicyVersion | None = None
    published: list[PolicyVersion] = field(default_factory=list)
    _waiting: list[Request] = field(default_factory=list)
    _live: list[tuple[Request, Answer, list[int]]] = field(default_factory=list)
    """Request, its whole answer, and the version that said each token so far."""
    _ready: list[Completion] = field(default_factory=list)
    _paused: bool = False

    def publish(self, weights: Network | None, version: PolicyVersion) -> None:
        if self._live and not self._paused:
            raise InputError("weights cannot change under running requests: pause the engine first")
        self.version = version
        self.published.append(version)

    def submit(self, requests: Sequence[Request]) -> None:
        if self.version is None:
            raise InputError("the engine has no weights yet: publish them first")
        known = {(r.group_id, r.index) for r in [*self._waiting, *(live[0] for live in self._live)]}
        for request in requests:
            key = (request.group_id, request.index)
            if key in known:
                raise InputError(f"request {request.group_id}/{request.index} is already in the engine")
            known.add(key)
        self._waiting.extend(requests)

    def stream(self, joining: Joining | None = None) -> Iterator[Completion]:
        while True:
            while self._ready:
                yield self._ready.pop(0)
            if self._paused:
                return
            if joining is not None and (asked := joining()):
                self.submit(asked)
            if not (self._waiting or self._live):
                return
            self.step()

    def step(self) -> None:
        """One token for every live request."""
        while self._waiting and len(self._live) < self.slots:
            request = self._waiting.pop(0)
            self._live.append((request, self.script(request), []))
        assert self.version is not None
        for request, answer, versions in list(self._live):
            if len(versions) < len(answer.token_ids):
                versions.append(self.version.step)
            if len(versions) == len(answer.token_ids):
                self._live.remove((request, answer, versions))
                self._ready.append(_completion(request, answer, versions))

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def abort(self) -> None:
        for request, answer, versions in self._live:
            said = answer.token_ids[: len(versions)]
            self._ready.append(_completion(request, Answer(said, finish="aborted"), versions))
        self._ready.extend(_completion(request, Answer([], finish="aborted"), []) for request in self._waiting)
        self._live.clear()
        self._waiting.clear()
        self._paused = False


def _completion(request: Request, answer: Answer, versions: Sequence[int]) -> Completion:
    ends = request.sampling.eos_ids
    said = [i for i in answer.token_ids if i not in ends]
    logprobs = answer.logprobs if answer.logprobs is not None else [-1.0] * len(answer.token_ids)
    return Completion(
        request=request,
        token_ids=np.asarray(answer.token_ids, np.int64),
        logprobs=np.asarray(logprobs, np.float32),
        versions=np.asarray(versions, np.int64),
        finish=answer.finish,
        text=answer.text if answer.text is not None else " ".join(map(str, said)),
    )


# --- clock -----------------------------------------------------------------------------------------


class FakeClock:
    """Seconds that pass only when told to; call it like `time.monotonic`."""

    def __init__(self, start_seconds: float = 0.0) -> None:
        self.now_seconds = start_seconds

    def __call__(self) -> float:
        return self.now_seconds

    def sleep(self, seconds: float) -> None:
        self.now_seconds += seconds
