"""Batches and objectives for the equalities: every loss, every reduction, ragged rows, NaN wherever nothing trains."""

from dataclasses import dataclass

import numpy as np
import torch

from ropewalk.algorithms.config import (
    GRPO,
    PPO,
    SFT,
    ClipValue,
    ConstantReduction,
    KLLoss,
    MaskUnfinished,
    ProcessRewardModel,
    Reduction,
    RewardModel,
    SequenceReduction,
    SharedCritic,
    TokenReduction,
)
from ropewalk.algorithms.objectives import (
    Objective,
    actor_objective,
    critic_objective,
    joint_objective,
    pairwise_objective,
    process_objective,
    sft_objective,
)
from ropewalk.models.network import Network
from ropewalk.records.packed import PackedBatch
from ropewalk.records.sample import Sample, SamplingRecord
from ropewalk.training.config import Optimizer
from ropewalk.training.packing import pack_pairs, pack_samples
from ropewalk.training.state import TrainState
from tests.fakes import ARCHITECTURES

SAMPLING = SamplingRecord(temperature=0.7, max_new_tokens=8, eos_ids=(2,), banned_ids=(0, 3))

REDUCTIONS: dict[str, Reduction] = {
    "token": TokenReduction(),
    "sequence": SequenceReduction(),
    "constant": ConstantReduction(length_tokens=8),
}


@dataclass(frozen=True)
class Bed:
    """An objective, the heads it needs, and a batch to train on."""

    objective: Objective
    heads: frozenset[str]
    batch: PackedBatch
    sampling: SamplingRecord | None


def samples(seed: int = 0, *, groups: int = 3, size: int = 3) -> list[Sample]:
    """Groups of samples with prompts of 2-5 tokens and answers of 1-7; some are cut off."""
    generator = np.random.default_rng(seed)
    found = []
    for group in range(groups):
        prompt = generator.integers(4, 60, generator.integers(2, 6))
        for index in range(size):
            answer = generator.integers(4, 60, generator.integers(1, 8))
            mask = np.arange(len(prompt) + len(answer)) >= len(prompt)
            found.append(
                Sample(
                    prompt_id=str(group),
                    group_id=str(group),
                    index=index,
                    seed=index,
                    tokens_T=np.concatenate([prompt, answer]),
                    policy_mask_T=mask,
                    logprobs_T=np.where(mask, -1.0, np.nan).astype(np.float32),
                    versions_T=np.where(mask, 0, -1),
                    finish="length" if index == 1 else "stop",
                    sampling=SAMPLING,
                    text="",
                )
            )
    return found


def policy_batch(seed: int = 0, *, shared: bool = False, groups: int = 3, size: int = 3) -> PackedBatch:
    """Samples with every column an objective may read; NaN at all other tokens. One row has no outcome."""
    drawn = samples(seed, groups=groups, size=size)
    batch = pack_samples(drawn, share_prompts=shared)
    policy = batch.token_columns["policy_mask"]
    generator = np.random.default_rng(seed + 1)  # drawn per policy token, so shared and unshared agree

    def column(centre: float, spread: float) -> np.ndarray:
        values = np.full(batch.tokens, np.nan, np.float32)
        values[policy] = generator.normal(centre, spread, policy.sum())
        return values

    valid = np.ones(batch.rows, np.bool_)
    valid[-1] = False
    return batch.with_columns(
        tokens={
            "advantages": column(0, 1),
            "old_logprobs": column(-4, 0.5),
            "reference_logprobs": column(-4, 0.5),
            "values": column(0, 0.3),
            "returns": column(0, 1),
        },
        rows={"valid": valid},
    )


def with_steps(batch: PackedBatch, seed: int = 0) -> PackedBatch:
    """Soft labels at the last policy token of each row and at some before it; NaN elsewhere."""
    policy = np.flatnonzero(batch.token_columns["policy_mask"])
    generator = np.random.default_rng(seed + 2)
    last = np.append(np.diff(batch.row_T[policy]) != 0, True)
    ends = policy[last | (generator.random(len(policy)) < 0.3)]
    end_T, label_T = np.zeros(batch.tokens, np.bool_), np.full(batch.tokens, np.nan, np.float32)
    end_T[ends], label_T[ends] = True, generator.choice([0.0, 0.25, 0.5, 1.0], len(ends))
    return batch.with_columns(tokens={"step_end": end_T, "step_label": label_T})


def pair_batch(seed: int = 0, pairs: int = 4) -> PackedBatch:
    generator = np.random.default_rng(seed)

    def row() -> tuple[np.ndarray, np.ndarray]:
        length = generator.integers(3, 9)
        return generator.integers(4, 60, length), np.arange(length) >= 2

    return pack_pairs([(row(), row()) for _ in range(pairs)])


POLICY, VALUE, REWARD = frozenset({"policy"}), frozenset({"value"}), frozenset({"reward"})


def bed(name: str, *, shared: bool = False, seed: int = 0, groups: int = 3) -> Bed:
    """`<method>` or `<method>-<reduction>`; methods as in `NAMES`."""
    method, _, kind = name.partition("-")
    reduction = REDUCTIONS[kind or "token"]
    if method == "pairs":
        return Bed(pairwise_objective(RewardModel()), REWARD, pair_batch(seed), None)
    batch = policy_batch(seed, shared=shared, groups=groups)
    match method:
        case "ppo":
            objective: Objective = actor_objective(PPO(entropy_coefficient=0.01, reduction=reduction))
        case "grpo":
            objective = actor_objective(
                GRPO(kl=KLLoss(coefficient=0.1), reduction=reduction, unfinished=MaskUnfinished())
            )
        case "critic":
            return Bed(critic_objective(PPO(value_clip=ClipValue(), reduction=reduction)), VALUE, batch, None)
        case "joint":
            cfg = PPO(critic=SharedCritic(), reduction=reduction)
            return Bed(joint_objective(cfg), POLICY | VALUE, batch, SAMPLING)
        case "process":
            return Bed(process_objective(ProcessRewardModel()), REWARD, with_steps(batch, seed), None)
        case "sft":
            return Bed(sft_objective(SFT(reduction=reduction)), POLICY, batch, None)
        case _:
            raise KeyError(name)
    return Bed(objective, POLICY, batch, SAMPLING)


NAMES = [
    *(f"{method}-{kind}" for method in ("ppo", "grpo", "critic", "joint", "sft") for kind in REDUCTIONS),
    "pairs",
    "process",
]


def network(architecture: str, heads: frozenset[str], seed: int = 0) -> Network:
    """A tiny network whose scalar heads are not zero, so that gradients reach the body."""
    made = ARCHITECTURES[architecture](seed=seed, vocabulary_size=64, heads=heads)
    generator = torch.Generator().manual_seed(seed + 7)
    with torch.no_grad():
        for head in (made.value_head, made.reward_head):
            if head is not None:
                head.weight.normal_(0, 0.2, generator=generator)
    return made


def state(architecture: str, heads: frozenset[str], *, token_budget: int = 10_000, seed: int = 0) -> TrainState:
    return TrainState(
        network(architecture, heads, seed),
        Optimizer(lr=1e-2, weight_decay=0.1),
        total_steps=10,
        token_budget=token_budget,
    )


def assert_close(mine: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], tolerance: float) -> None:
    """Equal relative to the largest entry of each tensor."""
    assert mine.keys() == theirs.keys()
    for name, tensor in mine.items():
        largest = float(theirs[name].abs().max())
        difference = float((tensor - theirs[name]).abs().max())
        assert difference <= tolerance * max(largest, 1e-3), f"{name}: {difference} beside {largest}"
