"""What is asked of a program, and what was found: data only. Comparing with what was expected is done elsewhere.

No expected value is part of a script or a call, so none ever enters the sandbox. Test code does, but into the
supervisor's process only; see `inside/remote.py` for what the program can see of it (the arguments, nothing else).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ropewalk.tasks.scoring.sandbox.inside.wire import WireError, decode
from ropewalk.tasks.scoring.sandbox.limits import Limits


@dataclass(frozen=True, slots=True)
class Script:
    """Run the program once as a script with this text on stdin."""

    stdin: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """Load the program, call one of its functions with plain data."""

    path: str
    """`solve`, `Box.size` or `Solution().solve`: names joined by dots, called where () follows."""
    args: Sequence[object] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)
    argument: int | None = None
    """The positional argument whose state after the call is the answer; None: what the call returns."""


@dataclass(frozen=True, slots=True)
class TestCode:
    """Run code that asserts something of the program's names; it sees plain data of them, and stand-ins."""

    __test__ = False  # pytest collects classes of this name

    code: str
    names: Mapping[str, str]
    """Name in the test code -> name in the program."""
    setup: str = ""
    """Trusted code that the test needs beside the program (helpers, imports), run before it."""


Request: TypeAlias = Script | Call | TestCode

Status: TypeAlias = Literal[
    "done", "failed", "raised", "broken", "timeout", "memory", "output", "files", "crashed", "not_reached", "refused"
]
"""done: ran to its end (test code: and asserted nothing false) · failed: an assertion · raised: an exception, or an
exit code that is not 0 · broken: could not be loaded · timeout, memory, output, files: a limit · crashed: ended by a
signal, or took its supervisor with it · not_reached: the time for all tests was used up · refused: the request cannot
be sent, which is the test's fault and not the program's."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one request."""

    status: Status
    detail: str = ""
    value: object = None
    """A call's answer, as `wire.decode(..., plain=False)` gives it."""
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0


_SIGKILL, _SIGXCPU = 9, 24
_CPU_SHARE = 0.5
"""SIGXCPU comes at the limit of processor time; SIGKILL a second later for a program that ignores it, and then it has
used this share at least: the kernel's limit counts ticks, which on a busy machine are far more than what was used."""


def finding_of_end(how: str, number: int, limits: Limits, cpu_seconds: float, *, script: bool) -> Finding:
    """What the end of a program's life means. Only a script may end by itself: the others owe an answer.

    `cpu_seconds` is what the program has used in all its life, loading and earlier tests included.
    """
    if how == "exit":
        return Finding("done") if script and number == 0 else Finding("raised", f"it left with exit code {number}")
    if how == "signal":
        if number == _SIGXCPU or (number == _SIGKILL and cpu_seconds >= limits.cpu_seconds * _CPU_SHARE):
            return Finding("timeout", f"{limits.cpu_seconds} s of processor time")
        return Finding("crashed", f"signal {number}")
    if how == "oversize":
        return Finding("output", f"an answer above {limits.output_bytes} bytes")
    if how == "files":
        return Finding("files", f"more than {limits.folder_files} files")
    return Finding("timeout", f"{limits.test_seconds:g} s")


def finding_of_reply(payload: object) -> Finding:
    """What a reply of the program means: the answer, or what it raised. Bytes that mean nothing are `broken`."""
    try:
        reply = decode(payload if isinstance(payload, bytes) else b"", plain=False)
    except WireError as error:
        return Finding("broken", f"no answer: {error}")
    if isinstance(reply, tuple) and len(reply) == 2 and reply[0] == "value":
        return Finding("done", value=reply[1])
    if isinstance(reply, tuple) and len(reply) == 3 and reply[0] == "raised":
        return Finding("raised", printable(f"{reply[1]}: {reply[2]}"))
    return Finding("broken", "no answer")


def printable(text: str) -> str:
    """A program's words, safe for records: one line, 200 characters, no control characters or surrogates."""
    line = text.encode("utf-8", "replace").decode().strip()
    return "".join(letter if letter.isprintable() else " " for letter in line)[:200]
