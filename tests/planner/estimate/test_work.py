"""Works: every call once, states at one home, amounts that follow from the histograms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.plan.graph import Call, CallGraph
from ropewalk.plan.sizes import shape_of
from ropewalk.plan.workload import Lengths, Workload
from ropewalk.planner.estimate.work import Strategy, works
from ropewalk.records.errors import InputError
from tests.planner.estimate.estimating import SKEWED, WORKLOAD, tiny, work

PPO = CallGraph(
    (
        Call("generate", "actor", "generate", ("prompts",), ("samples",)),
        Call("score", "reward", "forward", ("samples",), ("scores",)),
        Call("refer", "reference", "forward", ("samples",), ("reference_logprobs",)),
        Call("value", "critic", "forward", ("samples",), ("values",)),
        Call("again", "reference", "forward", ("samples",), ("entropy",)),
        Call("train_actor", "actor", "train", ("values", "scores", "reference_logprobs"), ()),
        Call("train_critic", "critic", "train", ("values", "scores"), ()),
    ),
    ("prompts",),
)


def test_every_role_has_one_home_where_it_trains_or_runs_first() -> None:
    found = works(PPO, dict.fromkeys(PPO.roles, tiny()), WORKLOAD)
    assert [job.name for job in found] == [call.name for call in PPO.calls]
    assert {job.role: job.name for job in found if job.home} == {
        "actor": "train_actor",
        "critic": "train_critic",
        "reward": "score",
        "reference": "refer",
    }
    assert sum(job.home for job in found) == len(PPO.roles)
    assert {job.role for job in found if job.trained} == {"actor", "critic"}


def test_a_role_without_a_size_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="reward"):
        works(PPO, {"actor": tiny(), "critic": tiny(), "reference": tiny()}, WORKLOAD)


def test_a_train_call_sees_one_mini_batch_at_a_time() -> None:
    job = work("train", workload=Workload(510, 1, Lengths.fixed(4), Lengths.fixed(4), minibatches=4, epochs=3))
    assert (job.amount.sequences, job.amount.minibatches) == (128, 12)
    other = work("forward", workload=job.workload)
    assert (other.amount.sequences, other.amount.minibatches) == (510, 1)


def test_adapters_are_of_the_train_call_alone() -> None:
    workload = Workload(8, 1, Lengths.fixed(4), Lengths.fixed(4), lora_rank={"actor": 16})
    assert work("train", workload=workload).lora_rank == 16
    assert work("generate", workload=workload).lora_rank is None


@given(st.lists(st.tuples(st.integers(1, 500), st.floats(0.1, 9)), min_size=1, max_size=6, unique_by=lambda x: x[0]))
def test_context_is_what_a_token_sees_on_average(pairs: list[tuple[int, float]]) -> None:
    """Attention pairs of sequences of length S are S²/2, so the mean over tokens is E[S²] / 2E[S]."""
    lengths = Lengths(tuple(t for t, _ in pairs), tuple(w for _, w in pairs))
    amount = work("forward", workload=Workload(8, 1, Lengths.fixed(0), lengths)).amount
    tokens = sum(w * t for t, w in pairs)
    squares = sum(w * t * t for t, w in pairs)
    assert amount.length_context == pytest.approx(squares / tokens)
    assert amount.length == pytest.approx(tokens / sum(w for _, w in pairs))


def test_equal_lengths_are_their_own_context() -> None:
    amount = work("forward").amount
    assert (amount.length, amount.length_context, amount.prompt_context) == (1024, 1024, 128)
    skewed = work("forward", workload=Workload(8, 1, Lengths.fixed(128), SKEWED)).amount
    assert skewed.length_context > skewed.length


def test_gpus_of_a_strategy() -> None:
    assert Strategy(2, 4, 3).gpus == 24
    assert shape_of("7b").parameters > 6e9
