"""Networks as plain Hugging Face folders, which transformers loads without ropewalk.

A folder appears whole or not at all: it is written beside its place and renamed. The network is only read.
"""

import copy
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor
from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING

from ropewalk.models.load import Dtype, LoadedModel
from ropewalk.models.network import Network
from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.files import no_room


def save_policy(loaded: LoadedModel, folder: str | Path, *, dtype: Dtype | None = None) -> Path:
    """A causal-LM folder: weights (in `dtype`, else as they are), config, tokenizer, template, end ids.

    Stored generation settings are the ids alone. Raises `InputError` if the folder exists or cannot be written,
    `RunStopped` if there is no room.
    """
    network = loaded.network
    if network.lm_head is None:
        raise InputError(f"a network with heads {sorted(network.heads)} has no policy to save")
    tensors = _body_tensors(network)
    if not network.architecture.tied:
        tensors |= {f"{network.architecture.head_name}.{n}": t for n, t in network.lm_head.state_dict().items()}
    config = _config(network, network.architecture.causal_class, dtype)
    return _write(Path(folder), lambda place: _fill(place, loaded, config, tensors))


def save_scorer(loaded: LoadedModel, folder: str | Path, *, dtype: Dtype | None = None) -> Path:
    """A sequence-classification folder whose `score.weight` is the reward head, with a label for each.

    Raises `InputError` where transformers has no such class for the architecture, or the folder exists.
    """
    network = loaded.network
    if network.reward_head is None:
        raise InputError(f"a network with heads {sorted(network.heads)} has no reward head to save")
    kind = MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING.get(type(network.config), None)
    tensors = _body_tensors(network) | {"score.weight": network.reward_head.weight.detach()}
    config = None
    if kind is not None:
        config = _config(network, kind.__name__, dtype)
        config.num_labels = network.reward_heads  # keeps the labels' names where their number is the same
        config.pad_token_id = loaded.pad_id if loaded.pad_id is not None else loaded.eos_ids[0]
        with torch.device("meta"):
            expected = kind(config).state_dict().keys()
    if config is None or set(expected) != set(tensors):
        raise InputError(
            f"transformers has no sequence classifier for {network.architecture.causal_class} that a reward model "
            "could be saved as: take a backbone such as Llama, Qwen, Mistral or GPT-2"
        )
    return _write(Path(folder), lambda place: _fill(place, loaded, config, tensors))


def _body_tensors(network: Network) -> dict[str, Tensor]:
    prefix = network.architecture.body_prefix
    return {f"{prefix}.{name}": tensor for name, tensor in network.body.state_dict().items()}


def _config(network: Network, architecture: str, dtype: Dtype | None) -> Any:
    """A copy of the config with stock attention (ours is never written) and no stored generation settings."""
    config = copy.deepcopy(network.config)
    config.architectures = [architecture]
    config.dtype = dtype or str(next(network.body.parameters()).dtype).removeprefix("torch.")
    config._attn_implementation = None
    return config


def _fill(place: Path, loaded: LoadedModel, config: Any, tensors: dict[str, Tensor]) -> None:
    dtype = getattr(torch, config.dtype) if isinstance(config.dtype, str) else config.dtype
    weights = {
        name: tensor.detach().to("cpu", dtype if tensor.is_floating_point() else tensor.dtype).contiguous()
        for name, tensor in tensors.items()
    }
    save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(place)
    loaded.tokenizer.save_pretrained(place)
    ends = list(loaded.eos_ids)
    ids = {
        "bos_token_id": loaded.tokenizer.bos_token_id,
        "eos_token_id": ends[0] if len(ends) == 1 else ends,
        "pad_token_id": loaded.pad_id,
    }
    present = {name: value for name, value in ids.items() if value is not None}
    (place / "generation_config.json").write_text(json.dumps(present, indent=2) + "\n", encoding="utf-8")


def _write(folder: Path, fill: Callable[[Path], None]) -> Path:
    if folder.exists():
        raise InputError(f"{folder} exists already: name another folder or remove it")
    place = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        place.mkdir(parents=True)
        fill(place)
        place.rename(folder)
    except (OSError, SafetensorError) as error:
        if no_room(error):
            raise RunStopped(f"there is no room to write {folder}: free some space and try again") from error
        raise InputError(f"{folder} could not be written ({error}): free space or choose another place") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return folder
