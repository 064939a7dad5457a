"""What a model folder says of itself, read before anything in it is loaded."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ropewalk.records.errors import InputError

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_IDS = frozenset({"bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"})
_BOOKKEEPING = frozenset({"transformers_version", "_from_model_config", "_name_or_path", "use_cache"})
_SAMPLING = (
    "do_sample",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "num_beams",
    "max_length",
    "max_new_tokens",
    "bad_words_ids",
    "suppress_tokens",
)


def checked_folder(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """(config.json, notes). Raises `InputError` where weights would need unpickling or the folder's own code."""
    config = read_object(folder / "config.json")
    if config is None:
        raise InputError(f"{folder} has no config.json: give a Hugging Face model folder")
    for name in ("config.json", "tokenizer_config.json"):
        if "auto_map" in (read_object(folder / name) or {}):
            raise InputError(
                f"{folder}/{name} asks to run code from the folder (auto_map): code in a model folder "
                "never runs; take a model whose architecture transformers knows"
            )
    pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if not any(folder.glob("*.safetensors")):
        if pickles:
            raise InputError(
                f"{folder} holds only pickled weights ({pickles[0]}), which can run code when loaded: "
                "convert them to safetensors"
            )
        raise InputError(f"{folder} holds no *.safetensors weights: copy them there")
    if config.get("is_encoder_decoder"):
        raise InputError(f"{folder} is an encoder-decoder: take a decoder-only language model")
    return config, [f"ignored pickled file {name}" for name in pickles]


def eos_ids_of(folder: Path, config: Mapping[str, Any], tokenizer_eos: int | None) -> tuple[int, ...]:
    """The tokenizer's end id first, then those of config.json and generation_config.json."""
    generation = read_object(folder / "generation_config.json") or {}
    declared = [tokenizer_eos, config.get("eos_token_id"), generation.get("eos_token_id")]
    flat = [i for ids in declared for i in (ids if isinstance(ids, list) else [ids]) if i is not None]
    if not flat:
        raise InputError(f"{folder} declares no end-of-sequence id: set eos_token_id in its generation_config.json")
    return tuple(dict.fromkeys(int(i) for i in flat))


def stored_settings(folder: Path, config: Mapping[str, Any]) -> list[str]:
    """A note naming the generation settings stored with the model, all of which are ignored."""
    generation = read_object(folder / "generation_config.json") or {}
    stored = {name: config[name] for name in _SAMPLING if config.get(name) is not None}
    stored |= {k: v for k, v in generation.items() if k not in _IDS | _BOOKKEEPING and v is not None}
    if not stored:
        return []
    listed = ", ".join(f"{name}={value}" for name, value in sorted(stored.items()))
    return [f"ignored the generation settings stored in {folder}: {listed}; the recipe's sampling section is the truth"]


def read_object(path: Path) -> dict[str, Any] | None:
    """A JSON object, or None where there is no such file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not JSON: mend or replace the file") from error
    if not isinstance(data, dict):
        raise InputError(f"{path} does not hold a JSON object: mend or replace the file")
    return data
