"""A reward model from preference pairs: Bradley and Terry's likelihood of the recorded choices."""

from ropewalk.algorithms.config import RewardModel
from ropewalk.plan.graph import Call, CallGraph

FORMULA = """minimise over s, {epochs} epochs of steps of {pairs} pairs:
    mean over pairs[ −log σ(s(chosen) − s(rejected)) ]"""


def graph(cfg: RewardModel) -> CallGraph:
    """One call: a pair is the unit."""
    calls = (Call("reward_train", "reward", "train", ("tokens", "unit", "chosen"), (), unit="pair"),)
    return CallGraph(calls, given=("tokens", "unit", "chosen"))


def formula(cfg: RewardModel) -> str:
    """The objective with its direction, filled from the settings."""
    return FORMULA.format(epochs=cfg.epochs, pairs=cfg.pairs_per_step)
