"""What every crew promises, on each host: the same answers in the same order, the same failures, nothing left over."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection

import numpy as np
import pytest

from ropewalk.algorithms.config import GRPO, PPO, KLLoss
from ropewalk.models.config import FreshModel
from ropewalk.models.load import fresh_policy
from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.packed import PackedBatch
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Request, SamplingRecord
from ropewalk.rollout.config import NativeEngineConfig
from ropewalk.rollout.episode import requests
from ropewalk.runtime.crew import Crew
from ropewalk.runtime.hosts.inline import InlineCrew
from ropewalk.runtime.hosts.local import LocalCrew
from ropewalk.runtime.roles import FromRole, FromSizes, ObjectiveSpec, RoleSetup, Setup, Training
from ropewalk.tasks.city.task import VOCABULARY
from ropewalk.training.config import ConstantSchedule, Optimizer, Precision
from ropewalk.training.forward import forward
from ropewalk.training.packing import pack_samples
from tests.contracts.asking import samples_of

SIZES = FreshModel(kind="fresh", width=24, layers=1, heads=2, kv_heads=1, ffn=32, max_positions=32, init_std=0.3)
SAMPLING = SamplingRecord(temperature=1.3, max_new_tokens=8, eos_ids=(VOCABULARY.words.index("."),), banned_ids=(0,))
POLICY, VALUE = frozenset({"policy"}), frozenset({"value"})
HOSTS: dict[str, Callable[[Setup], Crew]] = {"inline": InlineCrew, "local": LocalCrew}
PROCESSES = {"inline": 1, "local": 2}


def setup(processes: int) -> Setup:
    """A policy with its reference and a critic."""

    def training(spec: ObjectiveSpec) -> Training:
        return Training(spec, Optimizer(lr=1e-2), ConstantSchedule(), total_steps=10, epochs=2)

    return Setup(
        roles={
            "actor": RoleSetup(
                FromSizes(SIZES, VOCABULARY, 3),
                POLICY,
                training(ObjectiveSpec("actor", GRPO(kl=KLLoss(coefficient=0.1)))),
            ),
            "reference": RoleSetup(FromRole("actor"), POLICY),
            "critic": RoleSetup(FromRole("actor"), VALUE, training(ObjectiveSpec("critic", PPO()))),
        },
        seed=0,
        device="cpu",
        threads=1,
        processes=processes,
        precision=Precision(),
        micro_batch_tokens=40,
        engine=NativeEngineConfig(slots=4),
    )


def asked(prompts: int = 3, group_size: int = 3) -> list[Request]:
    ids = np.random.default_rng(0).integers(1, 50, (prompts, 3))
    pairs = [(Prompt(id=f"p{n}", dialogue=""), ids[n, : 1 + n % 3]) for n in range(prompts)]
    return requests(pairs, group_size=group_size, sampling=SAMPLING, run_seed=5, iteration=0)


def batch_of(crew: Crew, prompts: int = 3) -> PackedBatch:
    """Samples with advantages, old values, returns, and NaN wherever nothing trains."""
    batch = pack_samples(samples_of(crew, asked(prompts)))
    policy = batch.token_columns["policy_mask"].astype(bool)
    generator = np.random.default_rng(1)

    def column() -> np.ndarray:
        values = np.full(batch.tokens, np.nan, np.float32)
        values[policy] = generator.normal(0, 1, int(policy.sum()))
        return values

    names = ("advantages", "returns", "values", "reference_logprobs")
    return batch.with_columns(tokens={name: column() for name in names})


def few_rows(batch: PackedBatch, rows: int) -> PackedBatch:
    return batch.select(np.arange(rows))


@pytest.fixture(scope="module", params=list(HOSTS))
def host(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def crew(host: str) -> Iterator[Crew]:
    opened = HOSTS[host](setup(PROCESSES[host]))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def alone() -> InlineCrew:
    """One process, to compare with."""
    return InlineCrew(setup(1))


@pytest.fixture(scope="module")
def batch(alone: InlineCrew) -> PackedBatch:
    return batch_of(alone)


def test_answers_are_those_of_one_process(crew: Crew, alone: InlineCrew, batch: PackedBatch) -> None:
    """Samples are token-equal in the order of the requests; columns stand where their tokens stand; gradients agree
    to 1e-6; metrics merge to those of the whole (Faults A1, P1). The whole life of a crew, on one crew."""
    found, expected = samples_of(crew, asked()), samples_of(alone, asked())
    assert [(s.prompt_id, s.index) for s in found] == [(r.prompt_id, r.index) for r in asked()]
    for mine, theirs in zip(found, expected, strict=True):
        assert np.array_equal(mine.tokens_T, theirs.tokens_T)
        assert mine.logprobs_T == pytest.approx(theirs.logprobs_T, abs=1e-5, nan_ok=True)
        assert np.array_equal(mine.versions_T, theirs.versions_T)

    outputs = frozenset({"logprobs", "entropy"})
    columns = crew.call("forward", role="actor", batch=batch, outputs=outputs, sampling=SAMPLING).result()
    policy = fresh_policy(SIZES, VOCABULARY.words, VOCABULARY.eos, VOCABULARY.pad, seed=3).network
    direct = forward(policy, batch, outputs=outputs, sampling=SAMPLING)
    assert columns.keys() == direct.keys()
    for name, column in columns.items():
        assert column.dtype == direct[name].dtype and column == pytest.approx(direct[name], abs=1e-5)

    assert crew.call("fingerprint", role="actor").result() == alone.call("fingerprint", role="actor").result()
    payload = {"role": "actor", "batch": batch, "sampling": SAMPLING}
    gradients = crew.call("gradients", **payload).result()
    expected_gradients = alone.call("gradients", **payload).result()
    assert gradients.keys() == expected_gradients.keys()
    for name, gradient in gradients.items():
        largest = np.abs(expected_gradients[name]).max()
        assert np.abs(gradient - expected_gradients[name]).max() <= 1e-6 * max(largest, 1e-3), name

    other = HOSTS["inline"](setup(1))
    for role in ("actor", "critic"):
        mine, theirs = (c.call("train", role=role, batch=batch, iteration=0, sampling=SAMPLING) for c in (crew, other))
        assert mine.result().keys() == theirs.result().keys()
        for name, metric in mine.result().items():
            assert metric.value == pytest.approx(theirs.result()[name].value, rel=1e-3, abs=1e-5), name
    assert crew.call("steps", role="actor").result() == 2
    tensors, others = (c.call("state_tensors").result() for c in (crew, other))
    assert {role: set(named) for role, named in tensors.items()} == {r: set(named) for r, named in others.items()}
    for name, tensor in tensors["actor"].items():
        # AdamW divides by a gradient's own size: where that is round-off, a step may differ in sign.
        assert np.abs(tensor.numpy() - others["actor"][name].numpy()).mean() < 1e-4, name

    assert crew.call("publish").result().step == 2
    crew.call("load_state_tensors", tensors=others).result()
    assert crew.call("fingerprint", role="actor").result() == other.call("fingerprint", role="actor").result()
    assert len(samples_of(crew, asked())) == 9
    with pytest.raises(InputError, match="publish"):
        samples_of(other, asked())


def test_a_share_may_be_empty(crew: Crew, alone: InlineCrew, batch: PackedBatch) -> None:
    """Fault J5: fewer rows, or requests, than ranks; and none at all."""
    one = few_rows(batch, 1)
    outputs = frozenset({"logprobs"})
    payload = {"role": "actor", "batch": one, "sampling": SAMPLING}
    columns, expected = (c.call("forward", outputs=outputs, **payload).result() for c in (crew, alone))
    assert columns["logprobs"] == pytest.approx(expected["logprobs"], abs=1e-5)
    gradients, expected = (c.call("gradients", **payload).result() for c in (crew, alone))
    for name, gradient in gradients.items():
        assert gradient == pytest.approx(expected[name], rel=1e-5, abs=1e-8)
    assert crew.call("train", iteration=0, **payload).result()["loss_policy"].count > 0
    crew.call("publish").result()
    assert len(samples_of(crew, asked(1, 1))) == 1
    assert samples_of(crew, []) == []


def test_calls_are_answered_in_the_order_they_were_made(crew: Crew, batch: PackedBatch) -> None:
    """A train call sent before a question is seen by it, though nobody waited."""
    before = crew.call("steps", role="actor")
    trained = crew.call("train", role="actor", batch=batch, iteration=0, sampling=SAMPLING)
    after = crew.call("steps", role="actor")
    assert (before.result(), after.result()) == (0, 2)
    assert trained.done()


def test_failures_say_the_same_on_every_host(crew: Crew, batch: PackedBatch) -> None:
    """The sentence of a worker's error reaches whoever reads the future, as the same kind of error."""
    future = crew.call("forward", role="actor", batch=batch, outputs=frozenset({"odds"}), sampling=None)
    with pytest.raises(InputError, match=r"^unknown outputs \['odds'\]: choose among "):
        future.result()


def test_a_loss_that_is_not_finite_stops_every_rank(crew: Crew, batch: PackedBatch) -> None:
    """One bad row is seen by one rank only; the error is its own, not the echo of a broken collective."""
    bad = batch.with_columns(
        tokens={"advantages": np.where(np.arange(batch.tokens) < 12, np.inf, 0).astype(np.float32)}
    )
    with pytest.raises(RunStopped, match="loss term 'policy' is"):
        crew.call("train", role="actor", batch=bad, iteration=0, sampling=SAMPLING).result()


def test_a_worker_that_cannot_be_built_is_an_error_of_opening(host: str) -> None:
    wrong = replace(setup(PROCESSES[host]), device="cuda:7")
    with pytest.raises(InputError, match=r"hardware.device = 'cuda:7' is not on this machine"):
        HOSTS[host](wrong)


def test_closing_twice_is_closing_once(crew: Crew) -> None:
    crew.close()
    crew.close()


# --- processes that die ---------------------------------------------------------------------------


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pids(crew: LocalCrew) -> list[int]:
    return [process.pid for process in crew._processes if process.pid is not None]


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_a_dead_rank_is_named_and_leaves_no_orphan(batch: PackedBatch, busy: bool) -> None:
    """Fault J3: neither the other rank nor the driver waits for it; both are told, and the crew is over."""
    crew = LocalCrew(setup(2))
    ranks = pids(crew)
    if busy:
        future = crew.call("train", role="actor", batch=batch, iteration=0, sampling=SAMPLING)
        queued = [crew.call("train", role="actor", batch=batch, iteration=n, sampling=SAMPLING) for n in range(400)]
        future.result()
        os.kill(ranks[1], signal.SIGKILL)
        future = queued[-1]
        errors = [str(f.exception()) for f in queued if f.exception()]
        assert any("rank 1 ended with exit code -9" in error for error in errors), errors
    else:
        os.kill(ranks[1], signal.SIGKILL)
        future = crew.call("train", role="actor", batch=batch, iteration=0, sampling=SAMPLING)
    started = time.monotonic()
    with pytest.raises(RunStopped, match="rank 1 ended with exit code -9"):
        future.result()
    with pytest.raises(RunStopped, match="the crew has ended"):
        crew.call("steps", role="actor").result()
    crew.close()
    assert time.monotonic() - started < 60
    assert not any(alive(pid) for pid in ranks)


def _driver(pipe: Connection) -> None:
    crew = LocalCrew(setup(2))
    pipe.send(pids(crew))
    samples_of(crew, asked(40, 20))
    pipe.recv()


@pytest.mark.slow
def test_ranks_end_with_their_driver() -> None:
    """Fault J3: a driver that is killed leaves no rank behind, though it could tell none."""
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    driver = context.Process(target=_driver, args=(theirs,))
    driver.start()
    assert ours.poll(120)
    ranks = ours.recv()
    assert len(ranks) == 2 and all(alive(pid) for pid in ranks)
    driver.kill()
    driver.join()
    give_up = time.monotonic() + 60
    while any(alive(pid) for pid in ranks):
        assert time.monotonic() < give_up, "a rank outlives its driver"
        time.sleep(0.05)
