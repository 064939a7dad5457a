"""What a model folder's files say of it, without loading the model and without torch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tokenizers import Tokenizer

from ropewalk.models.folder import checked_folder, eos_ids_of, read_object
from ropewalk.plan.shape import ModelShape
from ropewalk.records.errors import InputError
from ropewalk.records.prompt import Dialogue

Kind: TypeAlias = Literal["policy", "scorer", "heads"]
"""A language model, a reward model with one head, or one with any number of them."""
Pieces: TypeAlias = tuple[str, ...]
"""A row's texts that are tokenised apart: what is asked, and what is answered."""
_SLOW_TOKENIZERS = ("tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
_LENGTH_BYTES = 8


@dataclass(frozen=True)
class ModelFacts:
    """A folder's model as far as its files tell."""

    folder: Path
    config: Mapping[str, Any]
    shape: ModelShape
    tokenizer: Tokenizer | None
    """None where the folder has no tokenizer.json; transformers makes one from its other files."""
    eos_ids: tuple[int, ...]
    pad_id: int | None
    template: str
    """Its chat template; empty if it has none."""
    notes: tuple[str, ...]

    @property
    def speaks(self) -> bool:
        """Whether it has a chat template, and so can be asked in conversations."""
        return bool(self.template)

    @property
    def words(self) -> Mapping[str, int] | None:
        return None if self.tokenizer is None else self.tokenizer.get_vocab()

    def counts(self, rows: Sequence[Pieces]) -> list[int] | None:
        """Tokens of each row's pieces as they stand; a chat template adds to them. None without a tokenizer.json."""
        if self.tokenizer is None:
            return None
        pieces = [piece for row in rows for piece in row]
        try:
            found = self.tokenizer.encode_batch(pieces, add_special_tokens=False)
        except Exception as error:  # tokenizers raises nothing narrower
            raise InputError(
                f"the vocabulary of {self.folder} cannot spell every text ({error}): "
                "take a model whose words are those of the data"
            ) from error
        lengths = iter([len(encoding.ids) for encoding in found])
        return [sum(next(lengths) for _ in row) for row in rows]


def model_facts(folder: Path, kind: Kind) -> ModelFacts:
    """Look at a folder. Raises `InputError` for what loading it would refuse and its files already show."""
    config, notes = checked_folder(folder)
    _check_kind(folder, config, kind)
    _check_weights(folder)
    shape = ModelShape.from_config(config)
    tokenizer = _tokenizer(folder)
    settings = read_object(folder / "tokenizer_config.json") or {}
    words = tokenizer.get_vocab() if tokenizer else {}
    pad_id = words.get(_token(settings.get("pad_token")), config.get("pad_token_id"))
    return ModelFacts(
        folder=folder,
        config=config,
        shape=shape if kind == "policy" else replace(shape.with_scalar_head(), scalar_heads=_labels(config)),
        tokenizer=tokenizer,
        eos_ids=eos_ids_of(folder, config, words.get(_token(settings.get("eos_token")))),
        pad_id=pad_id,
        template=_template(folder, settings.get("chat_template")),
        notes=tuple(notes),
    )


def strange_word(ours: Mapping[str, int], theirs: Mapping[str, int]) -> str | None:
    """The first word of ours that has another id there, or none."""
    return min((word for word in ours if theirs.get(word) != ours[word]), key=ours.__getitem__, default=None)


def text_of(dialogue: Dialogue) -> str:
    """A prompt's text, without what a chat template puts around it."""
    return dialogue if isinstance(dialogue, str) else "\n".join(message.content for message in dialogue)


def _check_kind(folder: Path, config: Mapping[str, Any], kind: Kind) -> None:
    architectures = config.get("architectures") or []
    scores = any(str(name).endswith("ForSequenceClassification") for name in architectures)
    if kind == "policy" and scores:
        raise InputError(f"{folder} holds a reward model, which cannot speak: name a language model or its run")
    if kind != "policy" and architectures and not scores:
        raise InputError(f"{folder} holds a language model, not a reward model: name a run of method 'reward_model'")
    if kind == "scorer" and _labels(config) != 1:
        raise InputError(
            f"{folder} has {_labels(config)} labels: a reward model is a sequence classifier with exactly one"
        )


def _labels(config: Mapping[str, Any]) -> int:
    return int(config.get("num_labels", len(config.get("id2label", {0: ""}))))


def _check_weights(folder: Path) -> None:
    """Every safetensors file is as long as its own header says, and every file of an index is there."""
    index = read_object(folder / "model.safetensors.index.json") or {}
    for name in sorted(set(map(str, dict(index.get("weight_map", {})).values()))):
        if not (folder / name).is_file():
            raise InputError(f"{folder} lacks {name}, which its index names: copy it there")
    for path in sorted(folder.glob("*.safetensors")):
        if path.stat().st_size != _promised_bytes(path):
            raise InputError(f"{path} is cut short or no safetensors file: fetch it again")


def _promised_bytes(path: Path) -> int | None:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if length > path.stat().st_size:
            return None
        try:
            header = json.loads(file.read(length))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return None
    return _LENGTH_BYTES + length + max(ends, default=0)


def _tokenizer(folder: Path) -> Tokenizer | None:
    path = folder / "tokenizer.json"
    if path.is_file():
        if read_object(path) is None:
            return None
        return Tokenizer.from_file(str(path))
    if not any((folder / name).is_file() for name in _SLOW_TOKENIZERS):
        raise InputError(f"{folder} has no tokenizer: copy tokenizer.json there")
    return None


def _template(folder: Path, setting: Any) -> str:
    """The chat template of a folder: a file of its own, or of tokenizer_config.json, perhaps one of several."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text("utf-8")
    if isinstance(setting, list):
        named = {str(one.get("name")): one.get("template") for one in setting if isinstance(one, Mapping)}
        setting = named.get("default")
    return setting if isinstance(setting, str) else ""


def _token(setting: Any) -> str:
    """A special token as tokenizer_config.json gives it: text, or a table with its content."""
    return str(setting.get("content", "")) if isinstance(setting, Mapping) else str(setting or "")
