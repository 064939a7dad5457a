"""From samples to advantages, as a run does it: who is judged, who is left out, who stops the run."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from ropewalk.algorithms.config import GRPO, PenaliseUnfinished
from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Finish, Sample
from ropewalk.records.score import Failed, Outcome
from ropewalk.runtime.config import LEARNED
from ropewalk.runtime.experience import Experience, packed_experience
from ropewalk.runtime.learned.calls import short_form
from ropewalk.runtime.learned.read import Reader
from ropewalk.runtime.loop import Credited
from ropewalk.runtime.rewards import OnlineCredit
from ropewalk.runtime.state import RunState
from ropewalk.tasks.scoring.config import Component, Reward
from ropewalk.tasks.scoring.run import score_sample
from ropewalk.tasks.task import Task
from tests.parity.beds import samples

Said = float | bool | None | Outcome


def drawn(count: int, finish: Sequence[Finish] = ()) -> list[Sample]:
    """One group of samples, which end as said."""
    group = [replace(s, finish="stop") for s in samples(groups=1, size=count)]
    return [replace(s, finish=f) for s, f in zip(group, [*finish, *["stop"] * count], strict=False)]


def experience(says: Callable[[Sample], Said], given: Sequence[Sample]) -> Experience:
    task = Task("t", ["0"], {"rule": lambda prompt, sample: says(sample)})
    prompt = Prompt(id="0", dialogue="0")
    scored = [score_sample(task, prompt, sample) for sample in given]
    return packed_experience([prompt], scored, share_prompts=False)


def credited(
    rewards: Sequence[Said], given: Sequence[Sample] | None = None, method: GRPO | None = None, limit: float = 1.0
) -> Credited:
    method = method or GRPO(scale="none")
    found = experience(lambda sample: rewards[sample.index], given or drawn(len(rewards)))
    return OnlineCredit(method, Reward(failure_limit=limit))(with_reference(found), RunState())


def with_reference(found: Experience) -> Experience:
    """The column that a reference would have written."""
    batch = found.batch
    return replace(
        found, batch=batch.with_columns(tokens={"reference_logprobs": batch.token_columns["rollout_logprobs"]})
    )


def advantages(found: Credited) -> list[float]:
    """Each row's advantage, which all its tokens share."""
    batch = found.experience.batch
    policy = batch.token_columns["policy_mask"].astype(bool)
    shares = [batch.token_columns["advantages"][policy & (batch.row_T == row)] for row in range(batch.rows)]
    assert all(np.ptp(share) == 0 for share in shares)
    return [round(float(share[0]), 6) for share in shares]


def test_no_opinion_is_no_zero() -> None:
    """Fault E3: [1, None, 0] is +0.5, left out, -0.5."""
    found = credited([1.0, None, 0.0])
    assert advantages(found) == [0.5, 0.0, -0.5]
    assert found.experience.batch.row_columns["valid"].tolist() == [True, False, True]
    assert found.metrics["reward"].value == 0.5 and found.metrics["reward/invalid"].value == pytest.approx(1 / 3)
    assert found.metrics["score/rule/abstained"].value == pytest.approx(1 / 3)


def test_a_group_without_opinions_trains_nothing() -> None:
    """Fault E3: no NaN, no loss, a count."""
    found = credited([None, None, None])
    assert advantages(found) == [0.0, 0.0, 0.0]
    assert found.metrics["reward/invalid"].value == 1.0


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), "1", [1.0, 2.0]])
def test_a_wrong_score_names_scorer_and_sample(wrong: Said) -> None:
    """Fault E3."""
    with pytest.raises(InputError, match=r"rule.*0/1"):
        credited([1.0, wrong, 0.0])


def test_each_way_to_end_has_its_own_consequence() -> None:
    """Fault G12: two finished, one cut off, one whose rollout failed: the finished keep their rewards, the cut one
    gets what is asked for, the failed one is left out and counted, and the step goes on."""
    given = drawn(4, ["stop", "stop", "length", "failed"])
    found = credited([2.0, 1.0, 7.0, 7.0], given, GRPO(scale="none", unfinished=PenaliseUnfinished(score=0.0)))
    assert [s.index for s in found.experience.samples] == [0, 1, 2]
    assert advantages(found) == [1.0, 0.0, -1.0]
    assert found.metrics["rollout/lost"].value == 0.25 and found.metrics["truncated"].value == pytest.approx(1 / 3)


def test_a_lost_rollout_may_be_empty() -> None:
    """Fault G12: one that failed before its first token does not end the step."""
    given = drawn(3)
    nothing = given[1].policy_mask_T & False
    given[1] = replace(given[1], finish="failed", policy_mask_T=nothing)
    assert advantages(credited([1.0, 5.0, 0.0], given)) == [0.5, -0.5]


def test_no_rollout_at_all_stops_the_run() -> None:
    """Fault G12."""
    with pytest.raises(RunStopped, match="none of 2 rollouts came to an end"):
        credited([1.0, 1.0], drawn(2, ["failed", "aborted"]))


@pytest.mark.parametrize(("limit", "stops"), [(0.2, True), (0.5, False)])
def test_too_many_failures_of_a_scorer_stop_the_run(limit: float, stops: bool) -> None:
    """Fault G12: a third fails."""
    rewards: list[Said] = [1.0, Failed("timeout"), 0.0]
    if stops:
        with pytest.raises(RunStopped, match=r"scorer 'rule' failed on 1 of 3 samples \(33%\), each time with timeout"):
            credited(rewards, limit=limit)
    else:
        assert advantages(credited(rewards, limit=limit)) == [0.5, 0.0, -0.5]


def test_a_learned_score_stands_beside_the_tasks_own() -> None:
    """A sum of both; a reward model that gives no number is named."""
    found = with_reference(experience(lambda sample: float(sample.index), drawn(2)))
    reward = Reward(components={LEARNED: Component(weight=2.0), "rule": Component(weight=1.0)})
    credit = OnlineCredit(GRPO(scale="none"), reward, (Reader(short_form("runs/rm")),))

    def scored(*scores: float) -> Experience:
        return replace(found, batch=found.batch.with_columns(rows={"scores": np.array(scores, np.float32)}))

    assert credit(scored(0.5, 1.0), RunState()).experience.batch.row_columns["rewards"].tolist() == [1.0, 3.0]
    with pytest.raises(InputError, match=r"reward model gave a score that is not finite \(runs/rm\)"):
        credit(scored(0.5, np.nan), RunState())
