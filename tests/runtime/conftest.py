"""Tiny city runs, made once a session in a few seconds: what most tests of the runtime start from.

They are only read: a test that writes into a run folder copies it first.
"""

import shutil
from pathlib import Path

import pytest

from ropewalk.runtime.run import Run
from ropewalk.runtime.train import train

TINY = {
    "model.width": 48,
    "model.layers": 1,
    "model.heads": 2,
    "model.kv_heads": 2,
    "model.ffn": 96,
    "data.sentences": 4000,
    "sft.epochs": 2,
    "actor.optimizer.lr": 1e-2,
    "hardware.threads": 1,
}


@pytest.fixture(scope="session")
def tiny_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folder of a policy of some thirty thousand parameters that knows the city language a little."""
    return train("city-pretrain", set=TINY, out=tmp_path_factory.mktemp("tiny") / "policy").folder


@pytest.fixture(scope="session")
def tiny_pairs(tiny_policy: Path) -> Path:
    """Run folder of a sampling job: `pairs.jsonl` holds some two hundred preference pairs of the tiny policy."""
    settings = {"start_from": str(tiny_policy), "rollout.prompts": 200, "hardware.threads": 1}
    return train("city-pairs", set=settings, out=tiny_policy.parent / "pairs").folder


@pytest.fixture(scope="session")
def tiny_reward_model(tiny_policy: Path, tiny_pairs: Path) -> Path:
    """Run folder of a reward model over the tiny policy; a fifth of its pairs are held out."""
    settings = {
        "start_from": str(tiny_policy),
        "data.path": str(tiny_pairs / "pairs.jsonl"),
        "data.held_out": 0.2,
        "pairwise.epochs": 2,
        "actor.optimizer.lr": 3e-3,
        "hardware.threads": 1,
    }
    return train("city-reward-model", set=settings, out=tiny_policy.parent / "reward-model").folder


def copy_of(run: Path, place: Path) -> Run:
    """A run folder that a test may write to."""
    shutil.copytree(run, place)
    return Run(place)
