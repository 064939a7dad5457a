"""Files of JSON lines that survive a crash: a line is written whole or not at all.

A line that was torn by a crash is cut off when the file is opened again, never glued to the next one.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias, cast

from ropewalk.records.errors import InputError
from ropewalk.records.files import append_jsonl, mend_jsonl
from ropewalk.records.prompt import Json

Row: TypeAlias = dict[str, Json]

_BLOCK_BYTES = 1 << 16


class LineFile:
    """Appends records to one file; nothing is held back in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.exists():
            if not path.is_file():
                raise InputError(f"{path} is not a file: move it away or choose another run folder")
            mend_jsonl(path)

    def append(self, record: Mapping[str, Json]) -> None:
        """Write one line whole; numbers that are not finite become null.

        Errors: RunStopped when the disk is full; the file is then as long as before.
        """
        append_jsonl(self._path, record)

    def close(self) -> None:
        """Nothing is held open; here for symmetry with other files of a run."""


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
