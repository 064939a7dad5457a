"""The optimiser step: one division, honest emptiness, loud failure, exact repetition."""

import numpy as np
import pytest
import torch

from ropewalk.algorithms.config import GRPO, PPO, KLNone, TokenReduction
from ropewalk.algorithms.objectives import actor_objective
from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.packed import PackedBatch
from ropewalk.records.sample import SamplingRecord
from ropewalk.training.config import ConstantSchedule, LinearSchedule, Optimizer, Precision
from ropewalk.training.forward import forward
from ropewalk.training.state import TrainState
from ropewalk.training.step import gradients, optimiser_step, train_batch
from tests.parity.beds import POLICY, SAMPLING, assert_close, bed, network, policy_batch, state

PLAIN = actor_objective(PPO(entropy_coefficient=0.0))


def weights(trained: TrainState) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in trained.network.named_parameters()}


def same(mine: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> bool:
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_a_step_is_the_textbook_adamw_step() -> None:
    """Clip by the global norm, decay matrices only, bias-corrected moments, scheduled rate."""
    made = bed("grpo-token")
    settings = Optimizer(lr=1e-2, weight_decay=0.3, clip_norm=0.05, beta2=0.99)
    schedule = LinearSchedule(kind="linear", warmup_steps=2, final_fraction=0.5)
    mine = TrainState(network("llama", POLICY), settings, schedule, total_steps=4)
    other = network("llama", POLICY)
    parameters = dict(other.named_parameters())
    first = {name: torch.zeros_like(p) for name, p in parameters.items()}
    second = {name: torch.zeros_like(p) for name, p in parameters.items()}
    twin = TrainState(other, settings)
    for number, factor in enumerate([0.5, 1.0, 0.75, 0.5], start=1):
        found = gradients(twin, made.batch, made.objective, sampling=SAMPLING)
        norm = float(torch.sqrt(sum((g.double() ** 2).sum() for g in found.values())))
        result = optimiser_step(mine, made.batch, made.objective, sampling=SAMPLING)
        assert result.metrics["grad_norm"].value == pytest.approx(norm, rel=1e-5)
        assert result.metrics["lr"].value == pytest.approx(1e-2 * factor)
        assert norm > 0.05
        with torch.no_grad():
            for name, parameter in parameters.items():
                gradient = found[name] * (0.05 / norm)
                first[name].mul_(0.9).add_(gradient, alpha=0.1)
                second[name].mul_(0.99).add_(gradient**2, alpha=0.01)
                if parameter.ndim >= 2:
                    parameter.mul_(1 - 1e-2 * factor * 0.3)
                corrected = (second[name] / (1 - 0.99**number)).sqrt() + 1e-8
                parameter.sub_(1e-2 * factor * first[name] / (1 - 0.9**number) / corrected)
        expected = dict(other.named_parameters())
        assert_close(weights(mine), {name: p.detach() for name, p in expected.items()}, 1e-5)


def test_without_a_clip_norm_nothing_is_clipped() -> None:
    made = bed("sft-token")
    free = TrainState(network("llama", POLICY), Optimizer(lr=1e-2, clip_norm=None))
    wide = TrainState(network("llama", POLICY), Optimizer(lr=1e-2, clip_norm=1e6))
    for trained in (free, wide):
        optimiser_step(trained, made.batch, made.objective)
    assert same(weights(free), weights(wide))


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
@pytest.mark.parametrize("budget", [1, 30, 10_000])
def test_the_first_ratio_is_exactly_one(architecture: str, budget: int) -> None:
    """Fault B3: with dropout 0.1 in the config (gpt2) and any micro-batches the first ratio is 1.0, nothing clips."""
    made = state(architecture, POLICY, token_budget=budget)
    assert architecture != "gpt2" or made.network.config.resid_pdrop == 0.1
    batch = policy_batch()
    made.network.train()
    metrics = train_batch(made, batch, PLAIN, sampling=SAMPLING)
    assert metrics["ratio_max"].value == 1.0 and metrics["ratio_min"].value == 1.0
    assert metrics["clip_fraction"].value == 0.0
    assert not made.network.training


def test_a_fresh_start_reference_is_the_policy() -> None:
    """Fault C2: log-probs of an untouched copy are the policy's own, bit for bit."""
    policy = network("llama", POLICY)
    reference = policy.copy(frozen=True)
    batch = policy_batch()
    mine, theirs = (
        forward(one, batch, outputs=frozenset({"logprobs"}), sampling=SAMPLING)["logprobs"]
        for one in (policy, reference)
    )
    assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("name", ["grpo-token", "ppo-sequence", "critic-constant", "joint-token"])
def test_a_batch_in_which_nothing_trains_is_an_empty_step(name: str) -> None:
    """Faults A3, A8: all masked is loss 0, no update, no NaN, and reported as empty; the schedule moves on."""
    made = bed(name)
    batch = made.batch.with_columns(rows={"valid": np.zeros(made.batch.rows, np.bool_)})
    trained = state("llama", made.heads)
    before = trained.state_tensors()
    before = {key: tensor.clone() for key, tensor in before.items() if key != "step"}
    result = optimiser_step(trained, batch, made.objective, sampling=made.sampling)
    assert result.empty and result.metrics["empty_step"].value == 1.0
    assert same({key: t for key, t in trained.state_tensors().items() if key != "step"}, before)
    assert trained.step == 1
    found = gradients(trained, batch, made.objective, sampling=made.sampling)
    assert all(not gradient.any() for gradient in found.values())


def test_groups_without_variance_give_a_zero_gradient() -> None:
    """Zero advantages and no other term: gradient exactly 0, finite metrics, not an empty step."""
    objective = actor_objective(GRPO(kl=KLNone(), reduction=TokenReduction()))
    batch = policy_batch()
    batch = batch.with_columns(tokens={"advantages": np.zeros(batch.tokens, np.float32)})
    result = optimiser_step(state("llama", POLICY), batch, objective, sampling=SAMPLING)
    assert not result.empty
    assert result.metrics["grad_norm"].value == 0.0
    assert result.metrics["loss_policy"].value == 0.0


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_bad_loss_stops_before_the_update(bad: float) -> None:
    """The loss term is named, and neither weights nor moments nor the step were touched."""
    batch = policy_batch()
    advantages = batch.token_columns["advantages"].copy()
    advantages[np.flatnonzero(batch.token_columns["policy_mask"])[3]] = bad
    trained = state("llama", POLICY)
    before = {key: tensor.clone() for key, tensor in trained.state_tensors().items()}
    with pytest.raises(RunStopped, match=r"loss term 'policy' is -?(nan|inf) at optimiser step 0, nothing was updated"):
        optimiser_step(trained, batch.with_columns(tokens={"advantages": advantages}), PLAIN, sampling=SAMPLING)
    assert same(trained.state_tensors(), before)


def test_a_bad_gradient_stops_before_the_update_and_is_named() -> None:
    made = bed("critic-token")
    trained = state("llama", made.heads)
    name, parameter = next((n, p) for n, p in trained.trained.items() if "norm" in n)
    hook = parameter.register_hook(lambda gradient: gradient * float("inf"))
    with pytest.raises(RunStopped, match=f"the gradient of {name} is not finite"):
        optimiser_step(trained, made.batch, made.objective)
    hook.remove()
    assert trained.step == 0


def repeated(trained: TrainState, batch: PackedBatch, steps: int) -> TrainState:
    for _ in range(steps):
        optimiser_step(trained, batch, PLAIN, sampling=SAMPLING)
    return trained


def test_later_epochs_compare_with_the_first_steps_log_probs() -> None:
    """Fault B3: one epoch ignores old log-probs, later ones use those of the first step: never a second scoring."""
    batch = policy_batch()
    trained = state("llama", POLICY)
    scored = forward(trained.network, batch, outputs=frozenset({"logprobs"}), sampling=SAMPLING)["logprobs"]
    train_batch(trained, batch, PLAIN, sampling=SAMPLING, epochs=3)
    twin = state("llama", POLICY)
    bare = PackedBatch(
        batch.tokens_T,
        batch.segments_S3,
        {name: column for name, column in batch.token_columns.items() if name != "old_logprobs"},
        batch.row_columns,
    )
    first = optimiser_step(twin, bare, PLAIN, sampling=SAMPLING)
    assert first.logprobs_T == pytest.approx(scored, abs=1e-6)
    assert first.logprobs_T is not None
    repeated(twin, batch.with_columns(tokens={"old_logprobs": first.logprobs_T}), 2)
    assert same(weights(trained), weights(twin))
    assert trained.step == twin.step == 3


def test_minibatches_need_old_log_probs() -> None:
    """Fault K4: later minibatches are off-policy, so their ratio is real or the batch is refused."""
    batch = policy_batch()
    bare = PackedBatch(
        batch.tokens_T,
        batch.segments_S3,
        {name: column for name, column in batch.token_columns.items() if name != "old_logprobs"},
        batch.row_columns,
    )
    with pytest.raises(InputError, match="3 minibatches need the column old_logprobs"):
        train_batch(state("llama", POLICY), bare, PLAIN, sampling=SAMPLING, minibatches=3)
    trained = state("llama", POLICY)
    scored = forward(trained.network, batch, outputs=frozenset({"logprobs"}), sampling=SAMPLING)
    fresh = bare.with_columns(tokens={"old_logprobs": scored["logprobs"]})
    metrics = train_batch(trained, fresh, PLAIN, sampling=SAMPLING, minibatches=3)
    assert trained.step == 3
    assert metrics["ratio_max"].value != 1.0
    made = bed("sft-token")
    train_batch(state("llama", POLICY), made.batch, made.objective, minibatches=3)


def test_the_minibatch_order_comes_from_the_seed_and_the_epoch() -> None:
    """Two runs with one seed are bit-equal; another seed deals otherwise. The global generators are not touched."""
    made = bed("sft-token")
    numpy_before, torch_before = np.random.get_state()[1].copy(), torch.get_rng_state()
    ends = []
    for seed in ((1, 5), (1, 5), (1, 6)):
        trained = state("llama", POLICY)
        train_batch(trained, made.batch, made.objective, epochs=2, minibatches=3, seed=seed)
        assert trained.step == 6
        ends.append(weights(trained))
    assert same(ends[0], ends[1])
    assert not same(ends[0], ends[2])
    assert torch.equal(torch_before, torch.get_rng_state())
    assert np.array_equal(numpy_before, np.random.get_state()[1])


def test_more_minibatches_than_rows_are_empty_steps() -> None:
    made = bed("sft-token")
    trained = state("llama", POLICY)
    metrics = train_batch(trained, made.batch.select([0, 1]), made.objective, minibatches=3)
    assert trained.step == 3
    assert metrics["empty_step"].value == pytest.approx(1 / 3)


def test_metrics_are_those_of_the_whole() -> None:
    """Fault P1: loss terms and fractions merge over micro-batches by their counts."""
    made = bed("ppo-token")
    results = [
        optimiser_step(state("llama", POLICY, token_budget=budget), made.batch, made.objective, sampling=SAMPLING)
        for budget in (10_000, 1)
    ]
    whole, cut = (result.metrics for result in results)
    assert cut["clip_fraction"] == whole["clip_fraction"]
    assert cut["loss_policy"].count == whole["loss_policy"].count > 9
    assert cut["loss_policy"].value == pytest.approx(whole["loss_policy"].value, abs=1e-5)
    assert cut["ratio_max"].value == pytest.approx(whole["ratio_max"].value, rel=1e-4)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_activation_checkpointing_changes_nothing(architecture: str, dtype: str) -> None:
    """Recomputed layers give the same gradient bit for bit, in eval mode, and leave no trace on the layers."""
    made = bed("joint-token")
    found = []
    for recompute in (False, True):
        trained = state(architecture, made.heads)
        trained.precision = Precision(dtype=dtype, activation_checkpointing=recompute)
        found.append(gradients(trained, made.batch, made.objective, sampling=SAMPLING))
        assert not any("forward" in vars(module) for module in trained.network.modules())
        assert not trained.network.training
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_bf16_keeps_float32_masters_and_stays_near() -> None:
    made = bed("sft-token")
    trained = state("llama", POLICY)
    exact = gradients(trained, made.batch, made.objective)
    trained.precision = Precision(dtype="bf16")
    near = gradients(trained, made.batch, made.objective)
    optimiser_step(trained, made.batch, made.objective)
    assert {tensor.dtype for name, tensor in trained.state_tensors().items() if name != "step"} == {torch.float32}
    mine, theirs = (torch.cat([g.reshape(-1) for g in found.values()]) for found in (exact, near))
    assert not torch.equal(mine, theirs)
    assert float((mine - theirs).norm() / mine.norm()) < 0.05


def test_a_greedy_record_is_refused_for_training() -> None:
    """Fault B1: temperature 0 has no log-probs to train on."""
    greedy = SamplingRecord(temperature=0.0, max_new_tokens=4, eos_ids=(2,))
    with pytest.raises(InputError, match="temperature above 0"):
        optimiser_step(state("llama", POLICY), policy_batch(), PLAIN, sampling=greedy)


def test_unknown_outputs_are_refused() -> None:
    with pytest.raises(InputError, match=r"unknown outputs \['logits'\]"):
        forward(network("llama", POLICY), policy_batch(), outputs=frozenset({"logits"}))


def test_a_shard_without_rows_scores_to_nothing() -> None:
    empty = policy_batch().select([])
    found = forward(network("llama", POLICY), empty, outputs=frozenset({"logprobs"}), sampling=SAMPLING)
    assert found["logprobs"].shape == (0,) and found["logprobs"].dtype == np.float32


def test_a_constant_schedule_is_the_default() -> None:
    assert state("llama", POLICY).schedule == ConstantSchedule()
