"""Estimates: the reference table, parts that add up, and directions in which time can only go one way."""

from dataclasses import replace

import pytest

from ropewalk.plan.cluster import Gpu
from ropewalk.plan.workload import Lengths, Workload
from ropewalk.planner.estimate.calibration import DEFAULT, REFERENCE, Calibration
from ropewalk.planner.estimate.footprint import footprint
from ropewalk.planner.estimate.place import Link, place
from ropewalk.planner.estimate.roofline import wire
from ropewalk.planner.estimate.work import CallWork, Strategy
from ropewalk.records.errors import InputError
from tests.planner.estimate.estimating import A100, SKEWED, WORKLOAD, cluster, estimated, mixture, seconds, where, work

GENERATION = {(16, 1, 1): 16.01, (8, 1, 2): 16.18, (8, 2, 1): 14.03, (4, 4, 1): 13.41, (2, 8, 1): 14.45}
"""Seconds by (dp, tp, pp): 7B, 512 sequences, 128 + 896 tokens, 16 A100, under the reference constants."""

KINDS = ("generate", "forward", "train")
STRATEGIES = (
    Strategy(16, 1, 1, micro_batches=4),
    Strategy(4, 4, 1, micro_batches=2),
    Strategy(2, 2, 4, micro_batches=8),
    Strategy(8, 2, 1, shard="full", micro_batches=2),
    Strategy(1, 8, 2, micro_batches=16),
)


@pytest.mark.parametrize("cut", GENERATION)
def test_the_reference_table(cut: tuple[int, int, int]) -> None:
    """Within 0.05 %, but 0.25 % for pp 2: there stages lie on two nodes, for ranks are numbered pp slowest."""
    within = 0.0025 if cut[2] > 1 else 0.0005
    assert seconds(work("generate"), Strategy(*cut)) == pytest.approx(GENERATION[cut], rel=within)


def test_two_stages_save_memory_not_time() -> None:
    one, two = Strategy(16, 1, 1), Strategy(8, 1, 2)
    assert seconds(work("generate"), two) > seconds(work("generate"), one)
    assert footprint(work("generate"), one, REFERENCE).active_bytes == pytest.approx(30.7e9, rel=2e-3)
    assert footprint(work("generate"), two, REFERENCE).active_bytes == pytest.approx(23.9e9, rel=2e-3)


def test_small_batches_want_more_tensor_parallelism() -> None:
    few = work("generate", workload=replace(WORKLOAD, prompts=64))
    assert seconds(few, Strategy(2, 8, 1)) == pytest.approx(5.40, rel=0.005)
    assert seconds(few, Strategy(16, 1, 1)) == pytest.approx(9.90, rel=0.005)
    many = work("generate", workload=replace(WORKLOAD, prompts=1024))
    assert seconds(many, Strategy(2, 8, 1)) > min(seconds(many, Strategy(8, 2, 1)), seconds(many, Strategy(4, 4, 1)))


def period(sizes: tuple[str, str], cut: tuple[int, int, int], *, scalar: bool) -> float:
    """Six calls of PPO one after another on all GPUs, each with its best micro-batches and offloading that fit."""
    actor, critic = sizes
    calls = [
        work("generate", actor),
        work("forward", critic, scalar=scalar),
        work("train", actor),
        work("train", critic, scalar=scalar),
        work("forward", actor, trained=False),
        work("forward", critic, scalar=scalar, trained=False),
    ]
    parked = [[False] * 4 + [a, b] for a in (False, True) for b in (False, True)]
    return min(_all_on_all(calls, [Strategy(*cut, offload=offload) for offload in each]) for each in parked)


def _all_on_all(calls: list[CallWork], cuts: list[Strategy]) -> float:
    held = sum(footprint(call, cut, REFERENCE).static_bytes for call, cut in zip(calls, cuts, strict=True))
    room = REFERENCE.usable_share * A100.memory_bytes - held
    return sum(_fastest(call, cut, room) for call, cut in zip(calls, cuts, strict=True))


def _fastest(call: CallWork, cut: Strategy, room: float) -> float:
    times = []
    for power in range(10 if call.kind != "generate" else 1):
        strategy = replace(cut, micro_batches=2**power)
        needs = footprint(call, strategy, REFERENCE)
        copy = needs.active.get("weights copy", 0.0) if call.trained else 0.0
        if needs.active_bytes - copy <= room:
            times.append(seconds(call, strategy))
    return min(times, default=float("inf"))


@pytest.mark.parametrize(
    ("sizes", "cut", "expected"),
    [
        (("7b", "7b"), (1, 8, 2), 58.21),
        (("7b", "34b"), (1, 8, 4), 71.78),
        (("70b", "70b"), (1, 8, 16), 74.34),
        (("7b", "7b"), (8, 2, 1), 45.99),
        (("7b", "34b"), (8, 4, 1), 61.76),
    ],
    ids=str,
)
def test_all_calls_on_all_gpus(sizes: tuple[str, str], cut: tuple[int, int, int], expected: float) -> None:
    """The totals known for these plans charge critic and reward model a vocabulary head: so charged we agree within
    0.5 %. With the scalar head that the cases give them it is up to 1.3 % less."""
    assert period(sizes, cut, scalar=False) == pytest.approx(expected, rel=0.005)
    assert expected * 0.985 < period(sizes, cut, scalar=True) < expected


@pytest.mark.parametrize("constants", [REFERENCE, DEFAULT], ids=lambda c: c.name)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_parts_add_up_and_none_is_negative(kind: str, strategy: Strategy, constants: Calibration) -> None:
    for shape in ("7b", mixture(8, 2)):
        found = estimated(work(kind, shape), strategy, calibration=constants)  # type: ignore[arg-type]
        assert sum(found.parts.values()) == pytest.approx(found.seconds, rel=1e-12)
        assert min(found.parts.values()) >= 0
        assert found.source == "estimated"


def faster(gpu: Gpu, **factors: float) -> Gpu:
    flops = {dtype: value * factors.get("flops", 1.0) for dtype, value in gpu.flops.items()}
    return replace(gpu, flops=flops, memory_bytes_per_second=gpu.memory_bytes_per_second * factors.get("memory", 1.0))


@pytest.mark.parametrize("constants", [REFERENCE, DEFAULT], ids=lambda c: c.name)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_better_hardware_is_never_slower(kind: str, strategy: Strategy, constants: Calibration) -> None:
    for workload in (WORKLOAD, replace(WORKLOAD, generated_tokens=SKEWED)):
        call = work(kind, workload=workload)  # type: ignore[arg-type]
        usual = where(16)
        base = seconds(call, strategy, usual, constants)
        better = [
            replace(usual, gpu=faster(A100, flops=2)),
            replace(usual, gpu=faster(A100, memory=2)),
            replace(usual, inside_bytes_per_second=460e9),
            replace(usual, between_bytes_per_second=50e9),
            replace(usual, inside_latency_seconds=5e-6),
            replace(usual, between_latency_seconds=10e-6),
        ]
        assert all(seconds(call, strategy, at, constants) <= base for at in better)


@pytest.mark.parametrize("kind", KINDS)
def test_halving_the_links_is_never_faster_and_slower_where_they_are_used(kind: str) -> None:
    call, usual = work(kind), where(16)  # type: ignore[arg-type]
    slow = replace(usual, inside_bytes_per_second=115e9, between_bytes_per_second=12.5e9)
    for strategy in STRATEGIES[1:3]:
        assert seconds(call, strategy, slow) > seconds(call, strategy, usual)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_more_work_takes_longer(kind: str, strategy: Strategy) -> None:
    more = [
        replace(WORKLOAD, prompts=1024),
        replace(WORKLOAD, generated_tokens=Lengths.fixed(1792)),
        replace(WORKLOAD, prompt_tokens=Lengths.fixed(512)),
    ]
    base = seconds(work(kind), strategy)  # type: ignore[arg-type]
    assert all(seconds(work(kind, workload=load), strategy) > base for load in more)  # type: ignore[arg-type]


def test_a_batch_that_does_not_divide_is_as_slow_as_the_fullest_rank() -> None:
    for kind in KINDS:
        whole = Workload(512, 1, Lengths.fixed(128), Lengths.fixed(896))
        odd = replace(whole, prompts=497)
        call = work(kind, workload=odd)  # type: ignore[arg-type]
        assert seconds(call, Strategy(16)) == seconds(work(kind, workload=whole), Strategy(16))  # type: ignore[arg-type]


def test_offloaded_weights_come_over_the_host_link() -> None:
    call = work("forward", trained=False)
    here, away = estimated(call, Strategy(16)), estimated(call, Strategy(16, offload=True))
    assert away.seconds - here.seconds == pytest.approx(2 * call.shape.parameters / 25e9)
    assert away.parts["offload"] == pytest.approx(2 * call.shape.parameters / 25e9)
    train = estimated(work("train"), Strategy(16, offload=True)).parts["offload"]
    assert train == pytest.approx(2 * 12 * call.shape.parameters / 16 / 25e9)


def test_a_copy_reads_and_writes_the_weights() -> None:
    call = work("copy", trained=False)
    expected = 2 * 2 * call.shape.parameters / 8 / (0.8 * 2.0e12)
    assert seconds(call, Strategy(1, 8), where(8)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("megabytes", "bus_gigabytes"),
    [(1 / 32, 3.15), (1 / 8, 12.46), (1, 74.57), (4, 145.14), (16, 255.9), (64, 368.86), (256, 441.87), (1024, 465.9)],
)
def test_published_all_reduces(megabytes: float, bus_gigabytes: float) -> None:
    """Of 8 H200 (ml-engineering, network/benchmarks), whose links inside are 450 GB/s: within 10 % over five orders of
    magnitude, if they reach 0.98 of that."""
    size = megabytes * 2**20
    over = wire(Link(450e9, 10e-6, True), 8, replace(DEFAULT, inside_share=0.98))
    assert over.all_reduce(size) == pytest.approx(2 * 7 / 8 * size / (bus_gigabytes * 1e9), rel=0.1)


def test_a_dtype_without_a_figure_is_refused() -> None:
    half = work("train", workload=replace(WORKLOAD, dtype="fp16"))
    with pytest.raises(InputError, match="fp16"):
        seconds(half, Strategy(16))


def test_single_precision_takes_longer_than_half() -> None:
    full = work("train", workload=replace(WORKLOAD, dtype="fp32"))
    assert seconds(full, Strategy(16)) > 4 * seconds(work("train"), Strategy(16))


def test_balance_point_of_an_a100() -> None:
    assert A100.balance("bf16") == pytest.approx(156)


def test_the_same_mesh_anywhere_takes_the_same() -> None:
    there = place(cluster(32), 16, 16)
    assert seconds(work("train"), STRATEGIES[1], there) == seconds(work("train"), STRATEGIES[1], where(16))
