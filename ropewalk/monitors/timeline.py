"""`timeline.json`: spans as a Chrome trace, which chrome://tracing and Perfetto open.

A lane `actor/rank0` becomes thread `actor/rank0` of process `actor`. The file is valid JSON after every append and
is never held in memory; what a crash tore is left out when it is read.
"""

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

from ropewalk.records.errors import InputError, RunStopped
from ropewalk.records.files import write_atomic
from ropewalk.records.prompt import Json
from ropewalk.records.span import Span

_OPEN, _CLOSE = b"[\n", b"\n]\n"
_HEAD_BYTES = 1 << 16


def to_chrome(spans: Iterable[Span]) -> list[Json]:
    """Trace events: names of processes and threads as their lanes first appear, then one complete event per span."""
    lanes = Lanes()
    return [event for span in spans for event in lanes.events(span)]


def from_chrome(events: Sequence[object]) -> list[Span]:
    """The spans of complete events; other kinds of events only name the lanes.

    Errors: InputError for a complete event without name, start or length.
    """
    names: dict[tuple[object, object], str] = {}
    spans = []
    for event in events:
        if not isinstance(event, dict):
            raise InputError(f"timeline event {event!r} is not an object: write timelines with TimelineFile")
        lane = (event.get("pid"), event.get("tid"))
        if event.get("ph") == "M" and event.get("name") == "thread_name":
            names[lane] = str(event.get("args", {}).get("name"))
        elif event.get("ph") == "X":
            spans.append(_span(event, names.get(lane, f"{lane[0]}/{lane[1]}")))
    return spans


class Lanes:
    """Numbers of processes and threads, handed out in order of appearance."""

    def __init__(self) -> None:
        self._pids: dict[str, int] = {}
        self._tids: dict[str, int] = {}

    def events(self, span: Span) -> list[Json]:
        """The span's event, preceded by the names of a lane that is seen for the first time."""
        process = span.lane.split("/")[0]
        events: list[Json] = []
        if process not in self._pids:
            self._pids[process] = len(self._pids)
            events.append(_named("process_name", self._pids[process], 0, process))
        pid = self._pids[process]
        if span.lane not in self._tids:
            self._tids[span.lane] = len(self._tids)
            events.append(_named("thread_name", pid, self._tids[span.lane], span.lane))
        events.append(
            {
                "ph": "X",
                "name": span.name,
                "cat": "call",
                "pid": pid,
                "tid": self._tids[span.lane],
                "ts": round(span.start_seconds * 1e6, 3),
                "dur": round((span.end_seconds - span.start_seconds) * 1e6, 3),
                "args": dict(span.info),
            }
        )
        return events


class TimelineFile:
    """Appends spans to a Chrome trace. An existing file is continued (a resumed run)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lanes = Lanes()
        earlier = read_timeline(path)[0] if path.exists() else []
        # Rewriting drops a torn end and gives the lanes their old numbers.
        lines = [_encode(event) for span in earlier for event in self._lanes.events(span)]
        self._empty = not lines
        body = _OPEN + b",\n".join(lines)
        self._end = len(body)
        write_atomic(path, body + _CLOSE)
        self._file = path.open("rb+", buffering=0)

    def append(self, spans: Iterable[Span]) -> None:
        """Errors: RunStopped when the disk refuses it; the file then still ends where it did."""
        lines = [_encode(event) for span in spans for event in self._lanes.events(span)]
        if not lines:
            return
        data = (b"" if self._empty else b",\n") + b",\n".join(lines)
        try:
            self._write(data + _CLOSE)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)
                self._write(_CLOSE)
            raise RunStopped(
                f"{self._path} could not be written ({error.strerror}): make room on the disk, then resume the run"
            ) from error
        self._end += len(data)
        self._empty = False

    def close(self) -> None:
        self._file.close()

    def _write(self, data: bytes) -> None:
        self._file.seek(self._end)
        while data:
            data = data[self._file.write(data) :]


def write_timeline(path: Path, spans: Iterable[Span]) -> None:
    """Write a whole timeline in one step (a predicted one, say)."""
    write_atomic(path, _OPEN + b",\n".join(_encode(event) for event in to_chrome(spans)) + _CLOSE)


def read_timeline(path: Path) -> tuple[list[Span], bool]:
    """The spans of a file, and whether it was whole; of a torn file those before the tear.

    Understands the bare list of events and the form `{"traceEvents": [...]}`.
    Errors: InputError if the file is missing or no trace.
    """
    return _parse(path, _read(path, 0))


def read_timeline_end(path: Path, limit_bytes: int) -> tuple[list[Span], bool]:
    """The same for a file of any size: of one above the limit only the end, and the names of lanes at its start."""
    size = path.stat().st_size if path.is_file() else 0
    if size <= limit_bytes:
        return read_timeline(path)
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES).decode("utf-8", "replace")
    names = "\n".join(line for line in head.splitlines()[:-1] if '"ph": "M"' in line)
    tail = _read(path, size - limit_bytes).partition("\n")[2]
    return from_chrome(_before_tear(f"{names}\n{tail}")), False


def _read(path: Path, start: int) -> str:
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read().decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"timeline {path} cannot be read: {error.strerror}") from error


def _parse(path: Path, text: str) -> tuple[list[Span], bool]:
    try:
        value = json.loads(text)
    except ValueError:
        return from_chrome(_before_tear(text)), False
    events = value.get("traceEvents") if isinstance(value, dict) else value
    if not isinstance(events, list):
        raise InputError(f"timeline {path} holds no list of trace events: it is not a Chrome trace")
    return from_chrome(events), True


def _before_tear(text: str) -> list[object]:
    events: list[object] = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            event = json.loads(line.rstrip(","))
            if isinstance(event, dict):
                events.append(event)
    return events


def _span(event: Mapping[str, object], lane: str) -> Span:
    name, start, length, info = event.get("name"), event.get("ts"), event.get("dur"), event.get("args", {})
    if not isinstance(name, str) or not isinstance(start, int | float) or not isinstance(length, int | float):
        raise InputError(
            f"timeline event {dict(event)!r} lacks a name, a start or a length: it is not a complete event"
        )
    return Span(
        name=name,
        lane=lane,
        start_seconds=start / 1e6,
        end_seconds=(start + length) / 1e6,
        info=cast(Mapping[str, Json], info) if isinstance(info, dict) else {},
    )


def _named(kind: str, pid: int, tid: int, name: str) -> Json:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _encode(event: Json) -> bytes:
    return json.dumps(event, ensure_ascii=False).encode()
