"""A question to a judge, its answer, and who answers: plain data, the same for a server and for a model of the run."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ropewalk.records.prompt import Message
from ropewalk.records.score import Failed


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked. With candidates, the answer is one of them, after what is written (nothing, at 0 tokens)."""

    messages: tuple[Message, ...]
    max_new_tokens: int = 0
    """Tokens that may be written before a candidate is chosen, or as the whole answer."""
    candidates: tuple[str, ...] = ()
    """Spellings whose log-probs are asked for."""
    cue: str = ""
    """Stands before the candidate where something is written first."""
    temperature: float = 0.0

    def key(self, fingerprint: str) -> str:
        """Names the question as put to one judge: equal keys have equal answers."""
        said = [[message.role, message.content] for message in self.messages]
        settings = [self.max_new_tokens, list(self.candidates), self.cue, self.temperature]
        text = json.dumps([fingerprint, said, settings], ensure_ascii=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def seed(self) -> int:
        """Of what is written at a temperature above 0: a function of the question."""
        return int(self.key("seed")[:8], 16) >> 1


@dataclass(frozen=True, slots=True)
class Answer:
    """What a judge said."""

    text: str = ""
    logprobs: Mapping[str, float] = field(default_factory=dict)
    """Of the candidates, at the place where one is chosen; of those that are likely enough to be told."""
    whole: bool = True
    """False: it was cut where the limit of tokens was reached."""


class Asker(Protocol):
    """Somebody who answers questions."""

    @property
    def fingerprint(self) -> str:
        """Changes with everything that answers depend on beside the question."""
        ...

    def ask(self, questions: Sequence[Question]) -> list[Answer | Failed]:
        """An answer to each, in order; a question that cannot be answered has its own failure."""
        ...
