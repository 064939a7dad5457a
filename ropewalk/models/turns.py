"""A conversation turn by turn, as ids: what the policy said stays as it was sampled, what others say is rendered.

    opening ─▶ policy speaks ─▶ between ─▶ policy speaks ─▶ between ─▶ …

`between` is what the template writes from the end of a turn to where the policy speaks again. It is cut out of a
rendering in which a mark stands for the turn, so the template never gets at earlier ids: it may strip spaces or drop
thoughts as it likes. A template in which that piece cannot be found is refused.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from transformers import PreTrainedTokenizerFast

from ropewalk.models.chat import ALTERNATIVES, Tools, encode, named, prompt_ids, rendered_text
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Message, Speaker

_SAID = "(said)"
"""Stands for earlier turns of the policy, whose rendering is not read."""
_WORD_JOINER = "\u2060"


@dataclass(frozen=True)
class Turns:
    """A model's chat template, for conversations that go on. From any thread."""

    tokenizer: PreTrainedTokenizerFast
    eos_ids: tuple[int, ...]
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    """Tokenizers keep settings that one thread may change under another."""
    _longest: list[int] = field(default_factory=list, repr=False)
    """Bytes of the longest token, once it is known."""
    _heard: dict[Speaker, Speaker] = field(default_factory=dict, repr=False)
    """As whom the template lets a speaker be heard."""

    def opening(self, messages: Sequence[Message], tools: Tools = ()) -> list[int]:
        """Ids of the messages that open a conversation, up to where the policy is to speak."""
        with self._lock:
            return prompt_ids(self.tokenizer, tuple(messages), tools)

    def between(
        self, before: Sequence[Message], heard: Sequence[Message], tools: Tools = (), *, ended: bool
    ) -> list[int]:
        """Ids between a turn and the next: the messages `heard`, and what the template puts around them.

        `before` is the conversation up to and with the policy's turn; `ended`: that turn has its end token already.
        Names of special tokens in what is heard are broken up: nobody but the template writes them.
        """
        with self._lock:
            told = [Message(self._as_heard(message.role), self._plain(message.content)) for message in heard]
            stub = [Message(m.role, _SAID) if m.role == "assistant" else m for m in before[:-1]]
            after = self._after_turn(stub, told, tools)
            self._check_heard(told, after)
            ids = encode(self.tokenizer, after)
            first = next((place for place, token in enumerate(ids) if token in self.eos_ids), None)
            if first is None or self.decoded(ids[:first]).strip():
                raise InputError(
                    f"{named(self.tokenizer)} does not close the assistant's turn with an end token "
                    f"{list(self.eos_ids)}, so no conversation can go on: add the template's end token to eos_token_id "
                    f"in generation_config.json, or {ALTERNATIVES}"
                )
            return ids[first + 1 :] if ended else ids

    def exceeds(self, messages: Sequence[Message], tokens: int) -> bool:
        """Whether messages are so long that no encoding of them could have as few tokens: told without encoding."""
        if not self._longest:
            with self._lock:
                self._longest.append(max(16, *(len(token.encode()) for token in self.tokenizer.get_vocab())))
        return sum(len(message.content) for message in messages) > tokens * self._longest[0]

    def decoded(self, ids: Sequence[int]) -> str:
        """Text of ids with the names of special tokens in it; for readers, never to be turned back."""
        with self._lock:
            return str(self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def _after_turn(self, before: Sequence[Message], heard: Sequence[Message], tools: Tools) -> str:
        """What is rendered behind the policy's turn."""
        mark = _mark([message.content for message in (*before, *heard)])
        text = rendered_text(
            self.tokenizer, [*before, Message("assistant", mark), *heard], generation=True, tools=tools
        )
        parts = text.split(mark)
        if len(parts) != 2:
            raise InputError(
                f"{named(self.tokenizer)} writes an earlier turn of the assistant {len(parts) - 1} times, so no "
                f"conversation can go on: {ALTERNATIVES}"
            )
        return parts[1]

    def _check_heard(self, heard: Sequence[Message], after: str) -> None:
        """A template that leaves a message out would have the policy answer what it never read."""
        for message in heard:
            words = [word for word in message.content.split() if word.isascii() and word.isalnum()][:1]
            if words and words[0] not in after:
                raise InputError(
                    f"{named(self.tokenizer)} leaves out a message of the {message.role} ({message.content[:40]!r}): "
                    f"{ALTERNATIVES}"
                )

    def _as_heard(self, role: Speaker) -> Speaker:
        """The role itself, or user where the template knows no such role, or refuses it."""
        if role not in self._heard:
            self._heard[role] = role if role != "tool" or self._renders(role) else "user"
        return self._heard[role]

    def _renders(self, role: Speaker) -> bool:
        mark = _mark([])
        messages = [Message("user", "a"), Message("assistant", "b"), Message(role, mark)]
        try:
            return mark in rendered_text(self.tokenizer, messages, generation=True)
        except InputError:
            return False

    def _plain(self, content: str) -> str:
        for special in self.tokenizer.all_special_tokens:
            if special in content:
                content = content.replace(special, special[:1] + _WORD_JOINER + special[1:])
        return content


def _mark(contents: Sequence[str]) -> str:
    """A word that none of the contents has."""
    number = 0
    while any(f"ropewalk-turn-{number}" in content for content in contents):
        number += 1
    return f"ropewalk-turn-{number}"
