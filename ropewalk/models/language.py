"""How a model's text becomes ids and back, without its weights: what a controller needs of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from ropewalk.models.config import FreshModel
from ropewalk.models.folder import checked_folder, eos_ids_of, stored_settings
from ropewalk.models.load import local_folder, tokenizer_in, word_tokenizer


@dataclass(frozen=True, slots=True)
class Language:
    """A tokenizer and the facts that sampling and packing need."""

    tokenizer: PreTrainedTokenizerFast
    eos_ids: tuple[int, ...]
    pad_id: int | None
    vocabulary_size: int
    """Number of logits."""
    max_positions: int | None
    notes: tuple[str, ...] = ()
    """What the folder says that is not used."""


def load_language(path: str | Path) -> Language:
    """The language of a model folder (or hub id). Raises `InputError` as loading the model would."""
    folder = local_folder(path)
    config, notes = checked_folder(folder)
    tokenizer = tokenizer_in(folder)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else config.get("pad_token_id")
    positions = config.get("max_position_embeddings", config.get("n_positions"))
    return Language(
        tokenizer=tokenizer,
        eos_ids=eos_ids_of(folder, config, tokenizer.eos_token_id),
        pad_id=pad,
        vocabulary_size=int(config["vocab_size"]),
        max_positions=None if positions is None else int(positions),
        notes=(*notes, *stored_settings(folder, config)),
    )


def word_language(config: FreshModel, words: Sequence[str], eos: str, pad: str) -> Language:
    """The language of a fresh model over a word list."""
    tokenizer = word_tokenizer(words, eos, pad)
    return Language(
        tokenizer=tokenizer,
        eos_ids=(int(tokenizer.eos_token_id),),
        pad_id=int(tokenizer.pad_token_id),
        vocabulary_size=len(tokenizer),
        max_positions=config.max_positions,
    )
