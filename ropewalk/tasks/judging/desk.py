"""Where questions go out and answers come back: each question once, and none whose answer is remembered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ropewalk.records.score import Failed
from ropewalk.tasks.judging.memory import AnswerFile
from ropewalk.tasks.judging.question import Answer, Asker, Question

CHUNK_QUESTIONS = 256
"""Questions that are asked at once: what is lost when a job is ended in the middle."""


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
        fresh = self._fresh({key: first[key] for key in open_keys})
        replies = []
        for key in keys:
            replies.append(Reply(fresh[key]) if key in fresh else Reply(known[key], remembered=True))
            if key in fresh:
                known[key] = fresh.pop(key)  # asked once: whoever asks the same again is told without it
        return replies

    def _fresh(self, asked: Mapping[str, Question]) -> dict[str, Answer | Failed]:
        """Answers by key, remembered as they come in; once a whole chunk has failed, the rest fails alike."""
        answers: dict[str, Answer | Failed] = {}
        keys = list(asked)
        for start in range(0, len(keys), CHUNK_QUESTIONS):
            chunk = keys[start : start + CHUNK_QUESTIONS]
            found = dict(zip(chunk, self.asker.ask([asked[key] for key in chunk]), strict=True))
            answers |= found
            if self.memory is not None:
                self.memory.put({key: answer for key, answer in found.items() if isinstance(answer, Answer)})
            failed = [answer for answer in found.values() if isinstance(answer, Failed)]
            if len(failed) == CHUNK_QUESTIONS:
                return answers | dict.fromkeys(keys[start + CHUNK_QUESTIONS :], failed[-1])
        return answers
