"""PPO: a critic's advantages, a clipped ratio, and a rope to the reference."""

from collections.abc import Sequence

from ropewalk.algorithms.config import PPO
from ropewalk.algorithms.methods.formula import clip, loss_extras, mean_over, reward_rule
from ropewalk.plan.graph import Call, CallGraph

FORMULA = """minimise over π, {epochs} epochs x {minibatches} minibatches:
    {mean}[ −min(ρ A, {clip} A) ]{extras}
minimise over V{joint}:
    {mean}[ {value} ]
with ρ = π(a)/π_old(a),  A = GAE(γ={gamma}, λ={lam}){whiten},  R = A + V_old (A before whitening),
     {reward}"""


def graph(cfg: PPO, *, learned_reward: bool, judges: Sequence[Call] = ()) -> CallGraph:
    """Calls of one iteration. `rewards`, `advantages` and `returns` are computed by the controller in between; the
    train calls also name the columns these are made from, so that the edges show what training waits for. `judges`:
    further calls that score what was sampled."""
    shared = cfg.critic.kind == "shared"
    old = ("old_logprobs",) if cfg.minibatches > 1 else ()
    reference = ("reference_logprobs",) if cfg.kl.place != "none" else ()
    scores = ("scores",) if learned_reward else ()
    sampled = ("tokens", "rollout_logprobs")
    calls = [Call("generate", "actor", "generate", ("prompts",), sampled)]
    if old:
        calls.append(Call("old_logprobs", "actor", "forward", ("tokens",), (*old, "values") if shared else old))
    if reference:
        calls.append(Call("reference", "reference", "forward", ("tokens",), reference))
    if scores:
        calls.append(Call("reward_model", "reward", "forward", ("tokens",), scores))
    calls += judges
    judged = (column for call in judges for column in call.writes)
    if not (shared and old):
        calls.append(Call("values", "actor" if shared else "critic", "forward", ("tokens",), ("values",)))
    sources = (*sampled, *old, *reference, *scores, *judged, "values", "rewards", "advantages")
    calls.append(Call("actor_train", "actor", "train", (*sources, "returns") if shared else sources, ()))
    if not shared:
        calls.append(Call("critic_train", "critic", "train", (*sources, "returns"), ()))
    return CallGraph(tuple(calls), given=("prompts", "rewards", "advantages", "returns"))


def formula(cfg: PPO) -> str:
    """The objective with its direction, filled from the settings."""
    value = "½ (V − R)²"
    if cfg.value_clip.kind == "clip":
        value = f"½ max((V − R)², (V_old + clamp(V − V_old, ±{cfg.value_clip.range}) − R)²)"
    return FORMULA.format(
        epochs=cfg.epochs,
        minibatches=cfg.minibatches,
        mean=mean_over(cfg.reduction),
        clip=clip(cfg.clip_low, cfg.clip_high),
        extras=loss_extras(cfg.kl, cfg.entropy_coefficient),
        joint=f" (a head on π, times {cfg.critic.coefficient}, one joint loss)" if cfg.critic.kind == "shared" else "",
        value=value,
        gamma=cfg.gamma,
        lam=cfg.lam,
        whiten={"tokens": " whitened over tokens", "task": " whitened over the tokens of each task", "none": ""}[
            cfg.whiten
        ],
        reward=reward_rule(cfg.kl, cfg.unfinished, "per token"),
    )
