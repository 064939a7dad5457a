"""A process reward model: how likely what has been said so far is to come out right, at the end of each step."""

from ropewalk.algorithms.config import ProcessRewardModel
from ropewalk.plan.graph import Call, CallGraph

FORMULA = """minimise over z, {epochs} epochs of steps of {rows} rows:
    mean over steps[ −y log σ(z) − (1 − y) log(1 − σ(z)) ]
with z = the score at a step's last token,  y = its label in [0, 1]"""

READ = ("tokens", "step_end", "step_label")


def graph(cfg: ProcessRewardModel) -> CallGraph:
    """One call: a sequence is the unit."""
    return CallGraph((Call("reward_train", "reward", "train", READ, ()),), given=READ)


def formula(cfg: ProcessRewardModel) -> str:
    """The objective with its direction, filled from the settings."""
    return FORMULA.format(epochs=cfg.epochs, rows=cfg.rows_per_step)
