"""A route gives every rank of the target exactly what it lacks, from holders, with the fewest bytes."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.plan.layout import Layout
from ropewalk.plan.shape import Experts, ModelShape
from ropewalk.plan.transfer import Held, LayerBytes, Route, held, route
from ropewalk.records.errors import InputError

RANKS = 40
GRID = 144
"""A multiple of every grid below, and a divisor of every row's bytes: all sums are whole numbers."""

Cell = tuple[int, int]

DEGREES = st.sampled_from([1, 1, 2, 3, 4])
SHARDS = st.sampled_from(["none", "optimizer", "full"])
NODES = st.sampled_from([1, 2, 4, 6, 8, 64])


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Up to 36 ranks anywhere, in any order."""
    dp, tp, pp = draw(st.tuples(DEGREES, DEGREES, DEGREES).filter(lambda d: d[0] * d[1] * d[2] <= RANKS))
    ranks = draw(st.permutations(range(RANKS)))[: dp * tp * pp]
    return Layout(tuple(ranks), dp=dp, tp=tp, pp=pp, shard=draw(SHARDS))


@st.composite
def models(draw: st.DrawFn) -> LayerBytes:
    amounts = st.sampled_from([0, GRID, 5 * GRID])
    return LayerBytes(draw(st.integers(1, 6)), draw(amounts), draw(amounts), draw(amounts))


def node_by(size: int) -> Callable[[int], int]:
    return lambda rank: rank // size


def cells(box: Held) -> set[Cell]:
    wide = box.on(GRID)
    return {(row, cut) for row in range(wide.first, wide.stop) for cut in range(wide.left, wide.right)}


def size(weights: LayerBytes, some: set[Cell]) -> float:
    return sum((weights.before(row + 1) - weights.before(row)) // GRID for row, _ in some)


def by_rank(weights: LayerBytes, layout: Layout) -> dict[int, set[Cell]]:
    return {rank: cells(box) for rank, box in held(weights, layout).items()}


def real(weights: LayerBytes, some: set[Cell]) -> set[Cell]:
    """Without rows of no bytes."""
    return {cell for cell in some if size(weights, {cell})}


@given(models(), layouts())
def test_a_layout_holds_the_model_once_per_replica(weights: LayerBytes, layout: Layout) -> None:
    count = dict.fromkeys(((row, cut) for row in range(weights.rows) for cut in range(GRID)), 0)
    for box in by_rank(weights, layout).values():
        for cell in box:
            count[cell] += 1
    assert set(count.values()) == {1 if layout.shard == "full" else layout.dp}


def test_ranks_are_numbered_tp_first_then_dp_then_pp() -> None:
    boxes = held(LayerBytes(5, GRID), Layout(tuple(range(8)), dp=2, tp=2, pp=2))
    places = [(box.first, box.left) for box in boxes.values()]
    assert places == [(0, 0), (0, 1), (0, 0), (0, 1), (4, 0), (4, 1), (4, 0), (4, 1)]


def test_dp_splits_the_slice_of_a_tp_rank_when_fully_sharded() -> None:
    boxes = held(LayerBytes(1, GRID), Layout(tuple(range(4)), dp=2, tp=2, shard="full"))
    assert [Fraction(box.left, box.grid) for box in boxes.values()] == [Fraction(k, 4) for k in (0, 2, 1, 3)]


@given(st.integers(1, 40), st.integers(1, 12))
def test_stages_differ_by_one_layer_and_the_first_have_more(layers: int, pp: int) -> None:
    weights = LayerBytes(layers, 1)
    rows = [weights.stage(stage, pp) for stage in range(pp)]
    assert [first for first, _ in rows] == [0, *(stop for _, stop in rows[:-1])] and rows[-1][1] == weights.rows
    inner = [weights.before(stop) - weights.before(first) for first, stop in rows]
    assert inner == sorted(inner, reverse=True) and max(inner) - min(inner) <= 1 and sum(inner) == layers


@given(models(), layouts(), layouts(), NODES)
def test_every_rank_of_the_target_ends_with_exactly_its_box(
    weights: LayerBytes, source: Layout, target: Layout, node: int
) -> None:
    moved = route(weights, source, target, node_of=node_by(node))
    have, want = by_rank(weights, source), by_rank(weights, target)
    got: dict[int, set[Cell]] = {rank: set() for rank in target.ranks}
    for move in moved.moves:
        part = cells(move.part)
        assert part <= have[move.sender], "sent by a rank that does not hold it"
        assert not part & have.get(move.receiver, set()), "sent to a rank that holds it"
        assert not part & got[move.receiver], "sent twice"
        assert move.bytes == size(weights, part) > 0
        got[move.receiver] |= part
    for rank, box in want.items():
        assert real(weights, got[rank]) == real(weights, box - have.get(rank, set())) and got[rank] <= box
    lacks = {rank: size(weights, box - have.get(rank, set())) for rank, box in want.items()}
    assert moved.total_bytes == sum(lacks.values())
    assert all(moved.bytes_received(rank) == lacking for rank, lacking in lacks.items())
    assert moved.total_bytes == sum(moved.bytes_sent(rank) for rank in source.ranks)


@given(models(), layouts(), layouts(), NODES)
def test_nodes_are_crossed_only_for_what_no_rank_there_holds(
    weights: LayerBytes, source: Layout, target: Layout, node: int
) -> None:
    node_of, have = node_by(node), by_rank(weights, source)
    moved = route(weights, source, target, node_of=node_of)
    crossing = [move for move in moved.moves if node_of(move.sender) != node_of(move.receiver)]
    assert moved.crosses_nodes(node_of) == bool(crossing)
    for move in crossing:
        near = [rank for rank in source.ranks if node_of(rank) == node_of(move.receiver)]
        assert all(not cells(move.part) & have[rank] for rank in near)


@given(models(), layouts(), layouts(), NODES)
def test_the_busiest_sender_is_within_one_piece_of_even_sending(
    weights: LayerBytes, source: Layout, target: Layout, node: int
) -> None:
    moved = route(weights, source, target, node_of=node_by(node))
    busiest = max(moved.sent_bytes.values(), default=0.0)
    piece = max((move.bytes for move in moved.moves), default=0.0)
    assert moved.even_sent_bytes <= busiest * (1 + 1e-12)
    assert busiest <= moved.even_sent_bytes + piece
    assert moved.total_bytes / len(source.ranks) <= moved.even_sent_bytes * (1 + 1e-12)


@given(models(), layouts(), layouts())
def test_with_one_node_even_sending_is_what_is_asked_of_a_box_over_its_holders(
    weights: LayerBytes, source: Layout, target: Layout
) -> None:
    moved = route(weights, source, target, node_of=node_by(RANKS))
    have, want = by_rank(weights, source), by_rank(weights, target)
    asked = []
    for box in {frozenset(box) for box in have.values()}:
        holders = [rank for rank in have if have[rank] == box]
        lacks = sum(size(weights, wanted & box) for rank, wanted in want.items() if rank not in holders)
        asked.append(lacks / len(holders) if box else 0.0)
    assert moved.even_sent_bytes == pytest.approx(max(asked), rel=1e-12)


@given(models(), layouts(), NODES)
def test_the_same_layout_moves_nothing(weights: LayerBytes, layout: Layout, node: int) -> None:
    assert route(weights, layout, layout, node_of=node_by(node)) == Route((), 0.0)


@given(models(), layouts(), NODES)
def test_the_same_strategy_on_other_ranks_moves_everything_to_everyone(
    weights: LayerBytes, layout: Layout, node: int
) -> None:
    elsewhere = replace(layout, ranks=tuple(rank + RANKS for rank in layout.ranks))
    copies = 1 if layout.shard == "full" else layout.dp
    assert route(weights, layout, elsewhere, node_of=node_by(node)).total_bytes == copies * weights.total_bytes


@given(models(), layouts(), layouts(), NODES)
def test_there_and_back_leave_the_same_bytes_in_place(
    weights: LayerBytes, source: Layout, target: Layout, node: int
) -> None:
    stayed = []
    for one, other in ((source, target), (target, source)):
        wanted = sum(size(weights, box) for box in by_rank(weights, other).values())
        stayed.append(wanted - route(weights, one, other, node_of=node_by(node)).total_bytes)
    assert stayed[0] == stayed[1]


LLAMA = ModelShape(32_000, 4096, 32, 32, 8, 128, 11_008, tied=False, max_positions=4096)
SPARSE = replace(LLAMA, experts=Experts(16, 2, 512, shared=1, dense_layers=3))


@pytest.mark.parametrize("shape", [LLAMA, replace(LLAMA, tied=True), LLAMA.with_scalar_head(), SPARSE])
def test_the_bytes_of_a_shape_are_all_its_parameters(shape: ModelShape) -> None:
    assert LayerBytes.of(shape).total_bytes == 2 * shape.parameters
    assert LayerBytes.of(shape, 4).layer_bytes == 4 * (shape.body_parameters // shape.layers)


@pytest.mark.parametrize("wrong", [(0, 1), (1, -1), (1, 1, -1), (1, 1, 0, -1)])
def test_a_model_without_layers_or_with_negative_bytes_is_refused(wrong: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="at least one layer and no negative bytes"):
        LayerBytes(*wrong)


def test_experts_split_over_ranks_are_refused() -> None:
    layout = Layout((0, 1), dp=2, ep=2)
    with pytest.raises(InputError, match="ep 2 is not known"):
        held(LayerBytes(1, 1), layout)
