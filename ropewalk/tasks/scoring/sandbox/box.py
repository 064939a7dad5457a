"""A sandbox for one piece of work: programs run in it one after the other, each with its requests.

A box starts its sandbox when it is first needed and starts another when a program has brought it down, within the
time for one program. The first program of a box runs in a fresh sandbox; later ones share its folder, so put trusted
code first.
"""

import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from types import TracebackType

from ropewalk.tasks.scoring.sandbox.inside.wire import WireError, encode
from ropewalk.tasks.scoring.sandbox.jail import Jail
from ropewalk.tasks.scoring.sandbox.program import (
    Call,
    Finding,
    Request,
    Script,
    Status,
    TestCode,
    finding_of_end,
    finding_of_reply,
    printable,
)
from ropewalk.tasks.scoring.sandbox.running import Gone, Running, SandboxFault

_GRACE_SECONDS = 2.0
"""The supervisor keeps the time of a test; the host steps in this much later."""
_GONE: dict[str, tuple[Status, str]] = {
    "timeout": ("timeout", "the sandbox did not answer in time"),
    "output": ("output", "too much output"),
    "memory": ("memory", "too much memory"),
    "ended": ("crashed", "the program brought its supervisor down"),
}


class Box:
    """A context; what it started is gone when it is left. For one thread."""

    def __init__(self, jail: Jail, slot: int) -> None:
        self._jail = jail
        self._slot = slot
        self._end = time.monotonic() + jail.limits.program_seconds
        self._running: Running | None = None

    def __enter__(self) -> "Box":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox, if one runs."""
        if self._running is not None:
            self._running.close()
            self._running = None

    def run(self, source: str, requests: Sequence[Request]) -> list[Finding]:
        """One finding per request, in order. Consecutive calls go to one life of the program, as does test code.

        Raises SandboxFault where no sandbox can be started: that says nothing about the program.
        """
        findings: list[Finding] = []
        for kind, group in groupby(requests, type):
            members = list(group)
            while members:
                found = self._script(source, members[0]) if kind is Script else self._life(source, members)
                if found[-1].status == "broken":
                    found += [found[-1]] * (len(members) - len(found))
                findings += found
                del members[: len(found)]
        return findings

    def _life(self, source: str, requests: Sequence[Request]) -> list[Finding]:
        """Findings of the first requests, at least one: one that ends the program costs itself only."""
        kind = "calls" if isinstance(requests[0], Call) else "asserts"
        payloads: list[object] = []
        for request in requests:
            try:
                payloads.append(_payload(request))
            except WireError as error:
                if not payloads:
                    return [Finding("refused", str(error))]
                break
        findings: list[Finding] = []
        try:
            running, tag = self._begin(kind, source, b"", payloads)
            while len(findings) < len(payloads):
                started = time.monotonic()
                verdict = self._verdict(running, tag)
                seconds = time.monotonic() - started
                findings.append(replace(self._finding(verdict), seconds=seconds))
                if verdict[0] in ("ended", "unloaded"):
                    break
            else:
                self._verdict(running, tag)
            running.written()
        except Gone as gone:
            # After the last verdict nothing is left to lose.
            gone_one = self._gone(gone)
            return findings if len(findings) == len(payloads) else [*findings, gone_one]
        if kind == "asserts":
            # The supervisor has held test code: no program may be forked from it again.
            self.close()
        return findings

    def _script(self, source: str, request: Request) -> list[Finding]:
        assert isinstance(request, Script)
        started = time.monotonic()
        text = request.stdin.encode("utf-8", "surrogatepass")
        if len(text) > min(self._jail.limits.file_bytes, self._jail.limits.folder_bytes // 2):
            return [Finding("refused", f"{len(text)} bytes of stdin do not fit into the program's folder")]
        try:
            running, tag = self._begin("script", source, text)
            found = self._finding(self._verdict(running, tag), script=True)
            out, error = running.written()
        except Gone as gone:
            return [replace(self._gone(gone), seconds=time.monotonic() - started)]
        last = error.strip().rpartition("\n")[2]
        detail = printable(last) if found.status == "raised" and last else found.detail
        seconds = time.monotonic() - started
        return [replace(found, seconds=seconds, stdout=out, stderr=error, detail=detail)]

    def _begin(self, kind: str, source: str, text: bytes, *secret: object) -> tuple[Running, bytes]:
        """Start a life of the program. Its tag is new, and goes over after the program has been forked."""
        if time.monotonic() >= self._end:
            raise Gone("late")
        if self._running is None:
            self._running = Running(self._jail, self._slot)
        tag = secrets.token_bytes(16)
        self._running.send(encode((kind, source, text)))
        self._running.send(encode((tag, *secret)))
        return self._running, tag

    def _verdict(self, running: Running, tag: bytes) -> tuple[object, ...]:
        """The supervisor's next verdict. One without this life's tag is nobody's."""
        limit = time.monotonic() + self._jail.limits.test_seconds + _GRACE_SECONDS
        verdict = running.receive(min(limit, self._end))
        if len(verdict) < 2 or not isinstance(verdict[0], bytes) or not secrets.compare_digest(verdict[0], tag):
            raise Gone("ended")
        return verdict[1:]

    def _finding(self, verdict: tuple[object, ...], *, script: bool = False) -> Finding:
        limits = self._jail.limits
        match verdict:
            case ("reply", bytes() as payload):
                return finding_of_reply(payload)
            case ("unloaded", bytes() as payload):
                return replace(finding_of_reply(payload), status="broken")
            case ("ended", str() as how, int() as number, float() as cpu_seconds):
                return finding_of_end(how, number, limits, cpu_seconds, script=script)
            case ("passed",):
                return Finding("done")
            case (("failed" | "raised") as status, str() as detail):
                return Finding(status, printable(detail))
            case ("refused", str() as detail):
                return Finding("refused", printable(detail))
        raise Gone("ended")

    def _gone(self, gone: Gone) -> Finding:
        """What it means that the sandbox is gone; what is left of it is ended."""
        used_up = f"{self._jail.limits.program_seconds:g} s for all tests were used up"
        late = time.monotonic() >= self._end
        self.close()
        if gone.how == "late":
            return Finding("not_reached", used_up)
        status, detail = _GONE[gone.how]
        return Finding(status, used_up if status == "timeout" and late else detail)


def _payload(request: Request) -> object:
    """What the supervisor gets for a request: a call as the very bytes that the program will read."""
    if isinstance(request, Call):
        return encode(("call", request.path, tuple(request.args), dict(request.kwargs), request.argument))
    assert isinstance(request, TestCode)
    return (request.setup, request.code, dict(request.names))


__all__ = ["Box", "SandboxFault"]
