"""Where questions go out and answers come back: each question once, and none whose answer is remembered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ropewalk.records.score import Failed
from ropewalk.tasks.judging.memory import AnswerFile
from ropewalk.tasks.judging.question import Answer, Asker, Question


class Reply(NamedTuple):
    """What came back for one question."""

    answer: Answer | Failed
    remembered: bool = False
    """It did not have to be asked: it is on disk, or stood in the same batch before."""


@dataclass(frozen=True, slots=True)
class Desk:
    """An asker, and what is remembered of its answers. Failures are not."""

    asker: Asker
    memory: AnswerFile | None = None

    def ask(self, questions: Sequence[Question]) -> list[Reply]:
        """A reply to each question, in order."""
        fingerprint = self.asker.fingerprint if questions else ""
        keys = [question.key(fingerprint) for question in questions]
        first: dict[str, Question] = {}
        for key, question in zip(keys, questions, strict=True):
            first.setdefault(key, question)
        known: dict[str, Answer | Failed] = dict(self.memory.get(list(first))) if self.memory is not None else {}
        open_keys = [key for key in first if key not in known]
        answers = self.asker.ask([first[key] for key in open_keys]) if open_keys else []
        fresh = dict(zip(open_keys, answers, strict=True))
        if self.memory is not None:
            self.memory.put({key: answer for key, answer in fresh.items() if isinstance(answer, Answer)})
        replies = []
        for key in keys:
            replies.append(Reply(fresh[key]) if key in fresh else Reply(known[key], remembered=True))
            if key in fresh:
                known[key] = fresh.pop(key)  # asked once: whoever asks the same again is told without it
        return replies
