"""A conversation with one policy: what is said is remembered, and the answer comes piece by piece.

A model with a chat template hears messages. One without hears one growing text, of which the ids it sampled stay as
they are; once it ends the text, the next message begins a new one. What no longer fits is forgotten from its oldest
turn on, and counted.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ropewalk.models.chat import prompt_ids
from ropewalk.parallel.groups import Group
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Message
from ropewalk.records.sample import Completion, Request, SamplingRecord
from ropewalk.records.version import Draw, sample_seed
from ropewalk.rollout.config import NativeEngineConfig, Sampling
from ropewalk.runtime.config import Hardware
from ropewalk.runtime.prepare import language_of, sampling_record
from ropewalk.runtime.recipe import GRPORecipe, PPORecipe, read_recipe
from ropewalk.runtime.roles import FromPolicy
from ropewalk.runtime.run import model_folder
from ropewalk.runtime.sampler import policy_setup
from ropewalk.runtime.worker import Worker

Ints = npt.NDArray[np.int64]

LEAST_ROOM = 0.25
"""Share of the model's length that an answer is always left, if it may be that long."""
CACHE_TOKENS = 1 << 20
"""More than one conversation fills: the engine's budget is not what ends it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What was said to the model, and its answer."""

    said: str
    answer: str
    answer_ids: Ints
    ended: bool
    """Whether the model itself ended it."""


class Chat:
    """One model and its conversation. Two models side by side are two of these.

    `reference` is `runs/x`, `runs/x@best` or a model folder. A run's model samples as the run did, but for what is
    given here. Errors: those of loading, and `InputError` for a model of another kind.
    """

    def __init__(
        self,
        reference: str | Path,
        *,
        temperature: float | None = None,
        max_new_tokens: int | None = None,
        system: str | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        folder = str(model_folder(str(reference)))
        self.language = language_of(FromPolicy(folder))
        self.speaks = bool(getattr(self.language.tokenizer, "chat_template", None))
        """Whether it has a chat template, and so hears messages."""
        if system is not None and not self.speaks:
            raise InputError(f"{folder} has no chat template, so it cannot be given a system message")
        changes = {"temperature": temperature, "max_new_tokens": max_new_tokens}
        given = {name: value for name, value in changes.items() if value is not None}
        sampling = sampling_of_run(str(reference)).model_copy(update=given)
        self.record: SamplingRecord = sampling_record(sampling, self.language)
        engine = NativeEngineConfig(slots=1, cache_tokens=CACHE_TOKENS)
        worker = Worker(policy_setup(folder, Hardware(device=device), engine), Group())
        assert worker.engine is not None
        self._engine = worker.engine
        self._system, self._seed, self._asked = system, seed, 0
        self._turns: list[Turn] = []
        self.forgotten = 0
        """Turns that the last prompt had no room for."""

    @property
    def turns(self) -> Sequence[Turn]:
        """The whole conversation, forgotten turns included."""
        return tuple(self._turns)

    def clear(self) -> None:
        """Begin anew."""
        self._turns.clear()
        self.forgotten = 0

    def say(self, text: str) -> Iterator[str]:
        """The model's answer in pieces of whole characters, as they are decoded.

        An answer that is broken off (by closing the iterator, or Ctrl-C) is remembered as far as it came. Raises
        `InputError` for a message that the model has no room for.
        """
        if not text.strip():
            raise InputError("an empty message says nothing: write something")
        prompt, room = self._fit(text)
        sampling = replace(self.record, max_new_tokens=min(self.record.max_new_tokens, room))
        name = f"chat-{self._asked}"
        request = Request(name, name, 0, sample_seed(self._seed, Draw.CHAT, name, 0), prompt, sampling)
        self._asked += 1
        return self._stream(text, request)

    def _stream(self, said: str, request: Request) -> Generator[str, None, None]:
        pieces: list[str] = []
        done: Completion | None = None
        following = self._engine.follow(request)
        try:
            while done is None:
                try:
                    piece = next(following)
                except StopIteration as end:
                    done = end.value
                    break
                pieces.append(piece)
                if piece:
                    yield piece
        finally:
            if done is None:
                done = self._break_off()
            ids = done.token_ids if done is not None else np.empty(0, np.int64)
            answer = done.text if done is not None else "".join(pieces)
            self._turns.append(Turn(said, answer, ids, done is not None and done.finish == "stop"))

    def _break_off(self) -> Completion | None:
        """End the running request; what it had said, if it was still there."""
        self._engine.abort()
        return next(iter(list(self._engine.stream())), None)

    def _fit(self, text: str) -> tuple[Ints, int]:
        """The prompt with as many of the newest turns as leave room for an answer, and that room in tokens."""
        most = self.language.max_positions or CACHE_TOKENS
        begin = 0 if self.speaks else max((i + 1 for i, turn in enumerate(self._turns) if turn.ended), default=0)
        wanted = min(self.record.max_new_tokens, max(1, int(LEAST_ROOM * most)))
        for first in range(begin, len(self._turns) + 1):
            prompt = self._prompt(self._turns[first:], text)
            if most - len(prompt) >= wanted or (first == len(self._turns) and len(prompt) < most):
                self.forgotten = first - begin
                return prompt, most - len(prompt)
        raise InputError(f"this message has {len(prompt)} tokens and the model ends at {most}: say it shorter")

    def _prompt(self, turns: Sequence[Turn], text: str) -> Ints:
        if self.speaks:
            messages = [] if self._system is None else [Message("system", self._system)]
            for turn in turns:
                messages += [Message("user", turn.said), Message("assistant", turn.answer)]
            ids = prompt_ids(self.language.tokenizer, (*messages, Message("user", text)))
            return np.array(ids, np.int64)
        pieces = [np.array(prompt_ids(self.language.tokenizer, said), np.int64) for said in (*_saids(turns), text)]
        bos = self.language.tokenizer.bos_token_id
        pieces[1:] = [piece[1:] if len(piece) and piece[0] == bos else piece for piece in pieces[1:]]  # one beginning
        parts: list[Ints] = []
        for piece, turn in zip(pieces, turns, strict=False):
            parts += [piece, turn.answer_ids]
        return np.concatenate([*parts, pieces[-1]])


def _saids(turns: Sequence[Turn]) -> list[str]:
    return [turn.said for turn in turns]


def sampling_of_run(reference: str) -> Sampling:
    """How a run sampled; the defaults for a plain folder or a run that sampled nothing."""
    file = Path(reference.partition("@")[0]) / "recipe.toml"
    recipe = read_recipe(file) if file.is_file() else None
    return recipe.sampling if isinstance(recipe, PPORecipe | GRPORecipe) else Sampling()
