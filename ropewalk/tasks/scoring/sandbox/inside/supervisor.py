"""The trusted side within the sandbox: forks the program, asks it, ends it, and tells the host what happened.

    host ──frames──▶ control ┐                        ┌─ pipe ─▶ program (its own process, forked first)
                          supervisor ── asks, waits ┤
    host ◀─verdicts── out ┘                         └◀ pipe ── program's replies

A session is one life of the program. Its first frame is what the program may know (source, input); the program is
forked then; only after that the second frame is read: the tag of this session and what is asked. So neither tag nor
tests are in the memory that the program inherits (a sandbox that has held test code gets no further session), and
every verdict carries the tag. Waits for: the program's
reply or end, the deadline, the host's end (its end of the control pipe closes: everything is killed). Builtins only.
"""

import faulthandler
import os
import resource
import select
import sys
import time

from ropewalk.tasks.scoring.sandbox.inside.program import Settings, close_others, confine, run_whole, serve
from ropewalk.tasks.scoring.sandbox.inside.remote import Unsendable, asked, of_the_program
from ropewalk.tasks.scoring.sandbox.inside.wire import WireError, decode, encode, receive, send

_TICK_SECONDS = 0.05
_SIGKILL = 9  # `signal` is not loaded inside: it brings enum along.
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 4, 36, 38


class Ended(BaseException):
    """The program's life is over: exit (code), signal (number), timeout, files or oversize. No test may swallow it."""

    def __init__(self, how: str, number: int = 0, cpu_seconds: float = 0.0) -> None:
        self.how = how
        self.number = number
        self.cpu_seconds = cpu_seconds

    def told(self) -> tuple[str, str, int, float]:
        """As a verdict."""
        return ("ended", self.how, self.number, self.cpu_seconds)


class Life:
    """One process of the program and the two pipes to it."""

    def __init__(self, pid: int, inbox: int, outbox: int, settings: Settings) -> None:
        self.pid = pid
        self.inbox = inbox
        self.outbox = outbox
        self.settings = settings
        self.pidfd = os.pidfd_open(pid)
        self.received = bytearray()
        self.ended: Ended | None = None
        self.silent = False
        os.set_blocking(outbox, False)
        self.poll = select.poll()
        self.poll.register(outbox, select.POLLIN)
        self.poll.register(self.pidfd, select.POLLIN)
        self.control = int(settings["control"] or 0)
        self.poll.register(self.control, 0)
        self.start_clock()

    def tell(self, *verdict: object) -> None:
        """Send the host one verdict."""
        send(int(self.settings["verdicts"] or 0), encode(verdict))

    def start_clock(self) -> None:
        """A new test begins: it has its own time."""
        self.deadline = time.monotonic() + float(self.settings["test_seconds"] or 0)

    def ask(self, payload: bytes) -> bytes:
        """Send a request, wait for the reply. Raises Ended; after that, always again."""
        if self.ended:
            raise self.ended
        try:  # noqa: SIM105  contextlib is not loaded inside
            send(self.inbox, payload)
        except BrokenPipeError:
            pass  # It is dead or dying: `frame` says how.
        return self.frame()

    def frame(self) -> bytes:
        """The program's next reply. Raises Ended when there will be none."""
        try:
            while (frame := self._take()) is None:
                self._wait()
        except Ended as ended:
            self.ended = ended
            raise
        return frame

    def end(self) -> Ended:
        """Wait until the program ends by itself or must be ended."""
        try:
            while True:
                self._wait()
        except Ended as ended:
            return ended

    def close(self) -> None:
        """Kill what is left, reap it, close the pipes."""
        sweep(self.pid, alone=bool(self.settings["alone"]))
        for fd in (self.inbox, self.outbox, self.pidfd):
            os.close(fd)

    def _take(self) -> bytes | None:
        size = int.from_bytes(self.received[:4], "big")
        if len(self.received) >= 4 and size > int(self.settings["output_bytes"] or 0):
            raise Ended("oversize")
        if len(self.received) < 4 + size or len(self.received) < 4:
            return None
        frame = bytes(self.received[4 : 4 + size])
        del self.received[: 4 + size]
        return frame

    def _wait(self) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Ended("timeout")
        gone = False
        for fd, _ in self.poll.poll(min(left, _TICK_SECONDS) * 1000):
            if fd == self.control:
                sweep(self.pid, alone=bool(self.settings["alone"]))
                os._exit(1)
            if fd == self.outbox:
                self._read()
            gone = gone or fd == self.pidfd
        if gone:
            self._read()
            if self._whole():
                return
            _, waited, used = os.wait4(self.pid, 0)
            status = os.waitstatus_to_exitcode(waited)
            raise Ended("exit" if status >= 0 else "signal", abs(status), used.ru_utime + used.ru_stime)
        if self.settings["alone"]:
            room = os.statvfs(str(self.settings["folder"]))
            if room.f_files - room.f_ffree > int(self.settings["folder_files"] or 0):
                raise Ended("files")

    def _whole(self) -> bool:
        return len(self.received) >= 4 and len(self.received) >= 4 + int.from_bytes(self.received[:4], "big")

    def _read(self) -> None:
        if self.silent:
            return
        try:
            data = os.read(self.outbox, 2**20)
        except BlockingIOError:
            return
        self.received += data
        if not data:
            self.silent = True
            self.poll.unregister(self.outbox)


def sweep(pid: int, *, alone: bool) -> None:
    """Kill and reap every process of the program. `alone`: all of this PID namespace but the supervisor."""
    if alone:
        while _reaped(-1):
            pass
        return
    # As subreaper the supervisor becomes the parent of orphans, however often they forked.
    _reaped(-pid, os.WNOHANG)
    while children := _children():
        for child in children:
            _reaped(child, os.WNOHANG)
        time.sleep(0.001)


def _reaped(target: int, options: int = 0) -> bool:
    """Kill as os.kill does (negative: a group; -1: all), then reap one; False when there is nobody left."""
    try:  # noqa: SIM105
        os.kill(target, _SIGKILL)
    except ProcessLookupError:
        pass
    try:
        return os.waitpid(-1, options)[0] > 0
    except ChildProcessError:
        return False


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


def main(control: int) -> None:
    """Serve sessions until the host closes `control`. In the program's process this returns when it is done."""
    settings = _settings(receive(control))
    _protect(settings)
    send(int(settings["verdicts"] or 0), encode(("ready",)))
    number = 0
    while (frame := receive(control)) is not None:
        kind, source, text = decode(frame)
        number += 1
        if kind == "asserts" and "typing" in source:
            import typing  # noqa: F401, PLC0415  test code and program will both want it: load it once, before the fork
        (theirs_in, inbox), (outbox, theirs_out) = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            _become(settings, number, kind, source, text, (theirs_in, theirs_out))
            return
        os.close(theirs_in)
        os.close(theirs_out)
        life = Life(pid, inbox, outbox, settings)
        _SESSIONS[kind](life, receive(control) or b"")
    os._exit(0)


def _become(settings: Settings, number: int, kind: str, source: str, text: bytes, pipes: tuple[int, int]) -> None:
    folder = f"{settings['folder']}/{number}"
    os.mkdir(folder)
    os.chdir(folder)
    if kind == "script":
        place = f"{settings['folder']}/input"
        with open(place, "wb") as file:
            file.write(text)
        fd = os.open(place, os.O_RDONLY)
        os.dup2(fd, 0)
        os.close(fd)
        confine(settings, set())
        run_whole(source)
    else:
        confine(settings, set(pipes))
        serve(source, *pipes)


def _settings(frame: bytes | None) -> Settings:
    settings = decode(frame or b"")
    if not isinstance(settings, dict):
        raise WireError("settings are a dict")
    return settings


def _protect(settings: Settings) -> None:
    """Take on the program's user, its limits, and whatever keeps the program's hands off this process."""
    os.environ.clear()
    close_others({int(settings["control"] or 0), int(settings["verdicts"] or 0)})
    if settings["alone"] and os.getpid() != 1:
        raise OSError("not alone in a PID namespace: kill(-1) would reach others")
    if settings["uid"] is not None:
        uid = int(settings["uid"])
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        # From root of the namespace to nobody in it: the kernel drops all capabilities on this step.
        os.setresuid(0, 0, 0)
        os.setresuid(uid, uid, uid)
    for kind, name in (
        (resource.RLIMIT_AS, "memory_bytes"),
        (resource.RLIMIT_NOFILE, "open_files"),
        (resource.RLIMIT_FSIZE, "file_bytes"),
    ):
        resource.setrlimit(kind, (int(settings[name] or 0), int(settings[name] or 0)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Python ignores SIGXFSZ and SIGPIPE; the first then shows as OSError in the program, as it should.
    if settings["prctl"]:
        import ctypes  # noqa: PLC0415  costs as much as the interpreter's start: only where no filter does its work

        libc = ctypes.CDLL(None)
        for option, value in ((_PR_SET_DUMPABLE, 0), (_PR_SET_CHILD_SUBREAPER, 1), (_PR_SET_NO_NEW_PRIVS, 1)):
            if libc.prctl(option, value, 0, 0, 0):
                raise OSError(f"prctl {option} failed")
    if settings["packages"]:
        sys.path.append(str(settings["packages"]))
    sys.dont_write_bytecode = True


def _script(life: Life, frame: bytes) -> None:
    (tag,) = decode(frame)
    ended = life.end()
    life.close()
    life.tell(tag, *ended.told())


def _loaded(life: Life, tag: bytes) -> bool:
    """Whether the program has loaded; if not, what it said instead is told and its life is over."""
    said = life.frame()
    if said == encode(("loaded",)):
        return True
    life.close()
    life.tell(tag, "unloaded", said)
    return False


def _calls(life: Life, frame: bytes) -> None:
    """Ask one call after the other; tell each reply as it is, unread."""
    tag, requests = decode(frame)
    try:
        if not _loaded(life, tag):
            return
        for request in requests:
            reply = life.ask(request)
            life.tell(tag, "reply", reply)
            life.start_clock()
    except Ended as ended:
        life.close()
        life.tell(tag, *ended.told())
        return
    life.close()
    life.tell(tag, "done")


def _asserts(life: Life, frame: bytes) -> None:
    """Run pieces of test code here, one after the other, with stand-ins for the program's names."""
    tag, tests = decode(frame)
    try:
        if not _loaded(life, tag):
            return
        for setup, code, names in tests:
            faulthandler.dump_traceback_later(float(life.settings["test_seconds"] or 0) + 0.5, exit=True, file=2)
            verdict = _judged(life, setup, code, names)
            faulthandler.cancel_dump_traceback_later()
            if life.ended:
                raise life.ended
            life.tell(tag, *verdict)
            life.start_clock()
    except Ended as ended:
        life.close()
        life.tell(tag, *ended.told())
        return
    life.close()
    life.tell(tag, "done")


def _judged(life: Life, setup: str, code: str, names: dict[str, str]) -> tuple[str, ...]:
    """What came of one piece of test code; only its quiet end is a pass."""
    space: dict[str, object] = {"__name__": "tests"}
    try:
        if "random" in code:
            import random  # noqa: PLC0415  the same program must always get the same verdict

            random.seed(0)
        exec(compile(setup, "setup", "exec", dont_inherit=True), space)  # noqa: S102  the task's own code
    except BaseException as error:  # noqa: BLE001  the program has had no part in it
        return ("refused", f"the test's setup: {type(error).__name__}: {error}"[:200])
    try:
        for alias, name in names.items():
            space[alias] = asked(life.ask, "get", name)
        exec(compile(code, "tests", "exec", dont_inherit=True), space)  # noqa: S102  the task's own code
    except Ended:
        return ()
    except Unsendable as error:
        return ("refused", str(error)[:200])
    except AssertionError as error:
        return ("failed", str(error)[:200])
    except BaseException as error:  # noqa: BLE001  tests may raise anything
        if isinstance(error, ImportError | NameError | SyntaxError) and not of_the_program(error):
            return ("refused", f"the test's code: {type(error).__name__}: {error}"[:200])
        return ("raised", f"{type(error).__name__}: {error}"[:200])
    return ("passed",)


_SESSIONS = {"script": _script, "calls": _calls, "asserts": _asserts}
