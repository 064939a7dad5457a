"""What the engine tests share: requests made in a line, and agreement up to near ties."""

from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from ropewalk.models.fingerprint import fingerprint
from ropewalk.models.logprobs import sampling_logits
from ropewalk.models.network import Network
from ropewalk.models.packed import token_batch
from ropewalk.records.packed import PackedBatch
from ropewalk.records.sample import Completion, Request, Sample, SamplingRecord, sample_of
from ropewalk.records.version import PolicyVersion, sample_seed
from ropewalk.rollout.config import NativeEngineConfig
from ropewalk.rollout.episode import RETRIES, check_failed, completions
from ropewalk.rollout.native.engine import NativeEngine
from ropewalk.rollout.native.uniforms import UNIFORM_BLOCK, uniforms
from ropewalk.rollout.protocol import RolloutEngine
from tests.fakes import EOS_ID, TURN_END_ID, byte_tokenizer

UNUSED = (256, 259, 260, 261, 262, 263)
"""Padding, begin, and the logits beyond the byte tokenizer."""


def settings(**changes: object) -> SamplingRecord:
    """Temperature 1, two end tokens, unsayable ids banned, 12 tokens."""
    values = {"temperature": 1.0, "max_new_tokens": 12, "eos_ids": (EOS_ID, TURN_END_ID), "banned_ids": UNUSED}
    return SamplingRecord(**{**values, **changes})  # type: ignore[arg-type]


def ends_often(**changes: object) -> SamplingRecord:
    """The same with 40 more end tokens, so that tiny random networks end at all lengths."""
    return settings(**{"eos_ids": (EOS_ID, TURN_END_ID, *range(40))} | changes)


def group(
    prompt_id: str, prompt: Sequence[int], count: int, sampling: SamplingRecord, *, run_seed: int = 0, first: int = 0
) -> list[Request]:
    """`count` requests of one prompt."""
    ids = np.asarray(prompt, np.int64)
    return [
        Request(prompt_id, prompt_id, index, sample_seed(run_seed, 0, prompt_id, index), ids, sampling)
        for index in range(first, first + count)
    ]


def crowd(sampling: SamplingRecord, *, prompts: int = 6, group_size: int = 3, run_seed: int = 0) -> list[Request]:
    """Groups of prompts of very different length, 1 to 36 tokens."""
    asked = []
    for number in range(prompts):
        ids = np.random.default_rng(number).integers(0, 256, 1 + number * 7)
        asked += group(f"prompt-{number}", ids.tolist(), group_size, sampling, run_seed=run_seed)
    return asked


def collect(engine: RolloutEngine, asked: Sequence[Request], *, retries: int = RETRIES) -> list[Sample]:
    """One sample a request, in order, unless most of them failed."""
    done = completions(engine, asked, retries=retries)
    check_failed(sum(completion.finish == "failed" for completion in done), len(asked), retries=retries)
    return [sample_of(completion) for completion in done]


def version_of(network: Network, step: int = 0) -> PolicyVersion:
    return PolicyVersion(step, fingerprint(network))


def engine_of(
    network: Network, *, slots: int = 64, tokenizer: PreTrainedTokenizerFast | None = None, **limits: int
) -> NativeEngine:
    """An engine with the network published as version 0."""
    engine = NativeEngine(network, tokenizer or byte_tokenizer(), NativeEngineConfig(slots=slots, **limits))
    engine.publish(network, version_of(network))
    return engine


def run(engine: NativeEngine, asked: Sequence[Request]) -> dict[tuple[str, int], Completion]:
    engine.submit(asked)
    return {(c.request.group_id, c.request.index): c for c in engine.stream()}


def same_completions(a: dict[tuple[str, int], Completion], b: dict[tuple[str, int], Completion]) -> bool:
    """Equal bit for bit."""
    return a.keys() == b.keys() and all(
        a[k].finish == b[k].finish
        and np.array_equal(a[k].token_ids, b[k].token_ids)
        and np.array_equal(a[k].logprobs, b[k].logprobs)
        for k in a
    )


def assert_agree(network: Network, a: Completion, b: Completion) -> None:
    """Equal tokens and log-probs to 1e-5, up to a token whose random number lies within 1e-5 of a boundary."""
    assert a.request == b.request or a.request.seed == b.request.seed
    common = min(len(a.token_ids), len(b.token_ids))
    differ = np.flatnonzero(a.token_ids[:common] != b.token_ids[:common])
    same = int(differ[0]) if len(differ) else common
    assert np.abs(a.logprobs[:same] - b.logprobs[:same]).max(initial=0.0) <= 1e-5
    if same < common:
        assert cdf_margin(network, a, same) < 1e-5
    else:
        assert len(a.token_ids) == len(b.token_ids) and a.finish == b.finish and a.text == b.text


def cdf_margin(network: Network, completion: Completion, place: int) -> float:
    """Distance of the random number of a token from the nearest boundary of the distribution it was drawn from."""
    request = completion.request
    ids = np.concatenate([request.prompt_ids, completion.token_ids[:place]])
    batch = token_batch(PackedBatch(ids, np.array([[0, len(ids), -1]])))
    with torch.no_grad():
        logits = network.logits(network.hidden(batch)[-1:])
    banned = torch.tensor(request.sampling.banned_ids)
    probs = torch.softmax(sampling_logits(logits, request.sampling.temperature, banned), -1)
    cdf = probs[0].double().cumsum(0).numpy()
    number = uniforms(request.seed, place // UNIFORM_BLOCK)[place % UNIFORM_BLOCK]
    return float(np.abs(cdf - number).min())
