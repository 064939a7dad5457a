"""Orders: every one of them can be carried out, none is listed twice, and none that is worth having is missing."""

from itertools import permutations, product

import pytest

from ropewalk.plan.graph import Call, CallGraph
from ropewalk.planner.case.graphs import METHODS, freeze, method_graph
from ropewalk.planner.search.schedule import MODES, Mode, Order, Schedule, schedule
from ropewalk.records.errors import InputError
from tests.planner.search.problems import CRITIC_ONLY, DPO, FROZEN_SAMPLER, GRAPHS, GRPO, JUDGED, ODD_GRAPHS, PPO, SEVEN

ALL = {**GRAPHS, **ODD_GRAPHS, **{name: method_graph(name) for name in METHODS}}
COUNTS = {
    ("ppo", "synchronous"): 30,
    ("ppo", "streaming"): 30,
    ("ppo", "one-step-off"): 404,
    ("grpo", "synchronous"): 2,
    ("grpo", "one-step-off"): 22,
    ("seven", "synchronous"): 132,
    ("dpo", "synchronous"): 2,
    ("sft", "synchronous"): 1,
}


def played(plan: Schedule, order: Order, rounds: int = 6) -> bool:
    """Whether, round after round, all that an operation waits for has been dispatched before it."""
    done = set()
    for number in range(rounds):
        for o in order.sequence:
            iteration = number - order.shift[o]
            for d in plan.dependencies:
                wanted = iteration - d.lag
                # what would have been dispatched before the first round does not count
                if d.after == o and wanted + order.shift[d.before] >= 0 and (d.before, wanted) not in done:
                    return False
            done.add((o, iteration))
    return True


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("graph", ALL.values(), ids=ALL)
def test_every_order_can_be_carried_out_and_is_listed_once(graph: CallGraph, mode: Mode) -> None:
    plan = schedule(graph, mode)
    assert plan.orders
    assert len(set(plan.orders)) == len(plan.orders)
    for order in plan.orders[:: max(1, len(plan.orders) // 200)]:
        assert sorted(order.sequence) == list(range(plan.operations))
        assert next(o for o in order.sequence if o < plan.calls) == 0
        assert order.shift[0] == 0
        assert played(plan, order)


@pytest.mark.parametrize(("name", "mode"), COUNTS, ids=map("-".join, COUNTS))
def test_how_many_orders_there_are(name: str, mode: Mode) -> None:
    assert len(schedule(ALL[name], mode).orders) == COUNTS[name, mode]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("graph", [PPO, GRPO, DPO, CRITIC_ONLY, FROZEN_SAMPLER, JUDGED])
def test_no_sequence_of_the_calls_is_missing(graph: CallGraph, mode: Mode) -> None:
    """All permutations with all shifts of 0 or 1 that can be carried out once every move has been fitted in."""
    plan = schedule(graph, mode)
    calls = plan.calls
    between = [d for d in plan.dependencies if d.after < calls and d.before < calls]
    through = [
        (move.target, move.source, d.lag)
        for number, move in enumerate(plan.moves, start=calls)
        for d in plan.dependencies
        if d.after == number
    ]
    waits = [(d.after, d.before, d.lag) for d in between] + through
    wanted = set()
    for shift in product((0, 1), repeat=calls - 1):
        shifts = (0, *shift)
        for rest in permutations(range(1, calls)):
            sequence = (0, *rest)
            late = [(a, b, shifts[a] + lag - shifts[b]) for a, b, lag in waits]
            if all(n > 0 or (n == 0 and sequence.index(b) < sequence.index(a)) for a, b, n in late):
                wanted.add((sequence, shifts))
    found = {(tuple(o for o in order.sequence if o < calls), order.shift[:calls]) for order in plan.orders}
    assert found == wanted


def test_generation_waits_for_the_last_training_or_the_one_before() -> None:
    for mode, lag in (("synchronous", 1), ("streaming", 1), ("one-step-off", 2)):
        plan = schedule(PPO, mode)  # type: ignore[arg-type]
        move = plan.names.index("move to generate")
        train = plan.names.index("actor_train")
        assert [d.lag for d in plan.dependencies if d.after == move and d.before == train] == [lag]
        other = plan.names.index("move to values")
        assert [d.lag for d in plan.dependencies if d.after == other] == [1]


def test_streaming_is_from_generation_into_forward_calls_alone() -> None:
    plan = schedule(SEVEN, "streaming")
    streams = {(plan.names[d.before], plan.names[d.after]) for d in plan.dependencies if d.stream}
    assert streams == {("generate", name) for name in ("old_logprobs", "reference", "reward_model", "values")}
    assert not any(d.stream for mode in MODES[:2] for d in schedule(SEVEN, mode).dependencies)


def test_what_waits_for_no_training_is_held_back_two_iterations() -> None:
    frozen = schedule(freeze(method_graph("ppo"), ["actor"]))
    assert [(frozen.names[d.before], d.lag) for d in frozen.dependencies if d.after == 0] == [("critic_train", 2)]


def test_too_many_operations_are_refused() -> None:
    calls = [Call(f"train{i}", f"role{i}", "train", ("tokens",), ()) for i in range(17)]
    with pytest.raises(InputError, match="17 operations"):
        schedule(CallGraph(tuple(calls), given=("tokens",)))
