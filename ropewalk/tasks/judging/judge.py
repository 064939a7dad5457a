"""A judge at work on finished samples: which questions their scores take, and the scores that the answers make.

* rubric: one question a sample.
* pairwise against a reference answer: two questions a sample, one in each order.
* pairwise against siblings: a group's samples stand in a ring, each is compared with the next few, in both orders.
  A sample's score is the mean of its preferences over those it met, in whichever part, so that the scores of a group
  have the mean 1/2. Equal answers are a tie without a question. A sample that meets nobody has no score.

A sample that is not to be judged is neither asked about nor an opponent. A failed question fails its comparison; a
sample fails where all of its comparisons did. What was asked is noted in the sample's info: `judged.NAME`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from ropewalk.records.prompt import Json, Prompt
from ropewalk.records.sample import Sample
from ropewalk.records.score import Abstain, Failed, Outcome, Score
from ropewalk.tasks.environments.protocol import EPISODE
from ropewalk.tasks.judging import pairwise, rubric
from ropewalk.tasks.judging.config import NoReasoning, PairwiseJudge, ReferenceAnswer, RubricJudge, Siblings
from ropewalk.tasks.judging.desk import Desk, Reply
from ropewalk.tasks.judging.question import Question

NOTE = "judged"
"""Key of a sample's info: by judge, what its score took."""
Skip: TypeAlias = Callable[[Sample], str | None]
"""Why a sample is not to be judged; None: it is."""


class Comparison(NamedTuple):
    """Two answers to one prompt, asked about in both orders."""

    preference: Score | Failed
    """For the first answer: the mean of both orders."""
    orders: tuple[float, float] | None = None
    """P(the one shown first) with the first answer shown first, and with the second; None: not asked, or failed."""
    remembered: int = 0

    @property
    def agrees(self) -> bool:
        """Whether both orders prefer the same answer, or neither prefers any."""
        if self.orders is None:
            return True
        forward, backward = self.orders[0] - 0.5, 0.5 - self.orders[1]
        return forward * backward > 0 or forward == backward == 0


@dataclass(frozen=True, slots=True)
class Judge:
    """One judge of a recipe, and the desk where it is asked."""

    name: str
    config: PairwiseJudge | RubricJudge
    desk: Desk

    def judge(self, prompts_by_id: Mapping[str, Prompt], samples: Sequence[Sample], skip: Skip) -> list[Sample]:
        """The samples with this judge's outcome under its name."""
        reasons = [_lost(sample) or skip(sample) for sample in samples]
        open_places = [place for place, reason in enumerate(reasons) if reason is None]
        outcomes: dict[int, Outcome] = {n: Abstain(reason) for n, reason in enumerate(reasons) if reason is not None}
        if isinstance(self.config, RubricJudge):
            found = self._marks(self.config, prompts_by_id, [samples[n] for n in open_places])
        elif isinstance(self.config.against, ReferenceAnswer):
            found = self._against_reference(self.config.against, prompts_by_id, [samples[n] for n in open_places])
        else:
            found = self._against_siblings(self.config.against, prompts_by_id, [samples[n] for n in open_places])
        notes: dict[int, dict[str, Json]] = {}
        for place, (outcome, note) in zip(open_places, found, strict=True):
            outcomes[place], notes[place] = outcome, note
        return [_noted(sample, self.name, outcomes[n], notes.get(n)) for n, sample in enumerate(samples)]

    def compare(self, asked: Sequence[tuple[Prompt, str, str]]) -> list[Comparison]:
        """Which of two answers to a prompt is better, for each, all asked in one batch."""
        config = self.config
        if not isinstance(config, PairwiseJudge):
            raise TypeError("a rubric does not compare")
        questions: list[Question] = [
            pairwise.ask(prompt.dialogue, *shown, config.criteria, config.reasoning)
            for prompt, first, second in asked
            if first != second
            for shown in ((first, second), (second, first))
        ]
        replies = iter(self.desk.ask(questions))
        return [
            _comparison(next(replies), next(replies)) if first != second else Comparison(Score(0.5))
            for _, first, second in asked
        ]

    def _marks(
        self, config: RubricJudge, prompts: Mapping[str, Prompt], samples: Sequence[Sample]
    ) -> list[tuple[Outcome, dict[str, Json]]]:
        reasoned = not isinstance(config.reasoning, NoReasoning)
        questions = [
            rubric.ask(prompts[s.prompt_id].dialogue, answer_of(s), config.criteria, config.reasoning) for s in samples
        ]
        found: list[tuple[Outcome, dict[str, Json]]] = []
        for answer, remembered in self.desk.ask(questions):
            outcome = answer if isinstance(answer, Failed) else rubric.read(answer, reasoned=reasoned)
            found.append((outcome, {"questions": 1, "remembered": int(remembered)}))
        return found

    def _against_reference(
        self, against: ReferenceAnswer, prompts: Mapping[str, Prompt], samples: Sequence[Sample]
    ) -> list[tuple[Outcome, dict[str, Json]]]:
        references = [reference_of(prompts[sample.prompt_id], against.field) for sample in samples]
        asked = [
            (prompts[sample.prompt_id], answer_of(sample), reference)
            for sample, reference in zip(samples, references, strict=True)
            if isinstance(reference, str)
        ]
        compared = iter(self.compare(asked))
        found: list[tuple[Outcome, dict[str, Json]]] = []
        for reference in references:
            if isinstance(reference, Failed):
                found.append((reference, _note([])))
            else:
                comparison = next(compared)
                found.append((comparison.preference, _note([comparison])))
        return found

    def _against_siblings(
        self, against: Siblings, prompts: Mapping[str, Prompt], samples: Sequence[Sample]
    ) -> list[tuple[Outcome, dict[str, Json]]]:
        groups: dict[str, list[int]] = {}
        for place, sample in enumerate(samples):
            groups.setdefault(sample.group_id, []).append(place)
        pairs = [
            (ordered[first], ordered[second])
            for group in groups.values()
            for ordered in [sorted(group, key=lambda place: samples[place].index)]
            for first, second in ring(len(ordered), against.opponents)
        ]
        asked = [(prompts[samples[i].prompt_id], answer_of(samples[i]), answer_of(samples[j])) for i, j in pairs]
        met: list[list[Score | Failed]] = [[] for _ in samples]
        own: list[list[Comparison]] = [[] for _ in samples]
        for (i, j), comparison in zip(pairs, self.compare(asked), strict=True):
            met[i].append(comparison.preference)
            met[j].append(_other_side(comparison.preference))
            own[i].append(comparison)
        return [(_mean(scores), _note(comparisons)) for scores, comparisons in zip(met, own, strict=True)]


def answer_of(sample: Sample) -> str:
    """What is judged of a sample: its text, or of an episode all turns from the policy's first one on."""
    turns = turns_of(sample)
    return "\n\n".join(f"{role}: {content}" for role, content in turns) if len(turns) > 1 else sample.text


def turns_of(sample: Sample) -> list[tuple[str, str]]:
    """Role and content of an episode's turns, from the policy's first one on; none for a sample of one turn."""
    told = sample.info.get(EPISODE)
    given = told.get("messages") if isinstance(told, dict) else None
    turns = [(str(m.get("role")), str(m.get("content"))) for m in given or () if isinstance(m, dict)]  # type: ignore[union-attr]
    first = next((place for place, (role, _) in enumerate(turns) if role == "assistant"), len(turns))
    return turns[first:]


def ring(count: int, opponents: int) -> list[tuple[int, int]]:
    """Pairs of `count` places such that each place meets the same number of others: an even one, at most `opponents`;
    all others where those are no more."""
    if opponents >= count - 1:
        return [(i, j) for i in range(count) for j in range(i + 1, count)]
    return [(i, (i + step) % count) for step in range(1, opponents // 2 + 1) for i in range(count)]


def reference_of(prompt: Prompt, field: str) -> str | Failed:
    """The reference answer of a prompt."""
    value = prompt.gold if field == "gold" else prompt.info.get(field)
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return Failed("refused", f"prompt {prompt.id} has no reference answer in {field!r}")


def _comparison(first: Reply, second: Reply) -> Comparison:
    remembered = int(first.remembered) + int(second.remembered)
    forward, backward = (r.answer if isinstance(r.answer, Failed) else pairwise.read(r.answer) for r in (first, second))
    if isinstance(forward, Failed):
        return Comparison(forward, None, remembered)
    if isinstance(backward, Failed):
        return Comparison(backward, None, remembered)
    preference = Score(0.5 + (forward.value - backward.value) / 2)
    return Comparison(preference, (forward.value, backward.value), remembered)


def _other_side(preference: Score | Failed) -> Score | Failed:
    return Score(1.0 - preference.value) if isinstance(preference, Score) else preference


def _mean(scores: Sequence[Score | Failed]) -> Outcome:
    values = [score.value for score in scores if isinstance(score, Score)]
    if values:
        return Score(math.fsum(values) / len(values))
    return next((score for score in scores), None) or Abstain("there is no other answer to compare with")


def _note(comparisons: Sequence[Comparison]) -> dict[str, Json]:
    """Sums over the comparisons in which a sample is the first, so that each counts once in a batch."""
    asked = [comparison for comparison in comparisons if comparison.orders is not None]
    return {
        "questions": 2 * sum(c.orders is not None or isinstance(c.preference, Failed) for c in comparisons),
        "remembered": sum(comparison.remembered for comparison in comparisons),
        "compared": len(asked),
        "disagreed": sum(not comparison.agrees for comparison in asked),
        "ties": sum(c.preference == Score(0.5) for c in comparisons),
        "met": len(comparisons),
        "first": math.fsum(value - 0.5 for c in asked if c.orders for value in c.orders) / 2,
    }


def _lost(sample: Sample) -> str | None:
    return None if sample.finish in ("stop", "length") else f"the rollout {sample.finish}"


def _noted(sample: Sample, name: str, outcome: Outcome, note: dict[str, Json] | None) -> Sample:
    if sample.finish == "failed":
        outcome = Failed("crashed", "the rollout failed")
    sample = sample.with_scores(**{name: outcome})
    if note is None:
        return sample
    known = sample.info.get(NOTE)
    return replace(sample, info={**sample.info, NOTE: {**(known if isinstance(known, dict) else {}), name: note}})
