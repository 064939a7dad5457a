"""Footprints: the formulas of the reference exactly, states of known jobs, what each choice moves or divides."""

from dataclasses import replace

import pytest

from ropewalk.plan.graph import Kind
from ropewalk.plan.sizes import shape_of
from ropewalk.plan.workload import Lengths
from ropewalk.planner.estimate.calibration import DEFAULT, REFERENCE
from ropewalk.planner.estimate.footprint import Footprint, footprint
from ropewalk.planner.estimate.work import CallWork, Strategy
from ropewalk.planner.price.held import adapter_parameters
from tests.planner.estimate.estimating import SKEWED, WORKLOAD, tiny, work

CUTS = [(1, 1, 1), (4, 2, 2), (2, 8, 1), (1, 8, 16), (8, 1, 4)]


def need(call: CallWork, strategy: Strategy) -> Footprint:
    return footprint(call, strategy, REFERENCE)


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("m", [1, 4, 16])
def test_training_by_the_formula(cut: tuple[int, int, int], m: int) -> None:
    """4 P / (tp pp) + 12 P / (tp pp dp); 2 n h L/pp min(m, pp) / tp + 40 n h / tp + 10 n V / tp."""
    dp, tp, pp = cut
    call = work("train")
    found, shape = need(call, Strategy(dp, tp, pp, micro_batches=m)), call.shape
    p, n = shape.parameters, 128 / dp * 1024 / m
    assert found.static_bytes == pytest.approx(4 * p / (tp * pp) + 12 * p / (tp * pp * dp))
    kept = 2 * n * 4096 * 32 / pp * min(m, pp) / tp + 40 * n * 4096 / tp
    assert found.active == pytest.approx({"activations": kept, "logits": 10 * n * 32_000 / tp})


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_generation_by_the_formula(cut: tuple[int, int, int]) -> None:
    """2 P / (tp pp) + b S 4 kv / min(tp, kv heads) L/pp + logits."""
    dp, tp, pp = cut
    call = work("generate", "34b")
    found, b = need(call, Strategy(*cut)), 512 // dp
    assert found.static == {}
    assert found.active["weights copy"] == pytest.approx(2 * call.shape.parameters / (tp * pp))
    assert found.active["KV"] == pytest.approx(b * 1024 * 4 * 1024 / min(tp, 8) * 48 / pp)
    assert found.active["logits"] == pytest.approx(4 * b / min(pp, b) * 32_000)


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_forward_by_the_formula(cut: tuple[int, int, int]) -> None:
    """2 P / (tp pp), static at the home of a frozen role, else a copy; 20 n h / tp; a chunk of logits."""
    dp, tp, pp = cut
    frozen, n = work("forward", trained=False), 512 / dp * 1024 / 8
    found = need(frozen, Strategy(*cut, micro_batches=8))
    weights = 2 * frozen.shape.parameters / (tp * pp)
    assert found.static == pytest.approx({"parameters": weights})
    assert found.active["activations"] == pytest.approx(20 * n * 4096 / tp)
    assert found.active["logits"] == pytest.approx(6 * min(n * 32_000, 2**25) / tp)
    away = need(frozen, Strategy(*cut, micro_batches=8, offload=True))
    assert away.static == {} and away.active == pytest.approx(found.active | {"weights copy": weights})
    for copied in (work("forward"), work("forward", trained=False, home=False)):
        assert need(copied, Strategy(*cut, micro_batches=8)) == away


def states(size: str | int, trained: int, frozen: int) -> float:
    """Bytes on one GPU of so many trained and frozen models, with `size` parameters if that is a number."""
    shape = shape_of(size) if isinstance(size, str) else exactly(size)
    held = [need(work("train", shape), Strategy())] * trained
    held += [need(work("forward", shape, trained=False), Strategy())] * frozen
    return sum(one.static_bytes for one in held)


def exactly(parameters: int) -> object:
    """A shape with that many parameters: a width of 1000, and a feed-forward part that fills up."""
    shape = tiny(vocabulary=1, width=1000, heads=1, kv_heads=1, head_dim=1000, layers=1, ffn=1, tied=True)
    missing = parameters - shape.parameters
    return replace(shape, ffn=1 + missing // 3000, vocabulary=1 + missing % 3000 // 1000)


@pytest.mark.parametrize(
    ("billions", "trained", "frozen", "expected"),
    [(7, 2, 2, 252e9), (7, 1, 2, 140e9), (7, 1, 1, 126e9), (70, 2, 2, 2520e9)],
)
def test_states_of_known_jobs(billions: int, trained: int, frozen: int, expected: float) -> None:
    """PPO with four 7B models holds 112 + 112 + 14 + 14 GB, GRPO with a reward model 140, with a rule 126."""
    assert states(billions * 10**9, trained, frozen) == pytest.approx(expected, rel=1e-9)


def test_sharding_divides_by_replicas() -> None:
    p = work("train").shape.parameters
    none, one, full = (need(work("train"), Strategy(8, 2, shard=s)) for s in ("none", "optimizer", "full"))
    assert none.static_bytes == pytest.approx(16 * p / 2)
    assert one.static_bytes == pytest.approx(4 * p / 2 + 12 * p / 16)
    assert full.static_bytes == pytest.approx(16 * p / 16)
    assert full.active["gathered layers"] > 0


def test_offloading_the_optimizer_makes_it_pass_by() -> None:
    here, away = need(work("train"), Strategy(8)), need(work("train"), Strategy(8, offload=True))
    assert away.static_bytes == here.static_bytes - here.static["optimizer"]
    assert away.active["optimizer"] == here.static["optimizer"]


def test_adapters_hold_states_of_their_own_only() -> None:
    held = []
    for rank in (1, 8, 64):
        call = work("train", workload=replace(WORKLOAD, lora_rank={"actor": rank}))
        found = need(call, Strategy())
        small = adapter_parameters(call.shape, rank)
        assert found.static_bytes == pytest.approx(2 * call.shape.parameters + 16 * small)
        held.append(found.static_bytes)
    assert held == sorted(held) and held[-1] < need(work("train"), Strategy()).static_bytes / 4


def test_recomputation_saves_activations() -> None:
    again, kept = (need(work("train"), Strategy(8, recompute=flag)).active["activations"] for flag in (True, False))
    assert again < kept / 5


def test_more_micro_batches_never_need_more() -> None:
    for kind in ("forward", "train", "generate"):
        call = work(kind)  # type: ignore[arg-type]
        sizes = [need(call, Strategy(4, 2, 2, micro_batches=m)).active_bytes for m in (2, 4, 8, 16, 32)]
        assert sizes == sorted(sizes, reverse=True)


def test_skewed_lengths_hold_less_than_their_longest() -> None:
    longest = need(work("generate", workload=replace(WORKLOAD, generated_tokens=Lengths.fixed(896))), Strategy(4))
    skewed = need(work("generate", workload=replace(WORKLOAD, generated_tokens=SKEWED)), Strategy(4))
    short = need(work("generate", workload=replace(WORKLOAD, generated_tokens=Lengths.fixed(64))), Strategy(4))
    assert short.active["KV"] < skewed.active["KV"] < longest.active["KV"]


def test_workspace_is_on_every_gpu_that_runs_a_call() -> None:
    for kind in ("generate", "forward", "train", "copy"):
        found = footprint(work(kind), Strategy(8), DEFAULT)  # type: ignore[arg-type]
        assert found.active["workspace"] == DEFAULT.workspace_bytes
        assert found.active_bytes == pytest.approx(sum(found.active.values()))


def test_single_precision_holds_as_much_in_training_and_twice_as_much_frozen() -> None:
    full = replace(WORKLOAD, dtype="fp32")
    assert need(work("train", workload=full), Strategy()).static_bytes == need(work("train"), Strategy()).static_bytes
    frozen = [need(work("forward", trained=False, workload=load), Strategy()).static_bytes for load in (full, WORKLOAD)]
    assert frozen[0] == 2 * frozen[1]


@pytest.mark.parametrize("kind", ["train", "forward"])
@pytest.mark.parametrize("m", [1, 4, 64])
def test_the_longest_sequence_has_room_in_a_micro_batch(kind: Kind, m: int) -> None:
    """However seldom it is, it comes: then its micro-batch is at least as large as it is."""
    rare = replace(WORKLOAD, generated_tokens=Lengths((10, 30_000), (1e6, 1.0)))
    always = replace(WORKLOAD, prompts=64, minibatches=1, generated_tokens=Lengths.fixed(30_000))
    found = need(work(kind, workload=rare), Strategy(dp=1, micro_batches=m))
    alone = need(work(kind, workload=always), Strategy(dp=1, micro_batches=64))
    for item in ("activations", "logits"):
        assert found.active[item] >= alone.active[item] * (1 - 1e-12)
