"""Words that the methods' formulas share."""

from ropewalk.algorithms.config import KL, Reduction, Unfinished


def mean_over(reduction: Reduction) -> str:
    """How terms are averaged."""
    if reduction.kind == "token":
        return "mean over tokens"
    if reduction.kind == "sequence":
        return "mean over sequences of mean over tokens"
    return f"1/({reduction.length_tokens} · sequences) · sum over tokens"


def clip(low: float, high: float) -> str:
    return f"clip(ρ, {1 - low:g}, {1 + high:g})"


def kl_symbol(estimator: str) -> str:
    """The per-token estimate with d = log π(a) − log π_ref(a)."""
    return {"k1": "d", "k2": "d²/2", "k3": "(e^(−d) − 1 + d)"}[estimator]


def reward_rule(kl: KL, unfinished: Unfinished, per: str) -> str:
    """What `r` is, charged `per` token or per sequence."""
    rule = "r = the task's reward"
    if kl.place == "reward":
        rule += f" − β {kl_symbol(kl.estimator)} {per} (β={kl.coefficient:g}, d = log π_old(a)/π_ref(a)"
        if kl.controller.kind == "adaptive":
            rule += f", β steered to {kl.controller.target_nats_per_sequence:g} nats per sequence"
        rule += ")"
    if unfinished.kind == "penalty":
        return f"{rule}; an unfinished sample's reward is {unfinished.score:g}"
    return f"{rule}; unfinished samples are left out" if unfinished.kind == "mask" else rule


def loss_extras(kl: KL, entropy_coefficient: float) -> str:
    """Further terms of the policy loss."""
    extras = ""
    if kl.place == "loss":
        direction = "∇KL(π_ref‖π)" if kl.estimator == "k3" else "∇KL(π‖π_ref)"
        extras += (
            f" + {kl.coefficient:g} · same mean[ {kl_symbol(kl.estimator)} ]  (d = log π(a)/π_ref(a); {direction})"
        )
    if entropy_coefficient:
        extras += f" − {entropy_coefficient:g} · same mean[ H(π) ]"
    return extras
