"""The calls each method makes, and the objective it prints."""

import math

import pytest

from ropewalk.algorithms.config import (
    GRPO,
    PPO,
    SFT,
    AdaptiveController,
    ClipValue,
    ConstantReduction,
    KLLoss,
    KLNone,
    KLReward,
    MaskUnfinished,
    PenaliseUnfinished,
    RewardModel,
    SequenceReduction,
    SharedCritic,
)
from ropewalk.algorithms.methods import grpo, ppo, reward_model, sft
from ropewalk.plan.graph import CallGraph


def names(graph: CallGraph) -> list[str]:
    return [call.name for call in graph.calls]


def test_ppo_calls_what_it_needs_and_nothing_else() -> None:
    everything = ppo.graph(PPO(minibatches=2), learned_reward=True)
    assert names(everything) == [
        "generate",
        "old_logprobs",
        "reference",
        "reward_model",
        "values",
        "actor_train",
        "critic_train",
    ]
    assert everything.roles == ("actor", "reference", "reward", "critic")
    least = ppo.graph(PPO(kl=KLNone(), critic=SharedCritic()), learned_reward=False)
    assert names(least) == ["generate", "values", "actor_train"] and least.roles == ("actor",)


def test_old_logprobs_are_scored_exactly_when_a_later_minibatch_needs_them() -> None:
    """Fault K4: one minibatch takes them from its own first step, whatever the epochs."""
    for cfg, wanted in ((PPO(epochs=4), False), (PPO(epochs=1, minibatches=2), True)):
        assert ("old_logprobs" in names(ppo.graph(cfg, learned_reward=False))) == wanted
    assert "old_logprobs" in names(grpo.graph(GRPO(minibatches=3), learned_reward=False))


def test_a_shared_critic_needs_one_forward_for_both_columns() -> None:
    graph = ppo.graph(PPO(minibatches=2, critic=SharedCritic()), learned_reward=True)
    assert graph["old_logprobs"].writes == ("old_logprobs", "values") and "values" not in names(graph)


def test_the_edges_show_what_training_waits_for() -> None:
    graph = ppo.graph(PPO(minibatches=2), learned_reward=True)
    for train in ("actor_train", "critic_train"):
        waits = {earlier for earlier, later in graph.edges() if later == train}
        assert waits == {"generate", "old_logprobs", "reference", "reward_model", "values"}


def test_grpo_has_no_critic_and_a_reference_only_for_its_kl() -> None:
    assert names(grpo.graph(GRPO(), learned_reward=True)) == ["generate", "reference", "reward_model", "actor_train"]
    assert names(grpo.graph(GRPO(kl=KLNone()), learned_reward=False)) == ["generate", "actor_train"]


def test_supervised_methods_are_one_train_call() -> None:
    assert sft.graph(SFT())["actor_train"].unit == "sequence"
    assert reward_model.graph(RewardModel())["reward_train"].unit == "pair"


PPO_CHANGES = (
    {"gamma": 0.875},
    {"lam": 0.625},
    {"clip_low": 0.125},
    {"clip_high": 0.375},
    {"epochs": 13},
    {"minibatches": 17},
    {"whiten": "none"},
    {"entropy_coefficient": 0.0625},
    {"value_clip": ClipValue(range=0.4375)},
    {"critic": SharedCritic(coefficient=0.1875)},
    {"reduction": SequenceReduction()},
    {"reduction": ConstantReduction(length_tokens=77)},
    {"kl": KLNone()},
    {"kl": KLReward(estimator="k3")},
    {"kl": KLReward(coefficient=0.3125)},
    {"kl": KLReward(controller=AdaptiveController(target_nats_per_sequence=11.0))},
    {"kl": KLLoss(coefficient=0.3125)},
    {"kl": KLLoss(estimator="k2")},
    {"unfinished": MaskUnfinished()},
    {"unfinished": PenaliseUnfinished(score=-4.0)},
)


def test_a_formula_says_its_direction_and_shows_every_setting() -> None:
    shown = {ppo.formula(PPO(**change)) for change in ({}, *PPO_CHANGES)}  # type: ignore[arg-type]
    assert len(shown) == len(PPO_CHANGES) + 1 and all(text.startswith("minimise") for text in shown)
    changes = [c for c in PPO_CHANGES if next(iter(c)) in GRPO.model_fields and c != {"reduction": SequenceReduction()}]
    changes += [{"baseline": "leave_one_out"}, {"scale": "none"}]
    shown = {grpo.formula(GRPO(**change)) for change in ({}, *changes)}  # type: ignore[arg-type]
    assert len(shown) == len(changes) + 1 and all(text.startswith("minimise") for text in shown)
    assert len({sft.formula(c) for c in (SFT(), SFT(epochs=9), SFT(rows_per_step=5))}) == 3
    assert len({reward_model.formula(c) for c in (RewardModel(), RewardModel(epochs=9))}) == 2


@pytest.mark.parametrize(("agreement", "right"), [(0.7, 0.816), (0.8, 0.887)])
def test_agreement_of_two_annotators_is_not_the_ceiling(agreement: float, right: float) -> None:
    """math-notes: two judges each right with q agree with q² + (1 − q)²."""
    q = (1 + math.sqrt(2 * agreement - 1)) / 2
    assert q == pytest.approx(right, abs=1e-3) and q * q + (1 - q) ** 2 == pytest.approx(agreement)
