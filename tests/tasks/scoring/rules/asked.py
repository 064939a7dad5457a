"""Prompts for tests of rules."""

from typing import Any

from ropewalk.records.prompt import Prompt
from ropewalk.records.score import Outcome, Score
from ropewalk.tasks.task import Scorer
from tests.tasks.samples import sample


def asked(gold: Any = None, **info: Any) -> Prompt:
    return Prompt("p", "q", gold, info)


def judged(rule: Scorer, text: str, gold: Any = None, **info: Any) -> Outcome:
    """What a rule says of a completion."""
    outcome = rule(asked(gold, **info), sample(text))
    assert outcome is not None and not isinstance(outcome, bool | float)
    return outcome


def scored(rule: Scorer, text: str, gold: Any = None, **info: Any) -> float:
    outcome = judged(rule, text, gold, **info)
    assert isinstance(outcome, Score), outcome
    return outcome.value
