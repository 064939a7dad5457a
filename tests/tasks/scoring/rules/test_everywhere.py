import asyncio
import multiprocessing
import pickle  # noqa: TID251  (what a pool of processes does with a scorer)
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.score import Failed, Outcome, Score
from ropewalk.tasks.config import GymTask
from ropewalk.tasks.gym import gym_task
from tests.tasks.scoring.rules.asked import judged
from tests.tasks.scoring.rules.everywhere import RULES, outcomes


def test_rules_say_the_same_in_every_setting() -> None:
    """Fault G4: main thread, worker thread, asyncio task and child process."""
    expected = outcomes()
    assert {type(outcome) for outcome in expected} == {Score, Failed}

    async def in_task() -> list[Outcome]:
        async def go() -> list[Outcome]:
            return outcomes()

        return await asyncio.create_task(go())

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(outcomes).result() == expected
    assert asyncio.run(in_task()) == expected
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as processes:
        assert processes.submit(outcomes).result() == expected


def test_scorers_can_be_sent_to_another_process() -> None:
    for rule, _, _ in RULES:
        assert pickle.loads(pickle.dumps(rule)) == rule  # noqa: S301
    task = gym_task(GymTask(generator="leg_counting", prompts=2, heldout_prompts=1))
    for scorer in task.scorers.values():
        pickle.loads(pickle.dumps(scorer))  # noqa: S301


@given(st.text(max_size=60) | st.text(alphabet="<>/thinkaswer{}[]\"'\\boxd# .:,*-\n(AB)答案是", max_size=60))
def test_no_text_breaks_a_rule(text: str) -> None:
    """Every text gets an outcome, and the same one each time."""
    for rule, gold, info in RULES:
        first = judged(rule, text, gold, **info)
        assert isinstance(first, Score | Failed) and judged(rule, text, gold, **info) == first
        if isinstance(first, Score):
            assert 0 <= first.value <= 1
