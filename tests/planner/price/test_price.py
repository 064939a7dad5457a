"""Prices: proportional to what they should be, split into shares that sum to one, never a single guess."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ropewalk.plan.cluster import Gpu
from ropewalk.planner.price.figure import Figure
from ropewalk.planner.price.flops import PARTS
from ropewalk.planner.price.held import adapter_parameters, held
from ropewalk.planner.price.job_price import Assumptions, Job, mfu_hours, price
from ropewalk.records.errors import InputError
from tests.planner.price.pricing import A100, GRAPHS, GRPO_GRAPH, H100, LLAMA_7B, MIXTURE, PPO_GRAPH, SFT_GRAPH, SMALL

SHARE = some.floats(0.01, 1.0)


def job(name: str = "grpo", **changes: object) -> Job:
    graph = GRAPHS[name]
    generated = 896.0 if graph.of_kind("generate") else 0.0
    shapes = dict.fromkeys(graph.roles, SMALL)
    start = Job(graph, shapes, rows=800_000, row_tokens=1024, generated_tokens=generated, passes=3)
    return replace(start, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["sft", "ppo", "grpo"])
@given(low=SHARE, ratio=some.floats(0.1, 1.0))
def test_hours_are_inverse_to_mfu(name: str, low: float, ratio: float) -> None:
    mfu = Figure(low * ratio, low, "assumed")
    found = price(job(name), A100, gpus=8, assumptions=Assumptions(mfu=mfu, retry=0.0))
    total = found.flops / (312e12 * 3600)
    assert found.by_mfu.low == pytest.approx(total / mfu.high)
    assert found.by_mfu.high == pytest.approx(total / mfu.low)


@given(gpus=some.integers(1, 4096), retry=some.floats(0, 3))
def test_days_are_inverse_to_gpus_and_hours_grow_with_retries(gpus: int, retry: float) -> None:
    given_ = Assumptions(retry=retry)
    one, many = (price(job(), A100, gpus=count, assumptions=given_) for count in (1, gpus))
    assert many.gpu_hours == one.gpu_hours
    assert many.days.high * gpus == pytest.approx(one.days.high)
    useful = price(job(), A100, gpus=1, assumptions=Assumptions(retry=0.0))
    assert one.gpu_hours.low == pytest.approx((1 + retry) * useful.gpu_hours.low)
    assert one.dollars is not None and one.dollars.high == pytest.approx(2.0 * one.gpu_hours.high)


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_shares_sum_to_one_and_figures_to_the_whole(name: str) -> None:
    found = price(job(name), H100, gpus=16)
    for shares in (found.flops_shares(), *found.time_shares()):
        assert tuple(shares) == PARTS
        assert sum(shares.values()) == pytest.approx(1)
    assert sum(part.flops for part in found.parts) == pytest.approx(found.flops)
    assert found.by_mfu.low < found.by_mfu.high


def test_flops_are_factor_times_active_parameters_times_tokens() -> None:
    assert price(job("sft"), A100, gpus=1).flops == pytest.approx(6 * SMALL.parameters * 800_000 * 1024 * 3)
    sparse = job("sft", shapes={"actor": MIXTURE})
    assert price(sparse, A100, gpus=1).flops == pytest.approx(6 * MIXTURE.active_parameters * sparse.tokens)
    assert MIXTURE.active_parameters < MIXTURE.parameters and SMALL.active_parameters == SMALL.parameters


def test_what_is_decoded_costs_more_than_its_mfu_says_when_few_sequences_share_a_step() -> None:
    few = price(job(), A100, gpus=8, assumptions=Assumptions(batch=4))
    many = price(job(), A100, gpus=8, assumptions=Assumptions(batch=64))
    assert few.by_mfu == many.by_mfu
    assert few.gpu_hours.low > many.gpu_hours.low > 0
    assert few.gpu_hours.low > few.by_mfu.high
    nothing = price(job("sft"), A100, gpus=8)
    assert nothing.gpu_hours == nothing.by_mfu and nothing.engine is None


def test_rollout_by_the_roofline_is_prefill_and_steps() -> None:
    certain = Figure.of(1.0, "assumed")
    given_ = Assumptions(mfu=certain, bandwidth=certain, kernels=certain, retry=0.0, batch=8)
    found = price(job(rows=8, passes=1), A100, gpus=1, assumptions=given_)
    step = (2 * SMALL.parameters + 8 * (128 + 448) * 2 * 28 * 4 * 128 * 2) / 2.0e12
    prefill = 2 * SMALL.parameters * 8 * 128 / 312e12
    assert found.parts[0].gpu_hours.high * 3600 == pytest.approx(896 * step + prefill)


def test_known_states() -> None:
    seven = LLAMA_7B.parameters / 7e9
    for name, gigabytes in (("sft", 112), ("ppo", 252), ("grpo", 126), ("grpo-learned", 140)):
        states = held(GRAPHS[name], dict.fromkeys(GRAPHS[name].roles, LLAMA_7B))
        assert states.bytes / seven == pytest.approx(gigabytes * 1e9)
    states = held(GRPO_GRAPH, dict.fromkeys(GRPO_GRAPH.roles, SMALL))
    assert (states.bytes + states.engine_copy_bytes) / 1e9 == pytest.approx(152, rel=0.01)


@given(some.integers(1, 1024))
def test_sharding_everything_never_holds_more_than_sharding_the_optimizer(gpus: int) -> None:
    states = held(PPO_GRAPH, dict.fromkeys(PPO_GRAPH.roles, LLAMA_7B))
    assert states.sharded_bytes(gpus) <= states.zero1_bytes(gpus) <= states.bytes
    alone = held(SFT_GRAPH, {"actor": LLAMA_7B})
    assert alone.zero1_bytes(gpus) == pytest.approx(LLAMA_7B.parameters * (4 + 12 / gpus))


@pytest.mark.parametrize("gpu", [A100, replace(H100, memory_bytes=141e9)], ids=lambda gpu: gpu.name)
def test_the_fewest_gpus_hold_the_states_and_one_fewer_does_not(gpu: Gpu) -> None:
    states = held(PPO_GRAPH, dict.fromkeys(PPO_GRAPH.roles, LLAMA_7B))
    fewest = states.fewest_gpus(gpu)
    assert states.fits(gpu, fewest) and not states.fits(gpu, fewest - 1)


def test_adapters_hold_the_base_once_and_train_little() -> None:
    rank = 16
    d, q, kv, f = SMALL.width, 28 * 128, 4 * 128, SMALL.ffn
    each = (d + q) + 2 * (d + kv) + (q + d) + 3 * (d + f)
    assert adapter_parameters(SMALL, rank) == rank * SMALL.layers * each
    states = held(SFT_GRAPH, {"actor": SMALL}, {"actor": rank})
    assert states.bytes == pytest.approx(2 * SMALL.parameters + 16 * rank * SMALL.layers * each)
    adapted = price(job("sft", lora_rank={"actor": rank}), A100, gpus=1)
    assert adapted.flops == pytest.approx(price(job("sft"), A100, gpus=1).flops * 4 / 6)


def test_three_thousand_hours_are_nine_hundred() -> None:
    tokens = 100e3 * 8 * 1024 * 3
    hours = mfu_hours(3.5 * 6 * 7e9 * tokens, A100, Figure.of(0.35, "assumed"))
    assert hours.low == pytest.approx(919, abs=0.5)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rows": 0}, "the number of rows must be above 0, got 0"),
        ({"row_tokens": -1.0}, "the tokens of a row must be above 0"),
        ({"rows": float("nan")}, "got nan"),
        ({"passes": 0}, "passes must be above 0"),
        ({"generated_tokens": 2048.0}, "2048 cannot be generated"),
    ],
)
def test_an_impossible_job_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        job(**wrong)


def test_impossible_assumptions_are_refused() -> None:
    with pytest.raises(InputError, match=r"at most 1, got 0\.3 to 1\.2"):
        Assumptions(mfu=Figure(0.3, 1.2))
    with pytest.raises(InputError, match="above 0"):
        Assumptions(mfu=Figure(0.0, 0.2))
    with pytest.raises(InputError, match="swap them"):
        Figure(0.5, 0.3)
    with pytest.raises(InputError, match="retry budget"):
        Assumptions(retry=-0.1)
    with pytest.raises(InputError, match="at least 1 GPU"):
        price(job(), A100, gpus=0)
