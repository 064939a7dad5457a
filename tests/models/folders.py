"""Small model folders on disk, whole ones and damaged ones."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from ropewalk.models.export import save_policy
from ropewalk.models.load import LoadedModel
from ropewalk.models.network import Network
from tests.fakes import EOS_ID, PAD_ID, TURN_END_ID, byte_tokenizer, tiny_llama


def loaded(network: Network | None = None) -> LoadedModel:
    network = network or tiny_llama(1)
    return LoadedModel(network, byte_tokenizer(), (EOS_ID, TURN_END_ID), PAD_ID, network.vocabulary_size)


def policy_folder(place: Path, network: Network | None = None) -> Path:
    return save_policy(loaded(network), place / "policy")


def change_json(path: Path, changes: Mapping[str, object]) -> None:
    data = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(data | dict(changes)))


def change_tensors(folder: Path, *, drop: str | None = None, add: str | None = None) -> None:
    tensors = load_file(folder / "model.safetensors")
    if drop is not None:
        del tensors[drop]
    if add is not None:
        tensors[add] = torch.ones(2)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
