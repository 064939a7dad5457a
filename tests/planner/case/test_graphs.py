"""The planner's graphs are those of the methods, and every role gets a model."""

import pytest

from ropewalk.algorithms.config import GRPO, PPO, SFT, KLLoss, KLNone, ProcessRewardModel, RewardModel, SharedCritic
from ropewalk.algorithms.methods import grpo, ppo, process_reward_model, reward_model, sft
from ropewalk.plan.graph import CallGraph
from ropewalk.plan.sizes import shape_of
from ropewalk.planner.case.graphs import METHODS, assign_shapes, freeze, method_graph, trained_roles
from ropewalk.records.errors import InputError

SHARED = SharedCritic()
SAME = [
    ("process-reward-model", process_reward_model.graph(ProcessRewardModel())),
    ("ppo", ppo.graph(PPO(), learned_reward=True)),
    ("ppo+old-logprobs", ppo.graph(PPO(minibatches=4), learned_reward=True)),
    ("ppo+shared-critic", ppo.graph(PPO(critic=SHARED), learned_reward=True)),
    ("ppo+shared-critic+old-logprobs", ppo.graph(PPO(critic=SHARED, minibatches=2), learned_reward=True)),
    ("ppo+rule-reward", ppo.graph(PPO(), learned_reward=False)),
    ("ppo+no-reference", ppo.graph(PPO(kl=KLNone()), learned_reward=True)),
    ("grpo", grpo.graph(GRPO(kl=KLLoss()), learned_reward=True)),
    ("grpo+old-logprobs", grpo.graph(GRPO(minibatches=2), learned_reward=True)),
    ("grpo+rule-reward", grpo.graph(GRPO(), learned_reward=False)),
    ("grpo+rule-reward+no-reference", grpo.graph(GRPO(kl=KLNone()), learned_reward=False)),
    ("reward-model", reward_model.graph(RewardModel())),
    ("sft", sft.graph(SFT())),
]


@pytest.mark.parametrize(("name", "graph"), SAME, ids=[name for name, _ in SAME])
def test_a_graph_is_that_of_its_method(name: str, graph: CallGraph) -> None:
    """Calls, columns, edges, and what is given."""
    assert method_graph(name) == graph and method_graph(name).edges() == graph.edges()


ALL_NAMES = [
    "+".join((base, *(option for bit, option in enumerate(method.options) if chosen >> bit & 1)))
    for base, method in METHODS.items()
    for chosen in range(2 ** len(method.options))
]


@pytest.mark.parametrize("name", ALL_NAMES)
def test_every_option_of_every_method_makes_a_sound_graph(name: str) -> None:
    """Whatever is computed is waited for by a training call, every training is last in its role, names are distinct."""
    graph = method_graph(name)
    trains = [call.name for call in graph.of_kind("train")]
    assert trains and trained_roles(graph) <= set(graph.roles)
    earlier = [call.name for call in graph.calls if call.kind != "train"]
    for call in earlier:
        assert [(call, train) for train in trains if (call, train) in graph.edges()] == [(call, t) for t in trains]
    assert [call.name for call in graph.calls] == earlier + trains
    shapes = assign_shapes(graph, dict.fromkeys(graph.roles, "0.5b"))
    assert tuple(shapes) == graph.roles


def test_the_number_of_calls_is_the_known_one() -> None:
    counts = {"ppo": 6, "ppo+old-logprobs": 7, "grpo": 4, "grpo+rule-reward": 3, "dpo": 2, "sft": 1, "reward-model": 1}
    counts |= {"distillation": 3, "distillation+fixed-set": 2, "ppo+shared-critic": 5}
    assert {name: len(method_graph(name).calls) for name in counts} == counts


def test_the_order_and_spelling_of_options_mean_nothing() -> None:
    assert method_graph(" PPO+old_logprobs+shared-critic") == method_graph("ppo+shared-critic+old-logprobs")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("pppo", "unknown method 'pppo': did you mean 'ppo'"),
        ("reward_modle", "did you mean 'reward-model'"),
        ("", "unknown method"),
        ("ppo+old-logprob", "'ppo' has no option 'old-logprob': did you mean 'old-logprobs'"),
        ("grpo+shared-critic", "'grpo' has no option 'shared-critic': did you mean"),
        ("sft+rule-reward", "'sft' has no option 'rule-reward': it has none"),
    ],
)
def test_an_unknown_method_or_option_names_the_nearest(name: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        method_graph(name)


# --- sizes ----------------------------------------------------------------------------------------


def test_the_reference_follows_the_actor_and_the_reward_the_critic() -> None:
    small, large = shape_of("7b"), shape_of("34b")
    shapes = assign_shapes(method_graph("ppo"), {"actor": "7b", "critic": "34b"})
    assert shapes == {
        "actor": small,
        "reference": small,
        "critic": large.with_scalar_head(),
        "reward": large.with_scalar_head(),
    }
    alone = assign_shapes(method_graph("ppo"), {"actor": "7b"})
    assert alone["critic"] == alone["reward"] == small.with_scalar_head()
    given = assign_shapes(method_graph("ppo"), {"actor": "7b", "critic": "34b", "reward": "13b", "reference": "70b"})
    assert given["reward"] == shape_of("13b").with_scalar_head() and given["reference"] == shape_of("70b")
    assert assign_shapes(method_graph("grpo"), {"actor": "7b"})["reward"] == small.with_scalar_head()


def test_an_actor_with_the_critic_on_it_has_both_heads() -> None:
    shapes = assign_shapes(method_graph("ppo+shared-critic"), {"actor": "7b", "reward": "13b"})
    assert shapes["actor"].parameters == shape_of("7b").parameters + 4096
    assert shapes["reference"] == shape_of("7b")


@pytest.mark.parametrize(
    ("name", "models", "sentence"),
    [
        ("ppo", {}, "role 'actor' has no model: give it a size"),
        ("distillation", {"actor": "1b"}, "role 'teacher' has no model"),
        ("reward-model", {"actor": "7b"}, "no role 'actor': did you mean 'reward'"),
        ("grpo", {"actor": "7b", "critic": "7b"}, "no role 'critic': did you mean"),
        ("ppo", {"actor": "7b", "refrence": "7b"}, "did you mean 'reference'"),
        ("ppo", {"actor": "6b"}, "did you mean '7b'"),
    ],
)
def test_models_that_do_not_fit_the_method(name: str, models: dict[str, str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        assign_shapes(method_graph(name), models)


def test_who_is_trained() -> None:
    """Of four models under PPO two, under GRPO and DPO one."""
    trained = {"ppo": {"actor", "critic"}, "grpo": {"actor"}, "dpo": {"actor"}, "distillation": {"actor"}}
    assert {name: trained_roles(method_graph(name)) for name in trained} == trained


# --- frozen ---------------------------------------------------------------------------------------


def test_a_frozen_role_keeps_its_other_calls() -> None:
    graph = freeze(method_graph("ppo"), ["actor"])
    assert [call.name for call in graph.calls] == ["generate", "reference", "reward_model", "values", "critic_train"]
    assert trained_roles(graph) == {"critic"} and graph.roles == method_graph("ppo").roles


@pytest.mark.parametrize(
    ("roles", "sentence"),
    [
        (["reward"], "'reward' is frozen in any case"),
        (["actor", "critic"], "nothing is trained: leave at least one"),
        (["critc"], "did you mean 'critic'"),
    ],
)
def test_what_cannot_be_frozen(roles: list[str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        freeze(method_graph("ppo"), roles)
