"""Removing a folder that a hostile program has filled: links are not followed, depth and permissions do not matter."""

import os
from contextlib import suppress

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str) -> None:
    """Remove a folder with all that is in it. A folder that is gone already is fine.

    Folders are lifted to the top before they are emptied, so that neither recursion nor a path grows with depth.
    """
    try:
        top = os.open(path, _OPEN)
    except FileNotFoundError:
        return
    try:
        lifted = 0
        while folders := _unlink_files(top):
            for name in folders:
                lifted = _lift(top, name, lifted)
    finally:
        os.close(top)
    os.rmdir(path)


def _unlink_files(folder: int) -> list[str]:
    """Remove everything but folders; their names are returned."""
    folders = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                with suppress(FileNotFoundError):
                    os.unlink(entry.name, dir_fd=folder)
    return folders


def _lift(top: int, name: str, lifted: int) -> int:
    """Move the folders within `name` up to `top`, remove the rest and itself."""
    with suppress(FileNotFoundError):
        os.chmod(name, 0o700, dir_fd=top)
        inner = os.open(name, _OPEN, dir_fd=top)
        try:
            for child in _unlink_files(inner):
                lifted += 1
                os.chmod(child, 0o700, dir_fd=inner)
                os.rename(child, f".lifted-{lifted}-{os.getpid()}", src_dir_fd=inner, dst_dir_fd=top)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=top)
    return lifted
