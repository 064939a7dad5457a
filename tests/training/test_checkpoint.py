"""Checkpoints are whole or not there, whatever happens at any write."""

import errno
import io
import json
import shutil
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import safetensors.torch
import torch

from ropewalk.records.errors import InputError, RunStopped
from ropewalk.training import checkpoint
from ropewalk.training.checkpoint import best, checkpoints, load, mark_best, newest, prune, save

TENSORS = {
    "actor": {
        "network/w": torch.arange(6, dtype=torch.float32).reshape(2, 3) / 7,
        "network/scalar": torch.tensor(3, dtype=torch.int64),
        "network/half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "network/none": torch.zeros(0, 4),
        "network/turned": torch.arange(6.0).reshape(2, 3).t(),
    },
    "critic": {"flags": torch.tensor([True, False])},
}
STATE = {"ledger": {"epoch": 1, "taken": [1, 2]}, "note": "ähm", "beta": 0.1, "rng": 2**63}


def write(root: Path, step: int, **more: Any) -> Path:
    return save(root, step, tensors=TENSORS, state=STATE, **more)


def test_what_is_loaded_is_what_was_saved(tmp_path: Path) -> None:
    """Fault I6: every tensor of every role comes back bit for bit, with its dtype and shape."""
    found = load(write(tmp_path, 3))
    assert found.step == 3 and found.state == STATE
    assert found.tensors.keys() == TENSORS.keys()
    for role, named in TENSORS.items():
        assert found.tensors[role].keys() == named.keys()
        for name, tensor in named.items():
            assert found.tensors[role][name].dtype == tensor.dtype
            assert torch.equal(found.tensors[role][name], tensor)


def test_the_files_are_plain_safetensors(tmp_path: Path) -> None:
    plain = safetensors.torch.load_file(write(tmp_path, 3) / "actor.safetensors")
    assert all(torch.equal(plain[name], tensor) for name, tensor in TENSORS["actor"].items())


class Faulty(io.RawIOBase):
    """A file on a disk that fills up: write number `left` and all after it fail."""

    def __init__(self, file: BinaryIO, disk: "Disk") -> None:
        self.file, self.disk = file, disk

    def write(self, data: Any) -> int:
        self.disk.writes += 1
        if self.disk.writes > self.disk.allowed:
            self.file.write(memoryview(data)[: len(data) // 2])
            raise self.disk.error
        return self.file.write(data)

    def fileno(self) -> int:
        return self.file.fileno()

    def close(self) -> None:
        self.file.close()


class Disk:
    def __init__(self, allowed: float, error: BaseException) -> None:
        self.allowed, self.error, self.writes = allowed, error, 0

    def __call__(self, path: Path) -> BinaryIO:
        return Faulty(path.open("xb"), self)  # type: ignore[return-value]


def count_writes(root: Path) -> int:
    disk = Disk(float("inf"), OSError())
    write(root, 1, opener=disk)
    return disk.writes


def test_a_full_disk_at_any_write_leaves_the_earlier_checkpoint(tmp_path: Path) -> None:
    """Fault I3: an error at each write call; nothing half-written is visible, the message says what to do."""
    writes = count_writes(tmp_path / "count")
    assert writes > 8
    for allowed in range(writes):
        root = tmp_path / str(allowed)
        first = write(root, 1)
        with pytest.raises(
            RunStopped, match=r"step-00000002 could not be written \(No space left on device\): make room"
        ):
            write(root, 2, opener=Disk(allowed, OSError(errno.ENOSPC, "No space left on device")))
        assert newest(root).path == first and newest(root).broken == ()
        assert sorted(path.name for path in root.iterdir()) == ["step-00000001"]
        assert load(first).state == STATE


def test_a_kill_at_any_write_leaves_the_earlier_checkpoint(tmp_path: Path) -> None:
    """Fault I3: what a killed process leaves is hidden, never taken for a checkpoint, and swept by the next save."""
    for allowed in range(count_writes(tmp_path / "count")):
        root = tmp_path / str(allowed)
        first = write(root, 1)
        with pytest.raises(KeyboardInterrupt):
            write(root, 2, opener=Disk(allowed, KeyboardInterrupt()))
        assert newest(root).path == first and newest(root).broken == ()
        second = write(root, 2)
        assert newest(root).path == second
        assert sorted(path.name for path in root.iterdir()) == ["step-00000001", "step-00000002"]


@pytest.mark.parametrize("name", ["actor.safetensors", "critic.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("harm", ["cut", "delete", "flip"])
def test_a_harmed_checkpoint_is_named_and_passed_over(tmp_path: Path, name: str, harm: str) -> None:
    """Fault I3: truncate, delete or alter each file of the newest save; an explicit path to it is an error."""
    first, second = write(tmp_path, 1), write(tmp_path, 2)
    file = second / name
    if harm == "delete":
        file.unlink()
    else:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data[:-1] if harm == "cut" else data)
    if name == "manifest.json" and harm == "flip":
        manifest = json.loads((first / name).read_text())
        manifest["files"]["state.json"]["sha256"] = "0" * 64
        file.write_text(json.dumps(manifest))
    found = newest(tmp_path)
    assert found.path == first
    assert len(found.broken) == 1 and "step-00000002 is broken" in found.broken[0]
    with pytest.raises(InputError, match="step-00000002 is broken"):
        load(second)


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    assert newest(tmp_path / "none").path is None
    (tmp_path / ".step-00000001.77").mkdir()
    assert newest(tmp_path).path is None
    with pytest.raises(InputError, match="is broken"):
        load(tmp_path / "step-00000009")


def test_a_step_can_be_saved_again(tmp_path: Path) -> None:
    write(tmp_path, 1)
    again = save(tmp_path, 1, tensors={}, state={"n": 2})
    assert load(again).state == {"n": 2}


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    paths = [write(tmp_path, step) for step in (1, 2, 10, 11, 12)]
    mark_best(paths[1], 0.5)
    assert best(tmp_path) == (paths[1], 0.5)
    assert prune(tmp_path, keep=2) == [paths[0], paths[2]]
    assert checkpoints(tmp_path) == [paths[1], paths[3], paths[4]]
    mark_best(paths[4], 0.75)
    assert prune(tmp_path, keep=1) == [paths[1], paths[3]]
    with pytest.raises(InputError, match="at least one"):
        prune(tmp_path, keep=0)
    shutil.rmtree(paths[4])
    assert best(tmp_path) is None
    (tmp_path / "best.json").write_text("{")
    with pytest.raises(InputError, match=r"best\.json is not readable: delete it"):
        best(tmp_path)
    (tmp_path / "best.json").unlink()
    (tmp_path / "best.json").mkdir()
    with pytest.raises(RunStopped, match=r"best\.json could not be written"):
        mark_best(paths[1], 0.5)


def test_another_format_is_refused_with_a_sentence(tmp_path: Path) -> None:
    path = write(tmp_path, 1)
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "format": checkpoint.FORMAT + 1}))
    with pytest.raises(InputError, match="of format 2"):
        load(path)


def test_a_truly_full_device_is_one_sentence(tmp_path: Path) -> None:
    """Fault I3 with the kernel's own error, met when buffers are flushed."""
    with pytest.raises(RunStopped, match="No space left on device"):
        write(tmp_path, 1, opener=lambda path: Path("/dev/full").open("wb"))  # noqa: SIM115
    assert not list(tmp_path.iterdir())
