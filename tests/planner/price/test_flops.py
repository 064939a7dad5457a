"""The factor counted over a graph is the formula, for any number of epochs."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ropewalk.plan.graph import Call, CallGraph
from ropewalk.planner.price.flops import attention_share, call_flops, per_token, relative_cost
from ropewalk.records.errors import InputError
from tests.planner.price.pricing import GRAPHS, GRPO_GRAPH, LLAMA_7B, PPO_GRAPH, SFT_GRAPH

EPOCHS = some.integers(1, 50)


@given(EPOCHS)
def test_the_factor_of_a_graph_is_the_formula(e: int) -> None:
    assert relative_cost(SFT_GRAPH, update_epochs=e) == e
    assert relative_cost(PPO_GRAPH, update_epochs=e) == pytest.approx((8 + 12 * e) / 6)
    assert relative_cost(GRPO_GRAPH, update_epochs=e) == pytest.approx((4 + 6 * e) / 6)
    assert relative_cost(GRAPHS["grpo-old"], update_epochs=e) == pytest.approx((6 + 6 * e) / 6)
    assert relative_cost(GRAPHS["grpo-learned"], update_epochs=e) == pytest.approx((6 + 6 * e) / 6)


@given(EPOCHS)
def test_adapters_save_the_gradients_of_frozen_weights(e: int) -> None:
    assert relative_cost(SFT_GRAPH, update_epochs=e, adapted=["actor"]) == pytest.approx(4 * e / 6)
    both = relative_cost(PPO_GRAPH, update_epochs=e, adapted=["actor", "critic"])
    assert both == pytest.approx((8 + 8 * e) / 6)


@given(EPOCHS, some.floats(1e6, 1e12), some.floats(1e6, 1e12))
def test_every_role_counts_its_own_parameters(e: int, actor: float, others: float) -> None:
    sizes = {"actor": actor, "reference": actor, "critic": others, "reward": others}
    found = per_token(call_flops(PPO_GRAPH, update_epochs=e), sizes)
    assert found["rollout"] == pytest.approx(2 * actor)
    assert found["scoring"] == pytest.approx(2 * actor + 4 * others)
    assert found["update"] == pytest.approx(6 * e * (actor + others))


def test_a_copy_computes_nothing() -> None:
    graph = CallGraph((Call("refresh", "reference", "copy", (), ()), *SFT_GRAPH.calls), given=("tokens",))
    assert call_flops(graph) == call_flops(SFT_GRAPH)


def test_attention_grows_with_the_sequence() -> None:
    assert attention_share(LLAMA_7B, 1024) == pytest.approx(4 * 32 * 4096 * 512 / (2 * LLAMA_7B.parameters))
    assert attention_share(LLAMA_7B, 2048) == pytest.approx(2 * attention_share(LLAMA_7B, 1024))


def test_a_batch_is_trained_on_at_least_once() -> None:
    with pytest.raises(InputError, match="at least once, got 0"):
        call_flops(SFT_GRAPH, update_epochs=0)
