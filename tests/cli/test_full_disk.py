"""A full disk stops a run with one sentence; what it wrote is whole, and it goes on once there is room."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ropewalk.records.files import read_jsonl
from tests.cli.commands import Command, failed, grpo, settings
from tests.cli.disks import Disk, small_disk


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk", request.param) as made:
        yield made


def whole(folder: Path) -> None:
    """Every JSON file and line under a folder can be read, and no temporary file is left."""
    for path in folder.rglob("*"):
        if path.suffix == ".json" and path.name != "timeline.json":
            json.loads(path.read_text())
        if path.suffix == ".jsonl":
            read_jsonl(path)
        assert not path.name.endswith((".tmp", ".part")), path


# A checkpoint of the tiny policy is about 400 kB, a model folder about 150 kB.
@pytest.mark.parametrize("disk", [250, 500, 900], indirect=True)
def test_a_run_on_a_full_disk_stops_and_resumes(ropewalk: Command, tiny_policy: Path, disk: Disk) -> None:
    out = disk.folder / "run"
    told = ropewalk(*grpo(tiny_policy, out))
    failed(told, 1, str(out), "room")
    whole(out)
    disk.grow()
    told = ropewalk("train", "--resume", out)
    assert told.code == 0, told
    assert [row["iteration"] for row in read_jsonl(out / "metrics.jsonl")] == [1, 2, 3, 4, 5, 6]
    assert (out / "model" / "model.safetensors").is_file()
    whole(out)


@pytest.mark.parametrize("disk", [40], indirect=True)
def test_samples_are_written_whole_or_not_at_all(ropewalk: Command, tiny_policy: Path, disk: Disk) -> None:
    out = disk.folder / "samples.jsonl"
    values = {"start_from": tiny_policy, "rollout.prompts": 200}
    failed(ropewalk("sample", "city-pairs", "--out", out, *settings(values)), 1, "no room", "samples.jsonl")
    assert not list(disk.folder.iterdir())


@pytest.mark.parametrize("disk", [100], indirect=True)
def test_a_model_is_exported_whole_or_not_at_all(ropewalk: Command, tiny_policy: Path, disk: Disk) -> None:
    failed(ropewalk("export", tiny_policy, "--out", disk.folder / "model"), 1, "no room", "model")
    assert not list(disk.folder.iterdir())
