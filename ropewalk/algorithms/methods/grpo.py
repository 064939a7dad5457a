"""GRPO: the baseline of a sample is its own group. Shao et al. 2024, "DeepSeekMath"."""

from collections.abc import Sequence

from ropewalk.algorithms.config import GRPO
from ropewalk.algorithms.methods.formula import clip, loss_extras, mean_over, reward_rule
from ropewalk.plan.graph import Call, CallGraph

FORMULA = """minimise over π, {epochs} epochs x {minibatches} minibatches:
    {mean}[ −min(ρ A, {clip} A) ]{extras}
with ρ = π(a)/π_old(a),  A = {advantage},
     {reward}"""


def graph(cfg: GRPO, *, learned_reward: bool, judges: Sequence[Call] = ()) -> CallGraph:
    """Calls of one iteration; `rewards` and `advantages` are computed by the controller in between, and `actor_train`
    also names the columns these are made from. `judges`: further calls that score what was sampled."""
    old = ("old_logprobs",) if cfg.minibatches > 1 else ()
    reference = ("reference_logprobs",) if cfg.kl.place != "none" else ()
    scores = ("scores",) if learned_reward else ()
    sampled = ("tokens", "rollout_logprobs")
    calls = [Call("generate", "actor", "generate", ("prompts",), sampled)]
    if old:
        calls.append(Call("old_logprobs", "actor", "forward", ("tokens",), old))
    if reference:
        calls.append(Call("reference", "reference", "forward", ("tokens",), reference))
    if scores:
        calls.append(Call("reward_model", "reward", "forward", ("tokens",), scores))
    calls += judges
    judged = (column for call in judges for column in call.writes)
    sources = (*sampled, *old, *reference, *scores, *judged, "rewards", "advantages")
    calls.append(Call("actor_train", "actor", "train", sources, ()))
    return CallGraph(tuple(calls), given=("prompts", "rewards", "advantages"))


def formula(cfg: GRPO) -> str:
    """The objective with its direction, filled from the settings."""
    baseline = "mean(group)" if cfg.baseline == "mean" else "mean(others of the group)"
    advantage = f"r − {baseline}"
    scaled = f"({advantage}) / std(group)" if cfg.scale == "std" else advantage
    return FORMULA.format(
        epochs=cfg.epochs,
        minibatches=cfg.minibatches,
        mean=mean_over(cfg.reduction),
        clip=clip(cfg.clip_low, cfg.clip_high),
        extras=loss_extras(cfg.kl, cfg.entropy_coefficient),
        advantage=f"A' / rms(A' of the task),  A' = {scaled}" if cfg.normalise_by == "task" else scaled,
        reward=reward_rule(cfg.kl, cfg.unfinished, "summed over the sequence"),
    )
