"""What the KL estimators are and what their gradients are, by enumerating a vocabulary of 6."""

import math

import pytest
import torch
from torch import Tensor

from ropewalk.algorithms.config import PPO, KLEstimator, KLReward
from ropewalk.algorithms.credit import credit_metrics, gae_credit
from ropewalk.algorithms.kl import kl_estimate, kl_metrics

ESTIMATORS: tuple[KLEstimator, ...] = ("k1", "k2", "k3")
GENERATOR = torch.Generator().manual_seed(11)
LOGITS, REFERENCE, BEHAVIOUR = (torch.randn(6, generator=GENERATOR, dtype=torch.float64) for _ in range(3))


def kl(p: Tensor, q: Tensor) -> Tensor:
    """Exact KL(p‖q) of two log-distributions."""
    return (p.exp() * (p - q)).sum()


def logs(logits: Tensor) -> Tensor:
    return torch.log_softmax(logits, -1)


def expected_loss_gradient(estimator: KLEstimator, sampler: Tensor | None = None, *, weighted: bool = False) -> Tensor:
    """∇ of E_sampler[(π/sampler) k(a)] with the samples held fixed, as a training step on many samples sees it."""
    live = LOGITS.clone().requires_grad_()
    ours = logs(live)
    drawn = (logs(LOGITS) if sampler is None else logs(sampler)).exp()
    weight = drawn * (ours.detach().exp() / drawn if weighted else 1.0)
    (weight * kl_estimate(estimator, ours, logs(REFERENCE))).sum().backward()  # type: ignore[no-untyped-call]
    assert live.grad is not None
    return live.grad


def exact_gradient(*, reverse: bool) -> Tensor:
    live = LOGITS.clone().requires_grad_()
    ours, theirs = logs(live), logs(REFERENCE)
    (kl(ours, theirs) if reverse else kl(theirs, ours)).backward()  # type: ignore[no-untyped-call]
    assert live.grad is not None
    return live.grad


def test_k1_and_k3_are_unbiased_for_samples_of_the_current_policy() -> None:
    ours, theirs = logs(LOGITS), logs(REFERENCE)
    means = {name: (ours.exp() * kl_estimate(name, ours, theirs)).sum().item() for name in ESTIMATORS}
    assert means["k1"] == pytest.approx(kl(ours, theirs).item())
    assert means["k3"] == pytest.approx(kl(ours, theirs).item())
    assert means["k2"] != pytest.approx(kl(ours, theirs).item(), rel=0.01)


def test_k3_is_biased_off_policy_and_importance_weights_mend_it() -> None:
    """math-notes: "k3 is always unbiased" is wrong."""
    ours, theirs, drawn = logs(LOGITS), logs(REFERENCE), logs(BEHAVIOUR).exp()
    k3 = kl_estimate("k3", ours, theirs)
    assert (drawn * k3).sum().item() != pytest.approx(kl(ours, theirs).item(), rel=0.05)
    assert (drawn * (ours.exp() / drawn) * k3).sum().item() == pytest.approx(kl(ours, theirs).item())


def test_k3_is_never_negative_and_the_others_read_as_they_are_named() -> None:
    ours, theirs = logs(LOGITS), logs(REFERENCE)
    assert (kl_estimate("k3", ours, theirs) >= 0).all()
    assert torch.equal(kl_estimate("k1", ours, theirs), ours - theirs)
    assert torch.equal(kl_estimate("k2", ours, theirs), (ours - theirs) ** 2 / 2)
    for name in ESTIMATORS:
        assert not kl_estimate(name, ours, ours).any()


def test_gradients_of_the_estimators_as_losses() -> None:
    """k1: none; k2: reverse KL(π‖π_ref); k3: forward KL(π_ref‖π)."""
    zero = torch.zeros(6, dtype=torch.float64)
    assert torch.allclose(expected_loss_gradient("k1"), zero, atol=1e-12)
    assert torch.allclose(expected_loss_gradient("k2"), exact_gradient(reverse=True), atol=1e-12)
    assert torch.allclose(expected_loss_gradient("k3"), exact_gradient(reverse=False), atol=1e-12)
    assert not torch.allclose(expected_loss_gradient("k3"), exact_gradient(reverse=True), atol=1e-2)


@pytest.mark.parametrize(("estimator", "reverse"), [("k2", True), ("k3", False)])
def test_off_policy_the_gradients_hold_only_with_importance_weights(estimator: KLEstimator, reverse: bool) -> None:
    exact = exact_gradient(reverse=reverse)
    assert not torch.allclose(expected_loss_gradient(estimator, BEHAVIOUR), exact, atol=1e-2)
    assert torch.allclose(expected_loss_gradient(estimator, BEHAVIOUR, weighted=True), exact, atol=1e-12)


class TwoTokens:
    """All 36 sequences of two tokens under a policy whose second step depends on the first token."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(5)
        self.logits = torch.randn(7, 6, generator=generator, dtype=torch.float64, requires_grad=True)
        reference = torch.randn(7, 6, generator=generator, dtype=torch.float64)
        first, second = torch.arange(36) // 6, torch.arange(36) % 6
        steps = [logs(table)[[0, *[1 + a for a in range(6)]]] for table in (self.logits, reference)]
        self.ours, self.theirs = (torch.stack([t[0][first], t[1 + first, second]], 1) for t in steps)
        self.probabilities = self.ours.detach().sum(1).exp()

    def columns(self, rewards: Tensor | None = None) -> dict[str, Tensor]:
        tokens = 72
        return {
            "row_T": torch.arange(tokens) // 2,
            "policy_mask": torch.ones(tokens, dtype=torch.bool),
            "valid": torch.ones(36, dtype=torch.bool),
            "rewards": torch.zeros(36, dtype=torch.float64) if rewards is None else rewards,
            "values": torch.zeros(tokens, dtype=torch.float64),
            "rollout_logprobs": self.ours.detach().flatten(),
            "reference_logprobs": self.theirs.flatten(),
        }

    def policy_gradient(self, advantages_T: Tensor) -> Tensor:
        """E[Σ_t ∇log π_t · A_t]."""
        expected = (self.probabilities[:, None] * self.ours * advantages_T.reshape(36, 2)).sum()
        (gradient,) = torch.autograd.grad(expected, self.logits, retain_graph=True)
        return gradient

    def sequence_kl_gradient(self) -> Tensor:
        whole = (self.ours.sum(1).exp() * (self.ours - self.theirs).sum(1)).sum()
        (gradient,) = torch.autograd.grad(whole, self.logits, retain_graph=True)
        return gradient


REWARD_KL = PPO(gamma=1, lam=1, whiten="none", kl=KLReward(coefficient=0.5))


def test_only_kl_in_the_reward_has_the_gradient_of_the_sequence_kl() -> None:
    """Fault Q5: place = "reward" and place = "loss" differ on two tokens, as documented."""
    world = TwoTokens()
    in_reward = world.policy_gradient(gae_credit(REWARD_KL, world.columns())["advantages"])
    assert torch.allclose(in_reward, -0.5 * world.sequence_kl_gradient(), atol=1e-12)
    per_token = (world.probabilities[:, None] * kl_estimate("k2", world.ours, world.theirs)).sum()
    (in_loss,) = torch.autograd.grad(0.5 * per_token, world.logits, retain_graph=True)
    assert not torch.allclose(in_loss, -in_reward, atol=1e-2)


def test_a_constant_in_the_reward_does_not_shift_the_balance_with_the_kl() -> None:
    """math-notes: E[∇log π · c] = 0; the scale shifts it, a constant does not."""
    world = TwoTokens()
    rewards = torch.randn(36, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    gradients = [
        world.policy_gradient(gae_credit(REWARD_KL, world.columns(r))["advantages"])
        for r in (rewards, rewards + 10, rewards * 2)
    ]
    assert torch.allclose(gradients[0], gradients[1], atol=1e-12)
    assert not torch.allclose(gradients[0], gradients[2], atol=1e-2)


def test_the_coefficient_in_force_replaces_the_recipes() -> None:
    world = TwoTokens()
    found = gae_credit(REWARD_KL, world.columns(), kl_coefficient=1.5)["advantages"]
    assert torch.allclose(found, 3 * gae_credit(REWARD_KL, world.columns())["advantages"])


def test_metrics_per_token_and_per_sequence_with_the_tail() -> None:
    """Fault C4, P3: over policy tokens of judged rows only."""
    found = {
        "row_T": torch.tensor([0, 0, 0, 1, 1, 2]),
        "policy_mask": torch.tensor([False, True, True, True, False, True]),
        "valid": torch.tensor([True, True, False]),
        "rollout_logprobs": torch.tensor([math.nan, -1.0, -2.0, -1.0, math.inf, -9.0]),
        "reference_logprobs": torch.tensor([math.nan, -1.5, -2.0, -3.0, 0.0, -1.0]),
    }
    metrics = kl_metrics(found)
    assert metrics["kl_per_token"].value == pytest.approx(2.5 / 3)
    assert metrics["kl_per_sequence"].value == pytest.approx(2.5 / 2)
    assert metrics["kl_k3_max"].value == pytest.approx(math.exp(-2) - 1 + 2)
    assert credit_metrics(PPO(), found)["rollout_entropy"].value == pytest.approx(4 / 3)
    found["old_logprobs"] = found["reference_logprobs"]
    assert kl_metrics(found)["kl_per_token"].value == 0


def test_metrics_of_nothing_are_empty_not_nan_sums() -> None:
    found = {name: torch.zeros(0) for name in ("rollout_logprobs", "reference_logprobs")}
    found |= {"row_T": torch.zeros(0, dtype=torch.int64), "policy_mask": torch.zeros(0, dtype=torch.bool)}
    found["valid"] = torch.zeros(0, dtype=torch.bool)
    metrics = kl_metrics(found)
    assert metrics["kl_per_sequence"].count == 0 and "kl_k3_max" not in metrics
