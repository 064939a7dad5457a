"""The engine's log-prob of a token is the trainer's: packed forward, the one log-prob function, no update between."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ropewalk.models.load import load_policy
from ropewalk.models.logprobs import policy_outputs
from ropewalk.models.network import Network
from ropewalk.models.packed import token_batch
from ropewalk.records.packed import PackedBatch
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.rollout.config import Sampling, resolve
from ropewalk.rollout.episode import requests
from tests.fakes import ARCHITECTURES, EOS_ID
from tests.rollout.helpers import collect, crowd, ends_often, engine_of

TEMPERATURES = pytest.mark.parametrize("temperature", [0.5, 1.0, 1.3])


def packed(samples: list[Sample], *, share_prompts: bool) -> PackedBatch:
    """All samples in one batch; with shared prompts each group's prompt is a segment of its own."""
    tokens: list[np.ndarray] = []
    masks: list[np.ndarray] = []
    rollout: list[np.ndarray] = []
    segments: list[tuple[int, int, int]] = []
    stems: dict[str, int] = {}
    end = 0

    def add(part: slice, sample: Sample, parent: int) -> None:
        nonlocal end
        tokens.append(sample.tokens_T[part])
        masks.append(sample.policy_mask_T[part])
        rollout.append(sample.logprobs_T[part])
        segments.append((end, end + len(tokens[-1]), parent))
        end += len(tokens[-1])

    for sample in samples:
        prompt = int(np.argmax(sample.policy_mask_T))
        if share_prompts and sample.group_id not in stems:
            add(slice(0, prompt), sample, -1)
            stems[sample.group_id] = len(segments) - 1
        add(slice(prompt if share_prompts else 0, None), sample, stems.get(sample.group_id, -1))
    columns = {"policy_mask": np.concatenate(masks), "rollout_logprobs": np.concatenate(rollout)}
    return PackedBatch(np.concatenate(tokens), np.array(segments), columns)


def largest_difference(network: Network, samples: list[Sample], *, share_prompts: bool) -> float:
    """Between the engine's log-probs and the trainer's, over all sampled tokens."""
    batch = packed(samples, share_prompts=share_prompts)
    view = token_batch(batch)
    sampling = samples[0].sampling
    with torch.no_grad():
        columns = policy_outputs(
            network,
            network.hidden(view),
            view,
            temperature=sampling.temperature,
            banned_ids=sampling.banned_ids,
        )
    mask = batch.token_columns["policy_mask"]
    trainer, engine = columns["logprobs"].numpy()[mask], batch.token_columns["rollout_logprobs"][mask]
    assert np.isfinite(engine).all()
    return float(np.abs(trainer - engine).max())


@pytest.mark.parametrize("make", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
@pytest.mark.parametrize("slots", [4, 64])
@TEMPERATURES
def test_tiny_models(make: Callable[..., Network], slots: int, temperature: float) -> None:
    """Fault B1: with bans, after refills and compaction (4 slots), in both ways of packing."""
    network = make()
    banned = (*range(200, 250), 256, *range(259, 264))
    sampling = ends_often(temperature=temperature, banned_ids=banned, eos_ids=(EOS_ID, *range(20)))
    samples = collect(engine_of(network, slots=slots), crowd(sampling))
    assert len({sample.completion_tokens for sample in samples}) > 4
    for share_prompts in (False, True):
        assert largest_difference(network, samples, share_prompts=share_prompts) <= 1e-5


@pytest.mark.parametrize("make", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
def test_the_settings_matter(make: Callable[..., Network]) -> None:
    """Fault B1: scored at another temperature or without the bans, the difference is plain."""
    network = make()
    samples = collect(engine_of(network), crowd(ends_often(temperature=0.5)))
    record = samples[0].sampling
    for wrong in (replace(record, temperature=1.0), replace(record, banned_ids=())):
        assert largest_difference(network, [replace(s, sampling=wrong) for s in samples], share_prompts=False) > 1e-3


@pytest.mark.real
@TEMPERATURES
def test_the_small_real_model(smollm2: Path, temperature: float) -> None:
    """Fault B1: 1e-4 on SmolLM2, prompts of unequal length in groups, slots refilled."""
    loaded = load_policy(smollm2)
    record = resolve(
        Sampling(temperature=temperature, max_new_tokens=6, banned=("!",)),
        words=loaded.tokenizer.get_vocab(),
        eos_ids=loaded.eos_ids,
        pad_id=loaded.pad_id,
        vocabulary_size=loaded.vocabulary_size,
    )
    texts = ("The capital of France is", "2 + 2 =", "Once upon a time, in a small town by the sea, there lived")
    pairs = [(Prompt(f"p{n}", text), np.array(loaded.tokenizer.encode(text))) for n, text in enumerate(texts)]
    asked = requests(pairs, group_size=2, sampling=record, run_seed=0, iteration=0)
    samples = collect(engine_of(loaded.network, slots=4, tokenizer=loaded.tokenizer), asked)
    for share_prompts in (False, True):
        assert largest_difference(loaded.network, samples, share_prompts=share_prompts) <= 1e-4
