"""Files of an episode into the sandbox and out of it again. Loaded before a program and after it, never beside it."""

import os
import stat

FOLDER = "../work"
"""Beside the folder of whatever runs, which is new for each."""


def put(files: "dict[str, bytes]") -> bool:
    """Write the files; their names are relative and have been checked."""
    os.mkdir(FOLDER)
    for name, content in files.items():
        place = f"{FOLDER}/{name}"
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "xb") as file:
            file.write(content)
    return True


def get(most_files: int, most_bytes: int) -> "list[tuple[str, bytes]] | str | None":
    """The plain files below the folder; a text: why they cannot be kept; None: the folder is gone.

    Links, pipes and names that are no text are left out. Folders that were locked are opened again.
    """
    found: list[tuple[str, bytes]] = []
    total = 0
    try:
        if not stat.S_ISDIR(os.lstat(FOLDER).st_mode):
            return None
    except FileNotFoundError:
        return None
    waiting = [""]
    while waiting:
        below = waiting.pop()
        place = f"{FOLDER}/{below}"
        os.chmod(place, 0o700)
        for entry in sorted(os.scandir(place), key=lambda each: each.name):
            name = f"{below}{entry.name}"
            if not _is_text(name) or len(name) > 255:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(f"{name}/")
            elif entry.is_file(follow_symlinks=False):
                total += entry.stat(follow_symlinks=False).st_size
                if len(found) >= most_files or total > most_bytes:
                    return f"more than {most_files} files or {most_bytes} bytes"
                found.append((name, _content(entry.path)))
            if len(waiting) > most_files:
                return f"more than {most_files} folders"
    return found


def _content(path: str) -> bytes:
    os.chmod(path, 0o600)
    with open(path, "rb") as file:
        return file.read()


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
