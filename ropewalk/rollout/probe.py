"""After a publish, proof that the engine samples with the trainer's weights: a few fixed prompts, both sides compared.

The engine is not believed, only its numbers: it samples short completions of fixed prompts with fixed seeds, and
the trainer's packed forward pass must give each token the same log-prob.
"""

import numpy as np
import numpy.typing as npt
import torch

from ropewalk.models.logprobs import policy_outputs
from ropewalk.models.network import Network
from ropewalk.models.packed import token_batch
from ropewalk.records.errors import RunStopped
from ropewalk.records.packed import PackedBatch
from ropewalk.records.sample import Completion, Request, SamplingRecord
from ropewalk.records.version import Draw, PolicyVersion, sample_seed
from ropewalk.rollout.protocol import RolloutEngine

_PROMPT_TOKENS = (1, 2, 5, 12)
_NEW_TOKENS = 6
_TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-4}
_LOW_PRECISION_TOLERANCE = 1.0
"""bf16 engines and trainers differ by up to 0.5 on single tokens; only gross faults show there."""


def probe(engine: RolloutEngine, network: Network, version: PolicyVersion, sampling: SamplingRecord) -> float:
    """Largest |engine − trainer| log-prob over the probe's tokens.

    `network` is the trainer's, `version` what was published, `sampling` the run's settings (shortened here; greedy
    settings are probed at temperature 1). The engine must be idle. Raises `RunStopped` if the versions or the
    log-probs do not agree (1e-4 in float32).
    """
    if engine.version != version:
        have = "nothing" if engine.version is None else f"version {engine.version.step} ({engine.version.fingerprint})"
        raise RunStopped(
            f"the engine holds {have} where version {version.step} ({version.fingerprint}) was published: "
            "its weights are stale"
        )
    engine.submit(_requests(network, sampling))
    worst = max(_difference(network, completion) for completion in engine.stream())
    tolerance = _TOLERANCES.get(next(network.parameters()).dtype, _LOW_PRECISION_TOLERANCE)
    if not worst <= tolerance:
        raise RunStopped(
            f"engine and trainer disagree by {worst:.2g} on a log-prob after publishing version {version.step} "
            f"(at most {tolerance:g}): the engine's weights or cache are stale"
        )
    return worst


def _requests(network: Network, sampling: SamplingRecord) -> list[Request]:
    """Prompts of ids spread over the vocabulary; the same in every run."""
    most = getattr(network.config, "max_position_embeddings", None)
    new_tokens = min(_NEW_TOKENS, sampling.max_new_tokens, _NEW_TOKENS if most is None else most - 1)
    settings = SamplingRecord(
        temperature=sampling.temperature or 1.0,
        max_new_tokens=new_tokens,
        eos_ids=sampling.eos_ids,
        banned_ids=sampling.banned_ids,
    )
    asked = []
    for index, tokens in enumerate(_PROMPT_TOKENS):
        if most is not None and tokens + new_tokens > most:
            continue
        seed = sample_seed(0, Draw.PROBE, "probe", index)
        ids = np.random.default_rng(index).integers(0, network.vocabulary_size, tokens, np.int64)
        asked.append(Request("probe", "probe", index, seed, ids, settings))
    return asked


def _difference(network: Network, completion: Completion) -> float:
    trainer = trainer_logprobs(network, completion)
    return float(np.abs(trainer - completion.logprobs).max(initial=0.0))


def trainer_logprobs(network: Network, completion: Completion) -> npt.NDArray[np.float32]:
    """Log-probs of a completion's tokens as training computes them: packed, by the one log-prob function."""
    request = completion.request
    ids = np.concatenate([request.prompt_ids, completion.token_ids])
    mask = np.arange(len(ids)) >= len(request.prompt_ids)
    packed = PackedBatch(ids, np.array([[0, len(ids), -1]]), {"policy_mask": mask})
    batch = token_batch(packed, network.device)
    with torch.no_grad():
        columns = policy_outputs(
            network,
            network.hidden(batch),
            batch,
            temperature=request.sampling.temperature,
            banned_ids=request.sampling.banned_ids,
        )
    logprobs: npt.NDArray[np.float32] = columns["logprobs"].cpu().numpy()[mask]
    return logprobs
