"""How completions are sampled, and on which engine."""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import Field

from ropewalk.config.schema import Section
from ropewalk.records.errors import InputError
from ropewalk.records.sample import SamplingRecord


class Episode(Section):
    """How a conversation with an environment is played; a task without one reads none of it."""

    turns: int = Field(16, ge=1)
    """Turns of the policy at most."""
    tokens: int | None = Field(None, ge=1)
    """Tokens the policy says at most, over all its turns."""
    seconds: float | None = Field(600.0, gt=0)
    """Wall-clock seconds at most; looked at between turns, and while the environment answers."""
    cut_turns: Literal["end", "go_on"] = "end"
    """What a turn does to its episode that max_new_tokens has cut: end it, or be answered like any other."""
    calls: Literal["auto", "hermes", "llama3", "python"] = "auto"
    """How the policy writes tool calls; `auto` is what its chat template speaks, else hermes."""
    at_once: int = Field(64, ge=1)
    """Episodes that are open at the same time; the rest wait."""


class Sampling(Section):
    """The whole truth about sampling: generation settings stored in a checkpoint are ignored."""

    temperature: float = Field(1.0, ge=0)
    """Logits are divided by it in sampling and in every log-prob; 0 is greedy choice, refused for training."""
    max_new_tokens: int = Field(256, ge=1)
    """A completion that has not ended by then is cut and finishes as `length`."""
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Strings that end a completion; the text is cut before them, the sampled ids stay."""
    banned: tuple[str, ...] = ()
    """Tokens, as the vocabulary spells them, that the policy may never say: probability exactly 0."""
    episode: Episode = Episode()
    """How conversations are played, where the task has an environment."""


class NativeEngineConfig(Section):
    """The built-in engine: continuous batching over the very network that is trained."""

    kind: Literal["native"] = "native"
    slots: int = Field(64, ge=1)
    """Completions that grow at the same time; the rest wait."""
    cache_tokens: int = Field(65_536, ge=16)
    """Budget of the key/value cache: slots in use x their longest sequence stay within it; what does not fit waits."""
    prefill_tokens: int = Field(8_192, ge=1)
    """Prompt tokens computed in one forward pass; a longer prompt is one pass of its own."""


def resolve(
    sampling: Sampling,
    *,
    words: Mapping[str, int],
    eos_ids: Sequence[int],
    pad_id: int | None,
    vocabulary_size: int,
    special: Collection[str] = (),
) -> SamplingRecord:
    """The resolved record: banned words as ids, joined by all ids that no one can mean to say.

    Those are the padding id and the logits without a token, unless they end a sequence.
    `words` is the tokenizer's vocabulary, `vocabulary_size` the number of logits, `special` the tokens that the text
    of a completion never shows. Raises `InputError` for a banned word that is no token, for one that ends a sequence,
    for a stop string that is special, and if nothing is left to say.
    """
    _check_can_be_read(sampling.stop, words, eos_ids, special)
    banned = {_id_of(word, words) for word in sampling.banned}
    silent = set(range(vocabulary_size)) - set(words.values())
    if pad_id is not None:
        silent.add(pad_id)
    banned |= silent - set(eos_ids)
    if set(range(vocabulary_size)) <= banned | set(eos_ids):
        raise InputError("every token but the end is banned: shorten sampling.banned")
    return SamplingRecord(
        temperature=sampling.temperature,
        max_new_tokens=sampling.max_new_tokens,
        eos_ids=tuple(sorted(set(eos_ids))),
        stop_strings=sampling.stop,
        banned_ids=tuple(sorted(i for i in banned if i < vocabulary_size)),
    )


def _check_can_be_read(
    stop: Sequence[str], words: Mapping[str, int], eos_ids: Sequence[int], special: Collection[str]
) -> None:
    """Stop strings are looked for in the text, which leaves special tokens out."""
    for word in stop:
        if word in special:
            ends = words.get(word) in eos_ids
            mend = (
                "which ends a completion anyway: leave it out"
                if ends
                else (
                    "which no text shows, so that it would never stop: name it in eos_token_id of the model's "
                    "generation_config.json instead"
                )
            )
            raise InputError(f"sampling.stop has the special token {word!r}, {mend}")


def _id_of(word: str, words: Mapping[str, int]) -> int:
    if word in words:
        return words[word]
    near = get_close_matches(word, words, n=1, cutoff=0.0)
    hint = f"; the nearest is {near[0]!r}" if near else ""
    raise InputError(f"sampling.banned names {word!r}, which is not a token of the vocabulary{hint}")
