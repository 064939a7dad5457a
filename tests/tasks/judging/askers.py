"""Askers with a known mind, for tests that are not about servers or models."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ropewalk.records.score import Failed
from ropewalk.tasks.judging.config import PairwiseJudge, RubricJudge, ServerJudge
from ropewalk.tasks.judging.desk import Desk
from ropewalk.tasks.judging.judge import Judge
from ropewalk.tasks.judging.memory import AnswerFile
from ropewalk.tasks.judging.question import Answer, Question
from tests.tasks.judging.judge_server import answers_in

BY = ServerJudge(model="judge")
Rule = Callable[[Question], Answer | Failed]


@dataclass
class Ruled:
    """Answers by a rule, and remembers what it was asked."""

    rule: Rule
    fingerprint: str = "ruled"
    asked: list[Question] = field(default_factory=list)
    batches: int = 0

    def ask(self, questions: Sequence[Question]) -> list[Answer | Failed]:
        self.batches += 1
        self.asked += questions
        return [self.rule(question) for question in questions]


def body(question: Question) -> dict[str, object]:
    return {"messages": [{"role": message.role, "content": message.content} for message in question.messages]}


def prefers(score: Callable[[str], float], *, place: float = 0.0) -> Rule:
    """P(A) = sigma(score(A) - score(B) + place), spread over the spellings of each letter."""

    def rule(question: Question) -> Answer:
        first, second = answers_in(body(question))
        odds = score(first) - score(second) + place
        a, b = -math.log1p(math.exp(-odds)), -math.log1p(math.exp(odds))
        part = math.log(0.5)
        return Answer("", {"A": a + part, " A": a + part, "B": b, " B": -80.0})

    return rule


def judge(config: PairwiseJudge | RubricJudge, asker: Ruled, memory: AnswerFile | None = None) -> Judge:
    return Judge("liked", config, Desk(asker, memory))
