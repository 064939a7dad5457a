"""Files of JSON lines that survive a crash: a line is written whole or not at all.

A line that was torn by a crash is cut off when the file is opened again, never glued to the next one.
"""

import contextlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias, cast

from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.prompt import Json

Row: TypeAlias = dict[str, Json]

_BLOCK_BYTES = 1 << 16


class LineFile:
    """Appends records to one file; nothing is held back in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        _cut_torn_line(path)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def append(self, record: Mapping[str, Json]) -> None:
        """Write one line; numbers that are not finite become null.

        Errors: RunStopped when the disk refuses it, after taking back whatever part was written.
        """
        line = (json.dumps(finite(dict(record)), ensure_ascii=False, allow_nan=False) + "\n").encode()
        size = os.fstat(self._file).st_size
        written = 0
        try:
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, size)
            raise RunStopped(
                f"{self._path} could not be written ({error.strerror}): make room on the disk, then resume the run"
            ) from error

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def finite(value: Json) -> Json:
    """The same value with every NaN and infinity replaced by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [finite(part) for part in value]
    return value


def truncate_after(path: Path, iteration: int) -> int:
    """Drop the lines of later iterations, and unreadable ones, before a run resumes; the number dropped.

    The file is replaced in one step. Lines without an iteration are kept.
    """
    if not path.exists():
        return 0
    dropped = 0
    fresh = path.with_name(path.name + ".new")
    with path.open("rb") as old, fresh.open("wb") as new:
        for line in old:
            row = parse(line)
            when = row.get("iteration") if row is not None else None
            if row is None or (isinstance(when, int) and when > iteration):
                dropped += 1
            else:
                new.write(line)
        new.flush()
        os.fsync(new.fileno())
    os.replace(fresh, path)
    return dropped


def rows(path: Path) -> Iterator[Row | None]:
    """The records of a file in order, None for a line that cannot be read; nothing if the file is missing."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                yield parse(line)


def ends(path: Path, *, first: int, last: int) -> tuple[list[Row], int]:
    """At most the `first` and the `last` records, whatever the file's size, and how many were unreadable."""
    if not path.is_file():
        return [], 0
    with path.open("rb") as file:
        head: list[bytes] = []
        while len(head) < first and (line := file.readline()):
            head.append(line)
        tail = _last_lines(path, last, file.tell())
    parsed = [parse(line) for line in head + tail if line.strip()]
    kept = [row for row in parsed if row is not None]
    return kept, len(parsed) - len(kept)


def parse(line: bytes) -> Row | None:
    """The record on a line; None if the line is torn, not JSON, or no object."""
    if not line.endswith(b"\n"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast(Row, finite(value)) if isinstance(value, dict) else None


def _last_lines(path: Path, count: int, start: int) -> list[bytes]:
    """The last `count` lines that begin at or after `start`, read backwards from the end in blocks."""
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        data = b""
        while position > start and data.count(b"\n") <= count:
            step = min(_BLOCK_BYTES, position - start)
            position -= step
            file.seek(position)
            data = file.read(step) + data
    lines = data.splitlines(keepends=True)
    if position > start:
        lines = lines[1:]
    return lines[-count:] if count else []


def _cut_torn_line(path: Path) -> None:
    if not path.exists():
        return
    if not path.is_file():
        raise InputError(f"{path} is not a file: move it away or choose another run folder")
    with path.open("rb+") as file:
        position = file.seek(0, os.SEEK_END)
        end = position
        while position > 0:
            step = min(_BLOCK_BYTES, position)
            position -= step
            file.seek(position)
            found = file.read(step).rfind(b"\n")
            if found >= 0:
                position += found + 1
                break
        if position != end:
            file.truncate(position)
