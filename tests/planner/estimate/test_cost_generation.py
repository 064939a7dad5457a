"""Generation: skewed lengths as a sum over steps, pipelines, waves, key-value heads, launches."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.plan.sizes import SIZES, shape_of
from ropewalk.plan.workload import Lengths, Workload
from ropewalk.planner.estimate.alive import MOST_STRETCHES, fullest, stretches
from ropewalk.planner.estimate.calibration import DEFAULT, REFERENCE
from ropewalk.planner.estimate.generation import engine_of, generation
from ropewalk.planner.estimate.layer import layer
from ropewalk.planner.estimate.readings import NOTHING, Readings
from ropewalk.planner.estimate.roofline import inner, projections
from ropewalk.planner.estimate.work import Strategy
from tests.planner.estimate.estimating import SKEWED, WORKLOAD, estimated, seconds, tiny, where, work

LENGTHS = st.lists(st.tuples(st.integers(1, 40), st.floats(0.1, 5)), min_size=1, max_size=5, unique_by=lambda x: x[0])


def histogram(pairs: list[tuple[int, float]]) -> Lengths:
    return Lengths(tuple(t for t, _ in pairs), tuple(w for _, w in pairs))


def test_a_histogram_of_one_length_is_that_length() -> None:
    one = replace(WORKLOAD, generated_tokens=Lengths((896, 5000), (3.0, 0.0)))
    for strategy in (Strategy(16), Strategy(4, 2, 2), Strategy(8, 2, micro_batches=4)):
        assert seconds(work("generate", workload=one), strategy) == pytest.approx(
            seconds(work("generate"), strategy), rel=1e-12
        )


@settings(deadline=None, max_examples=30)
@given(LENGTHS, st.integers(1, 4), st.integers(1, 30))
def test_stretches_are_the_sum_over_single_steps(pairs: list[tuple[int, float]], replicas: int, b: int) -> None:
    """Steps, tokens and tokens x context of all stretches are those of a loop over the steps."""
    lengths = histogram(pairs)
    steps = tokens = context = 0.0
    for step in range(lengths.longest):
        present, most = fullest(replicas, b, min(1.0, lengths.alive(step)))
        steps, tokens, context = steps + present, tokens + most, context + most * (step + 0.5)
    found = stretches(lengths, replicas, b)
    assert sum(one.steps for one in found) == pytest.approx(steps)
    assert sum(one.steps * one.sequences for one in found) == pytest.approx(tokens)
    assert sum(one.steps * one.sequences * one.generated for one in found) == pytest.approx(context)


@settings(deadline=None, max_examples=20)
@given(LENGTHS)
def test_time_is_the_sum_over_single_steps(pairs: list[tuple[int, float]]) -> None:
    """A loop of one-token stretches takes the same, for time is linear in the context within a stretch."""
    lengths = histogram(pairs)
    whole = Workload(64, 1, Lengths.fixed(16), lengths)
    total = estimated(work("generate", workload=whole), Strategy(2)).seconds
    loop = 0.0
    for step in range(lengths.longest):
        present, most = fullest(2, 32, min(1.0, lengths.alive(step)))
        loop += present * one_step(16 + step + 0.5, most / present)
    assert total - prefill(whole) == pytest.approx(loop, rel=1e-9)


def one_step(context: float, sequences: float) -> float:
    engine = engine_of(work("generate"), Strategy(2), where(2), REFERENCE)
    return sum(engine.step(sequences, context, Readings(NOTHING)))


def prefill(workload: Workload) -> float:
    none = replace(workload, generated_tokens=Lengths.fixed(0))
    return estimated(work("generate", workload=none), Strategy(2)).seconds


@pytest.mark.parametrize(("replicas", "b", "share"), [(1, 8, 0.3), (4, 8, 0.3), (16, 32, 0.05), (3, 5, 0.9)])
def test_the_fullest_replica_is_the_largest_of_binomials(replicas: int, b: int, share: float) -> None:
    drawn = np.random.default_rng(0).binomial(b, share, size=(200_000, replicas)).max(axis=1)
    present, most = fullest(replicas, b, share)
    assert most == pytest.approx(drawn.mean(), rel=0.01)
    assert present == pytest.approx((drawn > 0).mean(), rel=0.01)


def test_the_fullest_replica_grows_with_their_number_up_to_all() -> None:
    most = [fullest(replicas, 64, 0.5)[1] for replicas in (1, 2, 8, 64, 4096)]
    assert most[0] == 32 and most == sorted(most) and most[-1] < 64
    assert fullest(7, 64, 1.0) == (1.0, 64)


def test_skew_takes_longer_than_its_mean_and_less_than_its_longest() -> None:
    lengths = Lengths((128, 512, 4096), (6.0, 3.0, 1.0))
    for strategy in (Strategy(16), Strategy(4, 4), Strategy(4, 2, 2)):
        skewed, mean, longest = (
            seconds(work("generate", workload=replace(WORKLOAD, generated_tokens=each)), strategy)
            for each in (lengths, Lengths.fixed(round(lengths.mean)), Lengths.fixed(4096))
        )
        assert mean < skewed < longest


def test_the_tail_of_a_batch_wants_tensor_parallelism() -> None:
    """By the mean length tp 2 is best on 16 GPUs; with a long tail of few sequences more is."""
    lengths = Lengths((256, 8192), (0.98, 0.02))
    load = replace(WORKLOAD, generated_tokens=lengths)
    mean = replace(WORKLOAD, generated_tokens=Lengths.fixed(round(lengths.mean)))
    cuts = [Strategy(16), Strategy(8, 2), Strategy(4, 4), Strategy(2, 8)]
    best = [min(cuts, key=lambda cut: seconds(work("generate", workload=each), cut)).tp for each in (mean, load)]
    assert best[1] > best[0]


def test_long_histograms_are_merged_without_losing_tokens() -> None:
    lengths = Lengths(tuple(range(1, 2001)), tuple(1.0 + (i % 7) for i in range(2000)))
    merged = stretches(lengths, 1, 100)
    assert len(merged) <= MOST_STRETCHES
    assert sum(one.steps * one.sequences for one in merged) == pytest.approx(100 * lengths.mean)


def test_waves_are_rounds_of_smaller_batches() -> None:
    """Equal lengths: w waves take w times as long as 1/w of the sequences."""
    for waves in (2, 4, 8):
        part = replace(WORKLOAD, prompts=WORKLOAD.prompts // waves)
        whole = seconds(work("generate"), Strategy(8, 2, micro_batches=waves))
        assert whole == pytest.approx(waves * seconds(work("generate", workload=part), Strategy(8, 2)))


def test_more_slots_are_faster_and_never_below_the_work_there_is() -> None:
    load = replace(WORKLOAD, generated_tokens=SKEWED)
    times = [seconds(work("generate", workload=load), Strategy(4, 4, micro_batches=w)) for w in (1, 2, 4, 8, 16)]
    assert times == sorted(times)


def test_cache_reading_is_shared_by_no_more_ranks_than_key_value_heads() -> None:
    """Twice the ranks halve what attention takes up to the number of key-value heads, and not beyond."""
    call, at = work("generate", "34b"), where(16)
    reading = {tp: layer(call, Strategy(1, tp), at, REFERENCE).cached(32, 1000) for tp in (1, 2, 4, 8, 16)}
    assert reading[1] == 2 * reading[2] == 4 * reading[4] == 8 * reading[8]
    assert reading[16] == reading[8]


def test_the_sampler_is_not_divided_by_tp() -> None:
    parts = [estimated(work("generate"), Strategy(1, tp), where(tp)).parts["sampler"] for tp in (1, 2, 8)]
    assert parts[0] == parts[1] == parts[2]


def test_launches_are_a_floor_without_captured_graphs() -> None:
    eager = replace(REFERENCE, graph_decode=False)
    few = work("generate", tiny(layers=32), workload=replace(WORKLOAD, prompts=16))
    steps = 896 * 32 * eager.layer_kernels * eager.launch_seconds
    assert seconds(few, Strategy(16), calibration=eager) > steps > seconds(few, Strategy(16))
    assert seconds(work("generate", "70b"), Strategy(1, 2), where(2), eager) == seconds(
        work("generate", "70b"), Strategy(1, 2), where(2)
    )


def test_host_time_hides_behind_groups_in_flight() -> None:
    assert estimated(work("generate"), Strategy(16)).parts["host"] == pytest.approx(896 * REFERENCE.step_host_seconds)
    assert estimated(work("generate"), Strategy(8, 1, 2)).parts["host"] < 896 * REFERENCE.step_host_seconds


def test_a_pipeline_with_fewer_sequences_than_stages_waits() -> None:
    one = replace(WORKLOAD, prompts=1, minibatches=1)
    parts = estimated(work("generate", workload=one), Strategy(1, 1, 8), where(8)).parts
    alone = estimated(work("generate", workload=one), Strategy(1), where(1)).parts
    assert parts["decode"] < alone["decode"] / 6
    assert parts["decode"] + parts["bubble"] == pytest.approx(alone["decode"], rel=0.05)


def test_samples_of_a_group_share_their_prompt_where_the_engine_does() -> None:
    grouped = replace(WORKLOAD, prompts=64, group_size=8, prompt_tokens=Lengths.fixed(4096))
    shared, apart = (
        generation(work("generate", workload=grouped), Strategy(8), where(8), constants)[0]["prefill"]
        for constants in (DEFAULT, replace(DEFAULT, shared_prompts=False))
    )
    assert shared < 0.2 * apart


@pytest.mark.parametrize("name", SIZES)
def test_products_of_a_layer_are_its_matrices(name: str) -> None:
    """Inputs x outputs of all products are the matrices that the size counts, but for norms, biases and the router."""
    shape = shape_of(name)
    weights = sum(k * n for k, n in projections(shape, 1))
    assert weights == pytest.approx(shape.attention_parameters, rel=1e-3)
    dense = sum(k * n for k, n in inner(shape, shape.ffn, 1))
    assert weights + dense == pytest.approx(shape.dense_layer_parameters, rel=1e-3)


def test_latent_attention_keeps_one_narrow_cache_on_every_rank() -> None:
    call = work("generate", "deepseek-v3")
    reading = {tp: layer(call, Strategy(1, tp), where(16), REFERENCE).cache_bytes for tp in (1, 8)}
    assert reading[1] == reading[8] == 2 * (512 + 64)
