"""One sandbox while it runs: starts it, talks to the supervisor, bounds time, output and memory, ends it.

    this thread ──control──▶ supervisor ─▶ program ──stdout, stderr──▶ this thread
                ◀─verdicts──

Everything waits in one place, `_wait`, for: verdicts, output, room in the control pipe, the tick that looks at
memory, the deadline. What holds: `close` leaves no process, descriptor or file, whatever the program did.
"""

import json
import os
import select
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import Literal

from ropewalk.tasks.scoring.sandbox.inside.wire import WireError, decode, encode
from ropewalk.tasks.scoring.sandbox.jail import ENVIRONMENT, Jail
from ropewalk.tasks.scoring.sandbox.reap import kill_family, kill_namespace
from ropewalk.tasks.scoring.sandbox.remove import remove_tree
from ropewalk.tasks.scoring.sandbox.watch import resident_bytes

_TICK_SECONDS = 0.1
_START_SECONDS = 30.0
"""To start under load; a healthy machine needs a thousandth of it."""
_SMALL_BYTES = 2**16


class SandboxFault(Exception):
    """The sandbox did not work: our side's fault, never a verdict on a program."""


class Gone(Exception):
    """The sandbox is to be ended: timeout, output, memory; or it has ended by itself: ended."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class Running:
    """A started sandbox, of one thread. Raises SandboxFault if it does not start."""

    def __init__(self, jail: Jail, slot: int) -> None:
        self._jail = jail
        self._slot = slot
        self._received = bytearray()
        self._unsent = bytearray()
        self._written = {"stdout": bytearray(), "stderr": bytearray()}
        self._fds: dict[str, int] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = ""
        self._inner = 0
        self._looked = time.monotonic()
        try:
            self._start()
            self._greet()
        except (OSError, ValueError, KeyError) as error:
            self.close()
            raise SandboxFault(f"the sandbox did not start: {error}") from error
        except BaseException:
            self.close()
            raise

    def send(self, payload: bytes) -> None:
        """Hand over one frame; it is written while waiting for the answer."""
        self._unsent += len(payload).to_bytes(4, "big") + payload

    def receive(self, deadline: float) -> tuple[object, ...]:
        """The next verdict. Raises Gone when there will be none."""
        while True:
            size = int.from_bytes(self._received[:4], "big")
            if len(self._received) >= 4 and size > self._jail.limits.output_bytes + _SMALL_BYTES:
                raise Gone("ended")
            if 4 <= len(self._received) >= 4 + size:
                frame = bytes(self._received[4 : 4 + size])
                del self._received[: 4 + size]
                return _verdict(frame)
            self._wait(deadline)

    def written(self) -> tuple[str, str]:
        """What the program has written to stdout and stderr since the last time."""
        for name in self._written:
            while self._drain(name) == "more":
                pass
        out, error = (bytes(part).decode("utf-8", "replace") for part in self._written.values())
        for part in self._written.values():
            part.clear()
        return out, error

    def close(self) -> None:
        """Kill and reap everything, close every descriptor, remove the folder."""
        if self._process is not None:
            if self._jail.isolation == "bubblewrap":
                kill_namespace(self._process, self._fds.get("namespace"))
            else:
                kill_family(self._process, self._jail.user(self._slot) if self._jail.first_user is not None else None)
            self._process = None
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()
        if self._folder:
            remove_tree(self._folder)
            self._folder = ""

    def _start(self) -> None:
        names = ("control", "verdicts", "stdout", "stderr", "info", "filter")
        theirs: dict[str, int] = {}
        for name in names:
            read, write = os.pipe()
            theirs[name], self._fds[name] = (read, write) if name in ("control", "filter") else (write, read)
            self._fds[f"their {name}"] = theirs[name]
        jail = self._jail
        user = None
        if jail.isolation == "process":
            user = jail.user(self._slot)
            self._folder = _private_folder(jail, user)
        os.write(self._fds["filter"], jail.filter or b"")
        self._shut("filter")
        filter_fd = theirs["filter"] if jail.filter else None
        inherited = [theirs["control"], theirs["verdicts"], theirs["info"], theirs["filter"]]
        self._process = subprocess.Popen(
            jail.command(control=theirs["control"], info=theirs["info"], filter_fd=filter_fd),
            stdin=subprocess.DEVNULL,
            stdout=theirs["stdout"],
            stderr=theirs["stderr"],
            pass_fds=[*inherited, *([] if jail.user_namespace is None else [jail.user_namespace])],
            env=dict(ENVIRONMENT),
            cwd=self._folder or "/",
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
        self._settings = jail.settings(self._slot, self._folder, control=theirs["control"], verdicts=theirs["verdicts"])
        for name in names:
            self._shut(f"their {name}")

    def _greet(self) -> None:
        """Send the supervisor and its settings; wait until it stands."""
        self._poll = select.poll()
        for name in ("verdicts", "stdout", "stderr"):
            os.set_blocking(self._fds[name], False)
            self._poll.register(self._fds[name], select.POLLIN)
        os.set_blocking(self._fds["control"], False)
        self.send(self._jail.interpreter.bundle)
        self.send(encode(self._settings))
        try:
            ready = self.receive(time.monotonic() + _START_SECONDS)
        except Gone as gone:
            raise SandboxFault(f"the sandbox did not start ({gone.how}): {self.written()[1][-300:]}") from None
        if ready != ("ready",):
            raise SandboxFault("the sandbox did not start: no word of its supervisor")
        assert self._process is not None
        self._inner = self._process.pid
        if self._jail.isolation == "bubblewrap":
            self._inner = int(json.loads(os.read(self._fds["info"], _SMALL_BYTES))["child-pid"])
            self._fds["namespace"] = os.pidfd_open(self._inner)

    def _wait(self, deadline: float) -> None:
        if self._jail.stopping.is_set():
            raise SandboxFault("the pool of sandboxes was stopped")
        left = deadline - time.monotonic()
        if left <= 0:
            raise Gone("timeout")
        control = self._fds["control"]
        if self._unsent:
            self._poll.register(control, select.POLLOUT)
        events = self._poll.poll(min(left, _TICK_SECONDS) * 1000)
        ready = {fd for fd, _ in events}
        if self._unsent:
            self._poll.unregister(control)
            if control in ready:
                self._write(control)
        for name in self._written:
            if self._fds[name] in ready and self._drain(name) == "end":
                self._poll.unregister(self._fds[name])
        if self._fds["verdicts"] in ready:
            self._read()
        self._look()

    def _look(self) -> None:
        """Ten times a second: is the memory of all processes together within its limit?"""
        now = time.monotonic()
        if self._inner and now - self._looked >= _TICK_SECONDS:
            self._looked = now
            if resident_bytes(self._inner) > self._jail.limits.memory_bytes:
                raise Gone("memory")

    def _write(self, control: int) -> None:
        try:
            del self._unsent[: os.write(control, self._unsent[:_SMALL_BYTES])]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._unsent.clear()

    def _read(self) -> None:
        try:
            data = os.read(self._fds["verdicts"], 2**20)
        except BlockingIOError:
            return
        if not data:
            raise Gone("ended")
        self._received += data

    def _drain(self, name: str) -> Literal["more", "nothing", "end"]:
        try:
            data = os.read(self._fds[name], _SMALL_BYTES)
        except BlockingIOError:
            return "nothing"
        self._written[name] += data
        if len(self._written[name]) > self._jail.limits.output_bytes:
            raise Gone("output")
        return "more" if data else "end"

    def _shut(self, name: str) -> None:
        os.close(self._fds.pop(name))


def _verdict(frame: bytes) -> tuple[object, ...]:
    try:
        verdict = decode(frame, plain=False)
    except WireError:
        raise Gone("ended") from None
    if not isinstance(verdict, tuple):
        raise Gone("ended")
    return verdict


def _private_folder(jail: Jail, user: int | None) -> str:
    folder = tempfile.mkdtemp(prefix="ropewalk-sandbox-")
    if jail.packages:
        os.mkdir(f"{folder}/packages", 0o755)
        for name, place in jail.packages.items():
            os.symlink(place, f"{folder}/packages/{name}")
    if user is not None:
        with suppress(OSError):
            os.chown(folder, user, user)
    return folder
