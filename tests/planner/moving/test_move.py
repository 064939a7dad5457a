"""The price of a move is the price of its route, for every pair of meshes, however many are priced at once."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.plan.cluster import Cluster, Gpu, NodeGroup
from ropewalk.plan.layout import Layout
from ropewalk.plan.transfer import LayerBytes, route
from ropewalk.planner.moving import arrays as arrays_move
from ropewalk.planner.moving import kernels as kernels_move
from ropewalk.planner.moving.move import FULL, Count, Geometries, Shares, move_figures, move_table, route_seconds
from ropewalk.records.errors import InputError

GPU = Gpu("some", {"bf16": 1e12}, 1e9, 1e12)
UNIT = 5040

DEGREES = [1, 1, 2, 3, 4, 8]
COUNTS = pytest.mark.parametrize("count", [kernels_move.figures, arrays_move.figures], ids=["loop", "arrays"])


def group(nodes: int, gpus: int, speed: float = 100.0, latency: float = 1e-3) -> NodeGroup:
    return NodeGroup(GPU, nodes, gpus, speed, latency, 1.0)


def cluster(*groups: NodeGroup) -> Cluster:
    return Cluster("some", groups, 7.0, 0.3)


@st.composite
def clusters(draw: st.DrawFn, groups: int = 2) -> Cluster:
    """Up to 32 GPUs; nodes of sizes that tp divides and of sizes that it does not."""
    sizes = [(nodes, gpus) for nodes, gpus in product(range(1, 5), [1, 2, 3, 4, 8]) if nodes * gpus <= 16]
    one = st.tuples(st.sampled_from(sizes), st.sampled_from([100.0, 300.0]), st.sampled_from([1e-3, 2e-3]))
    drawn = draw(st.lists(one, min_size=1, max_size=groups))
    return cluster(*(group(*size, speed, latency) for size, speed, latency in drawn))


@st.composite
def models(draw: st.DrawFn) -> LayerBytes:
    amounts = st.sampled_from([0, UNIT, 3 * UNIT])
    return LayerBytes(draw(st.integers(1, 6)), draw(amounts), draw(amounts), draw(amounts))


@st.composite
def runs(draw: st.DrawFn, gpus: int) -> Layout:
    """A layout on consecutive ranks."""
    fitting = [(dp, tp, pp) for dp, tp, pp in product(DEGREES, repeat=3) if dp * tp * pp <= gpus]
    dp, tp, pp = draw(st.sampled_from(fitting))
    first = draw(st.integers(0, gpus - dp * tp * pp))
    shard = draw(st.sampled_from(["none", "optimizer", "full"]))
    return Layout(tuple(range(first, first + dp * tp * pp)), dp=dp, tp=tp, pp=pp, shard=shard)


@st.composite
def problems(draw: st.DrawFn, groups: int = 2) -> tuple[Cluster, LayerBytes, list[Layout], list[Layout]]:
    where = draw(clusters(groups))
    some = st.lists(runs(where.gpus), min_size=1, max_size=6)
    return where, draw(models()), draw(some), draw(some)


def all_pairs(sources: list[Layout], targets: list[Layout]) -> np.ndarray:
    return np.array([(s, t) for s in range(len(sources)) for t in range(len(targets))], np.int64)


@COUNTS
@given(problem=problems())
def test_figures_are_those_of_the_route(
    problem: tuple[Cluster, LayerBytes, list[Layout], list[Layout]], count: Count
) -> None:
    where, weights, sources, targets = problem
    pairs = all_pairs(sources, targets)
    found = move_figures(
        weights, Geometries.of_layouts(sources), Geometries.of_layouts(targets), pairs, where, count=count
    )
    for (s, t), (received, sent, crosses) in zip(pairs, found, strict=True):
        moved = route(weights, sources[s], targets[t], node_of=where.node_of)
        assert received == pytest.approx(max(moved.received_bytes.values(), default=0.0), rel=1e-12)
        assert sent == pytest.approx(moved.even_sent_bytes, rel=1e-12)
        assert crosses == moved.crosses_nodes(where.node_of)


@given(problem=problems())
def test_the_table_holds_the_price_of_every_route(
    problem: tuple[Cluster, LayerBytes, list[Layout], list[Layout]],
) -> None:
    where, weights, sources, targets = problem
    shares = Shares(0.5, 0.25)
    table = move_table(weights, Geometries.of_layouts(sources), Geometries.of_layouts(targets), where, shares=shares)
    for s, source in enumerate(sources):
        for t, target in enumerate(targets):
            moved = route(weights, source, target, node_of=where.node_of)
            ranks = (*source.ranks, *target.ranks)
            price = route_seconds(weights, moved, where, ranks, shares=shares)
            assert table[s, t] == pytest.approx(price, rel=1e-12)
            assert (table[s, t] == 0) == (not moved.moves)


def candidates(gpus: int, node: int) -> Geometries:
    """Everything on runs of whole nodes and on aligned slices of one."""
    slices = [(first, size) for size in (1, 2, 4) if size < node for first in range(0, gpus, size)]
    whole = [(first, size) for size in range(node, gpus + 1, node) for first in range(0, gpus - size + 1, node)]
    return Geometries.of(
        (first, size // (tp * pp), tp, pp)
        for first, size in slices + whole
        for tp in (1, 2, 4, 8)
        for pp in range(1, 17)
        if size % (tp * pp) == 0
    )


MODEL = LayerBytes(80, 1_711_276_032, 524_288_000, 524_304_384)
NODES = Cluster("four nodes", (NodeGroup(GPU, 4, 8, 230e9, 10e-6, 25e9),), 25e9, 20e-6)


def test_a_thousand_pairs_of_a_real_space_are_priced_as_their_routes(grid_seed: int) -> None:
    rng = np.random.default_rng(grid_seed)
    meshes = candidates(32, 8)
    table = move_table(MODEL, meshes, meshes, NODES)
    layouts = [
        Layout(tuple(range(first, first + dp * tp * pp)), dp=dp, tp=tp, pp=pp)
        for first, dp, tp, pp in zip(
            *(a.tolist() for a in (meshes.first, meshes.dp, meshes.tp, meshes.pp)), strict=True
        )
    ]
    for s, t in rng.integers(len(meshes), size=(1000, 2)):
        moved = route(MODEL, layouts[s], layouts[t], node_of=NODES.node_of)
        price = route_seconds(MODEL, moved, NODES, (*layouts[s].ranks, *layouts[t].ranks))
        assert table[s, t] == pytest.approx(price, rel=1e-12)


def test_a_part_of_the_candidates_has_a_part_of_the_table(grid_seed: int) -> None:
    rng = np.random.default_rng(grid_seed)
    meshes = candidates(32, 8)
    table = move_table(MODEL, meshes, meshes, NODES)
    s, t = (rng.choice(len(meshes), 40, replace=False) for _ in range(2))
    chosen = [
        Geometries.of(zip(*(a[rows].tolist() for a in (meshes.first, meshes.dp, meshes.tp, meshes.pp)), strict=True))
        for rows in (s, t)
    ]
    np.testing.assert_array_equal(move_table(MODEL, *chosen, NODES), table[np.ix_(s, t)])


def test_compiled_and_array_figures_agree_on_a_real_space(grid_seed: int) -> None:
    rng = np.random.default_rng(grid_seed)
    meshes = candidates(64, 8)
    where = replace(NODES, groups=(replace(NODES.groups[0], nodes=8),))
    pairs = rng.integers(len(meshes), size=(2000, 2))
    loop, arrays = (
        move_figures(MODEL, meshes, meshes, pairs, where, count=c) for c in (kernels_move.figures, arrays_move.figures)
    )
    np.testing.assert_allclose(loop, arrays, rtol=1e-12)


@given(problem=problems(groups=1), shift=st.integers(1, 3))
def test_moving_both_meshes_by_whole_nodes_changes_nothing(
    problem: tuple[Cluster, LayerBytes, list[Layout], list[Layout]], shift: int
) -> None:
    where, weights, sources, targets = problem
    nodes = where.groups[0]
    larger = cluster(replace(nodes, nodes=nodes.nodes + shift))
    tables = [
        move_table(weights, *(Geometries.of_layouts(moved(layout, by) for layout in side) for side in sides), larger)
        for sides in [(sources, targets)]
        for by in (0, shift * nodes.gpus_per_node)
    ]
    np.testing.assert_array_equal(*tables)


def moved(layout: Layout, by: int) -> Layout:
    return replace(layout, ranks=tuple(rank + by for rank in layout.ranks))


@given(problem=problems())
def test_only_a_mesh_that_keeps_its_layout_moves_for_nothing(
    problem: tuple[Cluster, LayerBytes, list[Layout], list[Layout]],
) -> None:
    where, weights, sources, _ = problem
    meshes = Geometries.of_layouts(sources)
    assert not move_table(weights, meshes, meshes, where).diagonal().any()


def test_the_same_strategy_on_other_ranks_is_not_free() -> None:
    here, there = Geometries.of([(0, 1, 8, 1)]), Geometries.of([(8, 1, 8, 1)])
    assert move_table(MODEL, here, there, NODES)[0, 0] == pytest.approx(MODEL.total_bytes / 8 / 25e9 + 80 * 20e-6)


@given(problem=problems(), middle=st.data())
def test_no_detour_spares_the_busiest_receiver_anything(
    problem: tuple[Cluster, LayerBytes, list[Layout], list[Layout]], middle: st.DataObject
) -> None:
    where, weights, sources, targets = problem
    a, b, c = (Geometries.of_layouts([layout]) for layout in (sources[0], middle.draw(runs(where.gpus)), targets[0]))
    only = np.zeros((1, 2), np.int64)
    direct, first, second = (
        move_figures(weights, *ends, only, where)[0, kernels_move.RECEIVED] for ends in ((a, c), (a, b), (b, c))
    )
    assert direct <= (first + second) * (1 + 1e-12)


@pytest.mark.parametrize(("target", "inside"), [((4, 1, 4, 1), True), ((8, 1, 4, 1), False)])
def test_half_the_bandwidth_is_twice_the_time_beside_the_latency(
    target: tuple[int, int, int, int], inside: bool
) -> None:
    ends = Geometries.of([(0, 1, 4, 1)]), Geometries.of([target])
    latency = MODEL.layers * (10e-6 if inside else 20e-6)
    half = Shares(0.5, 1.0) if inside else Shares(1.0, 0.5)
    one, two = (move_table(MODEL, *ends, NODES, shares=shares)[0, 0] - latency for shares in (FULL, half))
    assert two == pytest.approx(2 * one)


def test_no_candidates_make_an_empty_table() -> None:
    none, one = Geometries.of([]), Geometries.of([(0, 1, 1, 1)])
    assert move_table(MODEL, none, one, NODES).shape == (0, 1)
    assert move_table(MODEL, one, none, NODES).shape == (1, 0)


def test_a_mesh_beyond_the_cluster_is_refused() -> None:
    with pytest.raises(InputError, match="beyond cluster 'four nodes' of 32 GPUs"):
        move_table(MODEL, Geometries.of([(31, 2, 1, 1)]), Geometries.of([(0, 1, 1, 1)]), NODES)


@pytest.mark.parametrize("layout", [Layout((0, 2), dp=2), Layout((1, 0), tp=2), Layout((0, 1), dp=2, ep=2)])
def test_ranks_that_do_not_follow_each_other_have_no_price(layout: Layout) -> None:
    with pytest.raises(InputError, match="give it consecutive ranks and ep 1"):
        Geometries.of_layouts([layout])
