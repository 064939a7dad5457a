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
        """One finding per request, in order. Consecutive calls go to one life of the program.

        Raises SandboxFault where no sandbox can be started: that says nothing about the program.
        """
        findings: list[Finding] = []
        for kind, group in groupby(requests, type):
            members = list(group)
            if kind is Call:
                findings += self._calls(source, [call for call in members if isinstance(call, Call)])
            else:
                findings += [self._single(source, member) for member in members]
        return findings

    def _calls(self, source: str, calls: Sequence[Call]) -> list[Finding]:
        """A call that ends the program costs itself only: the rest is asked of a new life of it."""
        findings: list[Finding] = []
        while len(findings) < len(calls):
            found = self._life_of_calls(source, calls[len(findings) :])
            findings += found
            if found[-1].status == "broken":
                findings += [found[-1]] * (len(calls) - len(findings))
        return findings

    def _life_of_calls(self, source: str, calls: Sequence[Call]) -> list[Finding]:
        """Findings of the first calls, at least one."""
        payloads: list[bytes] = []
        for call in calls:
            try:
                payloads.append(encode(("call", call.path, tuple(call.args), dict(call.kwargs), call.argument)))
            except WireError as error:
                if not payloads:
                    return [Finding("refused", str(error))]
                break
        findings: list[Finding] = []
        try:
            running, tag = self._begin("calls", source, b"", (payloads,))
            while len(findings) < len(payloads):
                started = time.monotonic()
                verdict = self._verdict(running, tag)
                seconds = time.monotonic() - started
                findings.append(replace(self._finding(verdict, seconds), seconds=seconds))
                if verdict[0] != "reply":
                    return findings
            self._verdict(running, tag)
            self._written(running)
        except Gone as gone:
            # After the last reply nothing is left to lose.
            return findings if len(findings) == len(payloads) else [*findings, self._gone(gone)]
        return findings

    def _single(self, source: str, request: Request) -> Finding:
        started = time.monotonic()
        try:
            if isinstance(request, Script):
                running, tag = self._begin("script", source, request.stdin.encode("utf-8", "surrogatepass"), ())
            else:
                assert isinstance(request, TestCode)
                running, tag = self._begin("asserts", source, b"", (request.setup, request.code, dict(request.names)))
            verdict = self._verdict(running, tag)
            seconds = time.monotonic() - started
            found = self._finding(verdict, seconds)
            out, error = self._written(running)
        except Gone as gone:
            return replace(self._gone(gone), seconds=time.monotonic() - started)
        detail = found.detail if found.status != "raised" or not error else printable(error.strip().splitlines()[-1])
        return replace(found, seconds=seconds, stdout=out, stderr=error, detail=detail)

    def _begin(self, kind: str, source: str, text: bytes, secret: tuple[object, ...]) -> tuple[Running, bytes]:
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

    def _finding(self, verdict: tuple[object, ...], seconds: float) -> Finding:
        limits = self._jail.limits
        match verdict:
            case ("reply", bytes() as payload):
                return finding_of_reply(payload)
            case ("unloaded", bytes() as payload):
                return replace(finding_of_reply(payload), status="broken")
            case ("ended", str() as how, int() as number):
                return finding_of_end(how, number, limits, seconds)
            case ("passed",):
                return Finding("done")
            case (("failed" | "raised") as status, str() as detail):
                return Finding(status, printable(detail))
            case ("unsendable", str() as detail):
                return Finding("refused", printable(detail))
        raise Gone("ended")

    def _written(self, running: Running) -> tuple[str, str]:
        return running.written()

    def _gone(self, gone: Gone) -> Finding:
        if gone.how == "late" or time.monotonic() >= self._end:
            self.close()
            return Finding("not_reached", f"{self._jail.limits.program_seconds:g} s for all tests were used up")
        self.close()
        status, detail = _GONE[gone.how]
        return Finding(status, detail)


__all__ = ["Box", "SandboxFault"]
