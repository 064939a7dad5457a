"""Scores an answer against the gold one of its prompt.

    MathScorer(Policy(order="kept"))(prompt, sample)

is Score(1), Score(0), Failed("wrong_format") where no answer stands, or Failed("unparsable") where it cannot be read.

The gold answer is the text of an answer, a number, `{"set": [...]}` (all of them, in any order and any brackets),
`{"tuple": [...]}` (in this order, in any brackets), `{"any": [...]}` (one of them) or `{"text": "..."}` (these words).
A row may change the policy in `prompt.info["maths"]`.
"""

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Failed, Outcome, Score
from ropewalk.tasks.scoring.maths.compare import Verdict, verdict
from ropewalk.tasks.scoring.maths.limits import MAX_LENGTH, Unreadable
from ropewalk.tasks.scoring.maths.lines import read_line
from ropewalk.tasks.scoring.maths.places import Found, find
from ropewalk.tasks.scoring.maths.policy import Digits, Policy, with_row
from ropewalk.tasks.scoring.maths.read import read, read_again
from ropewalk.tasks.scoring.maths.values import Answer, Group, Text
from ropewalk.tasks.scoring.maths.words import wording

Gold: TypeAlias = tuple[Answer, ...]
"""Answers that are right, each on its own."""

INFO_KEY = "maths"
DEFAULT = Policy()


@dataclass(frozen=True)
class MathScorer:
    """Scores 1 for an answer equal to the gold one and 0 for a different one."""

    policy: Policy = DEFAULT

    def __call__(self, prompt: Prompt, sample: Sample) -> Outcome:
        policy = with_row(self.policy, prompt.info.get(INFO_KEY))
        gold = parse_gold(prompt.gold, policy.digits)
        found = find(sample.text, policy.places)
        if found is None:
            return Failed("wrong_format", f"no answer at {', '.join(policy.places)}")
        judged = judge(found, gold, policy)
        if judged == "unparsed":
            return Failed("unparsable", found.text[:80])
        return Score(float(judged == "equal"))


def grade(text: str, gold: Json, policy: Policy = DEFAULT) -> Verdict:
    """Whether the answer a text gives is the gold one; `unparsed` if it gives none that can be read."""
    answers = parse_gold(gold, policy.digits)
    found = find(text, policy.places)
    return "unparsed" if found is None else judge(found, answers, policy)


def compare(first: str, second: str, policy: Policy = DEFAULT) -> Verdict:
    """Whether two texts that are answers and nothing else are the same answer."""
    try:
        return verdict(read(first, policy.digits), read(second, policy.digits), policy)
    except Unreadable:
        return "unparsed"


def judge(found: Found, gold: Gold, policy: Policy) -> Verdict:
    """The verdict on what was found; equal if it is one of the golds."""
    worded = any(isinstance(answer, Text) for answer in gold)
    try:
        answer = (
            read(found.text, policy.digits) if found.delimited else read_line(found.text, policy.digits, worded=worded)
        )
    except Unreadable:
        return "unparsed"
    verdicts = [verdict(answer, right, policy) for right in gold]
    return next((one for one in ("equal", "unparsed") if one in verdicts), "different")


def parse_gold(value: Json, digits: Digits = "english") -> Gold:
    """The gold answer of a row. Raises InputError if it cannot be read: such a row is refused, never rewarded."""
    if isinstance(value, str):
        return (_gold_text(value, digits),)
    if isinstance(value, dict) and len(value) == 1:
        return _gold_table(json.dumps(value, sort_keys=True), digits)
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return (_gold_text(str(value), digits),)
    raise _no_gold(value)


@lru_cache(maxsize=1024)
def _gold_table(table: str, digits: Digits) -> Gold:
    ((kind, inside),) = json.loads(table).items()
    if kind == "text" and isinstance(inside, str) and isinstance(words := wording(inside), Text):
        return (words,)
    if isinstance(inside, list) and inside:
        if kind == "any":
            return tuple(answer for member in inside for answer in parse_gold(member, digits))
        members = tuple(answer for member in inside for answer in parse_gold(member, digits))
        if kind in ("set", "tuple") and not any(isinstance(member, dict) for member in inside):
            return (Group("all" if kind == "set" else "tuple", members),)
    raise _no_gold({kind: inside})


def _gold_text(text: str, digits: Digits) -> Answer:
    try:
        return read_again(text, digits) if len(text) <= MAX_LENGTH else read(text, digits)
    except Unreadable as error:
        raise _no_gold(text) from error


def _no_gold(value: Json) -> InputError:
    return InputError(
        f"the gold answer {str(value)[:80]!r} cannot be read: give an answer such as '3/4', 'x = 5' or "
        "{set = [1, 2]}, without the solution around it"
    )
