"""Supervised fine-tuning: imitate the target tokens."""

from ropewalk.algorithms.config import SFT
from ropewalk.algorithms.methods.formula import mean_over
from ropewalk.plan.graph import Call, CallGraph

FORMULA = """minimise over π, {epochs} epochs of steps of {rows} rows:
    {mean}[ −log π(target | before) ]"""


def graph(cfg: SFT) -> CallGraph:
    """One call: a sequence is the unit."""
    return CallGraph((Call("actor_train", "actor", "train", ("tokens",), ()),), given=("tokens",))


def formula(cfg: SFT) -> str:
    """The objective with its direction, filled from the settings."""
    return FORMULA.format(epochs=cfg.epochs, rows=cfg.rows_per_step, mean=mean_over(cfg.reduction))
