"""Checkpoints that are whole or not there.

A checkpoint is a folder `step-<n>` with one safetensors file per role, `state.json`, and `manifest.json`, written
last, which holds the size and hash of every other file. All of it is written into a hidden folder that is renamed
when it is complete, so a name without the leading dot is complete unless something harmed it afterwards; the manifest
shows that too.
"""

import hashlib
import json
import os
import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias, TypedDict

import safetensors
import torch

from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.prompt import Json

FORMAT = 1
MANIFEST = "manifest.json"
STATE = "state.json"
BEST = "best.json"
CHUNK_BYTES = 1 << 24
DTYPES: Mapping[torch.dtype, str] = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class _Entry(TypedDict):
    bytes: int
    sha256: str


class _Manifest(TypedDict):
    format: int
    step: int
    files: dict[str, _Entry]


Tensors: TypeAlias = Mapping[str, Mapping[str, torch.Tensor]]
Opener: TypeAlias = Callable[[Path], BinaryIO]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A verified checkpoint: tensors by role and name, and the JSON state."""

    path: Path
    step: int
    tensors: Tensors
    state: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Found:
    """The newest complete checkpoint, and the broken ones passed over on the way to it."""

    path: Path | None
    broken: tuple[str, ...] = ()
    """One sentence each, newest first."""


def _open(path: Path) -> BinaryIO:
    return path.open("xb")


def save(root: Path, step: int, *, tensors: Tensors, state: Mapping[str, Json], opener: Opener = _open) -> Path:
    """Write checkpoint `step` under `root` and return its folder; one of the same step is replaced.

    Raises `RunStopped` when it cannot be written (a full disk): then nothing half-written is visible and every
    earlier checkpoint is untouched.
    """
    final = folder_of(root, step)
    temporary = root / f".{final.name}.{os.getpid()}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        for left_over in root.glob(".step-*"):
            shutil.rmtree(left_over)
        temporary.mkdir()
        files: dict[str, _Entry] = {}
        for role, named in tensors.items():
            with _HashingFile(temporary / f"{role}.safetensors", opener) as file:
                _write_safetensors(file, named)
            files[f"{role}.safetensors"] = file.entry()
        files[STATE] = _write_json(temporary / STATE, dict(state), opener)
        _write_json(temporary / MANIFEST, {"format": FORMAT, "step": step, "files": files}, opener)
        _sync_folder(temporary)
        if final.exists():
            shutil.rmtree(final)
        temporary.rename(final)
        _sync_folder(root)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise RunStopped(
            f"checkpoint {final} could not be written ({error.strerror or error}): make room or mend the folder, "
            "then resume; earlier checkpoints are whole"
        ) from error
    return final


def load(path: Path) -> Checkpoint:
    """The checkpoint in this very folder. Raises `InputError` if anything in it is missing or was altered."""
    manifest = _verified(path)
    tensors: dict[str, dict[str, torch.Tensor]] = {}
    for name in manifest["files"]:
        if name.endswith(".safetensors"):
            with safetensors.safe_open(path / name, framework="pt") as file:
                tensors[name.removesuffix(".safetensors")] = {key: file.get_tensor(key) for key in list(file.keys())}
    state: dict[str, Json] = json.loads((path / STATE).read_text())
    return Checkpoint(path, manifest["step"], tensors, state)


def newest(root: Path) -> Found:
    """The newest complete checkpoint under `root`; broken ones are named, never used."""
    broken: list[str] = []
    for path in reversed(checkpoints(root)):
        try:
            _verified(path)
        except InputError as error:
            broken.append(str(error))
        else:
            return Found(path, tuple(broken))
    return Found(None, tuple(broken))


def mark_best(path: Path, value: float) -> None:
    """Record that this checkpoint is the best so far, by the number `value`; `prune` keeps it."""
    temporary = path.parent / f".{BEST}.{os.getpid()}"
    try:
        temporary.write_text(json.dumps({"checkpoint": path.name, "value": value}))
        temporary.replace(path.parent / BEST)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunStopped(
            f"{path.parent / BEST} could not be written ({error.strerror}): make room or mend the folder, then resume"
        ) from error


def best(root: Path) -> tuple[Path, float] | None:
    """The checkpoint marked as the best, and its number; None if none is marked or it is gone."""
    if not (root / BEST).exists():
        return None
    try:
        marked = json.loads((root / BEST).read_text())
        path, value = root / str(marked["checkpoint"]), float(marked["value"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{root / BEST} is not readable: delete it, the best checkpoint is marked anew") from error
    return (path, value) if path.is_dir() else None


def prune(root: Path, *, keep: int) -> list[Path]:
    """Remove all but the newest `keep` checkpoints and the best; returns those removed."""
    if keep < 1:
        raise InputError(f"at least one checkpoint must be kept, got {keep}")
    marked = best(root)
    old = [path for path in checkpoints(root)[:-keep] if marked is None or path != marked[0]]
    for path in old:
        hidden = root / f".{path.name}.old"
        path.rename(hidden)
        shutil.rmtree(hidden)
    return old


def checkpoints(root: Path) -> list[Path]:
    """Every checkpoint folder under `root`, oldest first, broken or not."""
    return sorted(path for path in root.glob("step-*") if path.is_dir())


def folder_of(root: Path, step: int) -> Path:
    """Where checkpoint `step` lives."""
    return root / f"step-{step:08d}"


def _verified(path: Path) -> _Manifest:
    def broken(what: str) -> InputError:
        return InputError(f"checkpoint {path} is broken ({what}): resume from another one")

    try:
        manifest: _Manifest = json.loads((path / MANIFEST).read_text())
        files = manifest["files"]
        if manifest["format"] != FORMAT:
            raise InputError(f"checkpoint {path} is of format {manifest['format']}: resume with the version it is of")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise broken(f"no readable {MANIFEST}") from error
    for name, entry in files.items():
        file = path / name
        if not file.is_file():
            raise broken(f"{name} is missing")
        if file.stat().st_size != entry["bytes"]:
            raise broken(f"{name} has {file.stat().st_size} bytes of {entry['bytes']}")
        if _hash_of(file) != entry["sha256"]:
            raise broken(f"{name} was altered")
    return manifest


class _HashingFile:
    """A new file that hashes what is written to it and is on disk when it closes."""

    def __init__(self, path: Path, opener: Opener) -> None:
        self._file = opener(path)
        self._hash = hashlib.sha256()
        self._bytes = 0

    def __enter__(self) -> "_HashingFile":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                self._file.flush()
                os.fsync(self._file.fileno())
        finally:
            self._file.close()

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        for start in range(0, len(view), CHUNK_BYTES):
            chunk = view[start : start + CHUNK_BYTES]
            self._file.write(chunk)
            self._hash.update(chunk)
        self._bytes += len(view)

    def entry(self) -> _Entry:
        return {"bytes": self._bytes, "sha256": self._hash.hexdigest()}


def _write_safetensors(file: _HashingFile, tensors: Mapping[str, torch.Tensor]) -> None:
    """The safetensors format: header length (u64), JSON header, then the tensors' bytes.

    Written tensor by tensor, so that no second copy of a model is made and the hash needs no second read.
    """
    header: dict[str, Json] = {}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for tensor in tensors.values():
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        file.write(flat.view(torch.uint8).numpy().data)


def _write_json(path: Path, value: Mapping[str, object], opener: Opener) -> _Entry:
    with _HashingFile(path, opener) as file:
        file.write(json.dumps(value, indent=1).encode())
    return file.entry()


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
