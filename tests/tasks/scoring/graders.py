"""Scoring that can be started in another process."""

from ropewalk.records.prompt import Prompt
from ropewalk.records.score import Failed, Score
from ropewalk.tasks.scoring.numbers import NumberScorer
from ropewalk.tasks.scoring.run import score_sample
from ropewalk.tasks.task import Task
from tests.tasks.samples import sample

TASK = Task(name="numbers", prompts=[Prompt("p", "6 * 3 =", gold=18)], scorers={"correct": NumberScorer()})
ANSWERS = {"#### 18": 1.0, "The answer is 18.": 1.0, "#### 17": 0.0, "no idea": 0.0, "\\boxed{18}": 1.0}


def graded() -> list[float]:
    """The scores of the table's answers; a failure is −1, so that it cannot look like a wrong answer."""
    samples = [sample(text, index=index) for index, text in enumerate(ANSWERS)]
    scored = [score_sample(TASK, Prompt("p", "6 * 3 =", gold=18), one) for one in samples]
    outcomes = [one.scores["correct"] for one in scored]
    assert not any(isinstance(outcome, Failed) for outcome in outcomes)
    return [outcome.value if isinstance(outcome, Score) else -1.0 for outcome in outcomes]
