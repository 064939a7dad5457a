"""Verifies an answer about the logs: the last `<answer>…</answer>`, whatever its capitals; none is a wrong one."""

from ropewalk.records.prompt import Prompt
from ropewalk.records.sample import Sample
from ropewalk.tasks.scoring.rules.text import answer_of


def score(prompt: Prompt, sample: Sample) -> float:
    """1 for the gold answer, else 0."""
    answer = answer_of(sample.text, "tags")
    return float(answer is not None and answer.strip().casefold() == str(prompt.gold).casefold())
