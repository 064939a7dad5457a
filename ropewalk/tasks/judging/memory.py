"""Answers on disk: one file of lines that any number of processes read and append to.

    {"key": …, "text": …, "logprobs": …, "whole": …, "check": hash of the rest}

A line is written whole or not at all, under a lock; a line that does not check is skipped, whatever became of it. When
the file is larger than allowed, the newest half is written beside it and takes its place. What is lost costs a
question, never an answer: nothing here decides what is right. A folder that keeps nothing is told of, once.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ropewalk.records.files import write_atomic
from ropewalk.tasks.judging.question import Answer

FILE, LOCK = "answers.jsonl", "lock"
LONGEST_LINE = 2**20
"""Bytes of a line; an answer that is longer is not kept."""


class AnswerFile:
    """A folder's answers by key. Nothing is kept in memory but where each line begins."""

    def __init__(self, folder: Path, megabytes: int, warn: Callable[[str], object] = lambda line: None) -> None:
        self.path = folder / FILE
        self.limit = megabytes * 2**20
        self._warn = warn
        self._warned = False
        self._places: dict[int, int] = {}
        """Offset of each key's newest line, by the key's number: many small answers fit into a file."""
        self._read = 0
        """Bytes of the file whose lines are known."""
        self._inode = -1

    def get(self, keys: Sequence[str]) -> dict[str, Answer]:
        """The answers that are there, of these keys; what cannot be read is not there."""
        try:
            with self.path.open("rb") as file:
                self._look(file)
                places = {key: self._places.get(int(key, 16)) for key in keys}
                found = {key: _answer(_line_at(file, place), key) for key, place in places.items() if place is not None}
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._tell(error)
            return {}
        return {key: answer for key, answer in found.items() if answer is not None}

    def put(self, answers: Mapping[str, Answer]) -> None:
        """Keep these answers; a disk that takes no more costs only time."""
        lines = [line for key, answer in answers.items() if len(line := _line(key, answer)) <= LONGEST_LINE]
        if not lines:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked():
                self._append(b"".join(lines))
                if self.path.stat().st_size > self.limit:
                    self._shrink()
        except OSError as error:
            self._tell(error)

    def _tell(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            why = error.strerror or str(error)
            self._warn(
                f"warning: answers of a judge cannot be kept in {self.path.parent} ({why}): equal questions are asked "
                "again, so mend that folder, name another as memory.folder, or set memory.kind = 'none'"
            )

    def _append(self, lines: bytes) -> None:
        """All lines, or the file as it was; under the lock. A torn end of an earlier crash gets its newline."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            before = os.fstat(descriptor).st_size
            if before and os.pread(descriptor, 1, before - 1) != b"\n":
                lines = b"\n" + lines
            try:
                if os.write(descriptor, lines) < len(lines):
                    raise OSError("no room for all lines")
            except OSError:
                os.ftruncate(descriptor, before)
                raise
        finally:
            os.close(descriptor)

    def _shrink(self) -> None:
        """The newest lines that take half of what is allowed, in a new file; under the lock."""
        with self.path.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - self.limit // 2, 0))
            tail = file.read()
        write_atomic(self.path, tail[tail.find(b"\n") + 1 :])
        self.path.chmod(0o600)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self.path.with_name(LOCK), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _look(self, file: Any) -> None:
        """Learn of lines that came since the last look, or of a file that took the place of the known one."""
        state = os.fstat(file.fileno())
        if state.st_ino != self._inode or state.st_size < self._read:
            self._inode, self._read, self._places = state.st_ino, 0, {}
        file.seek(self._read)
        for line in file:
            if not line.endswith(b"\n"):
                break  # a torn end, or one that is being written
            key = _key(line)
            if key is not None:
                self._places[key] = self._read
            self._read += len(line)


def _line(key: str, answer: Answer) -> bytes:
    content = {"key": key, "text": answer.text, "logprobs": dict(answer.logprobs), "whole": answer.whole}
    return (json.dumps({**content, "check": _check(content)}, separators=(",", ":")) + "\n").encode()


def _check(content: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=8).hexdigest()


def _key(line: bytes) -> int | None:
    """The number of a line's key, without reading the rest."""
    start = b'{"key":"'
    try:
        return int(line[len(start) : len(start) + 32], 16) if line.startswith(start) else None
    except ValueError:
        return None


def _line_at(file: Any, offset: int) -> bytes:
    file.seek(offset)
    return bytes(file.readline(LONGEST_LINE))


def _answer(line: bytes, key: str) -> Answer | None:
    """The answer of a line, if the line is whole and of this key."""
    try:
        content = json.loads(line)
        check = content.pop("check")
        if content["key"] != key or check != _check(content):
            return None
        logprobs = {str(name): float(value) for name, value in content["logprobs"].items()}
        return Answer(str(content["text"]), logprobs, bool(content["whole"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
