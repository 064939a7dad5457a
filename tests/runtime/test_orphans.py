"""A child that outlives nobody: it ends with its parent, and takes away what its parent can no longer."""

import multiprocessing
import time
from pathlib import Path

from ropewalk.runtime.orphans import end_with_parent

WAIT_SECONDS = 60.0


def _child(folder: str, ready: str) -> None:
    end_with_parent(leaving=Path(folder))
    Path(ready).touch()
    time.sleep(10 * WAIT_SECONDS)


def _parent(folder: str, ready: str) -> None:
    multiprocessing.get_context("forkserver").Process(target=_child, args=(folder, ready)).start()
    time.sleep(10 * WAIT_SECONDS)


def _until(done: Path, *, holds: bool) -> None:
    give_up = time.monotonic() + WAIT_SECONDS
    while done.exists() is not holds:
        assert time.monotonic() < give_up, f"{done.name} is {'not ' if holds else 'still '}there"
        time.sleep(0.02)


def test_the_folder_of_a_killed_parent_goes_with_its_children(tmp_path: Path) -> None:
    """Fault G9: SIGKILL leaves no temporary folder, though the parent could remove none."""
    folder, ready, other = tmp_path / "rendezvous", tmp_path / "ready", tmp_path / "other"
    for made in (folder, other):
        made.mkdir()
        (made / "file").touch()
    parent = multiprocessing.get_context("spawn").Process(target=_parent, args=(str(folder), str(ready)))
    parent.start()
    _until(ready, holds=True)
    assert folder.exists(), "as long as the parent lives, the folder is its own affair"
    parent.kill()
    parent.join()
    _until(folder, holds=False)
    assert (other / "file").exists()
