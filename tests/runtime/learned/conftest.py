"""Models that reward: two of pairs, one with heads, one of steps; made once a session over the tiny policy."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from ropewalk.models.export import save_scorer
from ropewalk.models.load import load_scorer
from ropewalk.runtime.train import train

STEP = " and"
"""Separates the steps of the city's sentences; with its space, or it would cut portland."""


class Rewards(NamedTuple):
    """Folders."""

    policy: Path
    first: Path
    second: Path
    heads: Path
    steps: Path
    """The sampling job that labelled steps."""
    process: Path

    def sections(self) -> dict[str, Any]:
        """One learned reward of each kind."""
        return {
            "reward_models.both": {
                "folders": [str(self.first), str(self.second)],
                "combine": {"kind": "mean_minus_std", "k": 0.5},
            },
            "reward_models.wide": {
                "folders": [str(self.heads)],
                "read": {"kind": "heads", "weights": {"help": 1.0, "safe": 0.5}},
            },
            "reward_models.process": {
                "folders": [str(self.process)],
                "read": {"kind": "process", "step": STEP, "combine": "product"},
            },
        }


@pytest.fixture(scope="session")
def rewards(tiny_policy: Path, tiny_pairs: Path, tiny_reward_model: Path) -> Rewards:
    place = tiny_policy.parent
    pairs = {"data.path": str(tiny_pairs / "pairs.jsonl"), "data.held_out": 0.2, "actor.optimizer.lr": 3e-3, "seed": 1}
    small = {"start_from": str(tiny_policy), "hardware.threads": 1}
    second = train("city-reward-model", set={**small, **pairs, "pairwise.epochs": 1}, out=place / "second").folder
    job = {"rollout.prompts": 40, "labels": {"kind": "steps", "step": STEP, "rollouts": 4}}
    steps = train("city-pairs", set={**small, **job}, out=place / "steps").folder
    learnt = {
        "model": "none",
        "data": {"path": str(steps / "steps.jsonl"), "step": STEP, "held_out": 0.2},
        "process": {"epochs": 3, "rows_per_step": 8},
        "evaluate.iterations": 4,
        "actor.optimizer.lr": 3e-3,
    }
    process = train("process-reward-model", set={**small, **learnt}, out=place / "process").folder
    loaded = load_scorer(tiny_reward_model / "model")
    head = loaded.network.reward_head
    assert head is not None
    loaded.network.set_reward_heads(torch.cat([head.weight, -head.weight, head.weight.flip(1)]))
    loaded.network.config.id2label = {0: "help", 1: "safe", 2: "spare"}
    loaded.network.config.label2id = {"help": 0, "safe": 1, "spare": 2}
    heads = save_scorer(loaded, place / "heads")
    return Rewards(tiny_policy, tiny_reward_model, second, heads, steps, process)
