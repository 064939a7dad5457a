"""How a program is shut in: the command line that starts the supervisor, and what the supervisor is told.

bubblewrap: own user, PID, network, IPC, UTS and cgroup namespaces; a root folder that is read-only and holds Python's
library, the system's shared libraries, four devices and an empty /box of bounded size; no /proc, no shell, no
capabilities, no new privileges, a filter of system calls.

process: limits, an empty environment, a private folder and a session of its own, and no more. What it does not keep
a program from: reading, writing and killing whatever its user may (as an ordinary user: this very process), using
the network, filling the disk by many files, and outliving the run after it has killed its supervisor. As root,
programs run in both as a user that owns nothing else, which takes the sting out of most of this.
"""

import os
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from ropewalk.records.errors import InputError
from ropewalk.tasks.scoring.sandbox.inside.program import Settings
from ropewalk.tasks.scoring.sandbox.interpreter import BOOT, FLAGS, Interpreter, current, for_everyone, package_folder
from ropewalk.tasks.scoring.sandbox.limits import Limits
from ropewalk.tasks.scoring.sandbox.seccomp import filter_program
from ropewalk.tasks.scoring.sandbox.userns import new_user_namespace, random_ids, root_of_machine

Isolation: TypeAlias = Literal["bubblewrap", "process"]

ENVIRONMENT: Mapping[str, str] = {"PYTHONHASHSEED": "0"}
"""Taken away again before the program runs."""
_FIRST_USER = 1000
_DEVICES = ("null", "zero", "random", "urandom")
_WORK, _PACKAGES = "/box", "/packages"
_MEND = 'install it with `make system` (Debian package bubblewrap), or ask for isolation="process" by name'


@dataclass(slots=True)
class Jail:
    """All that does not change from program to program. `close` it."""

    isolation: Isolation
    limits: Limits
    interpreter: Interpreter
    packages: Mapping[str, Path]
    bwrap: str = ""
    filter: bytes | None = None
    user_namespace: int | None = None
    """Descriptor; only as root with bubblewrap."""
    first_user: int | None = None
    """Real user ids from here on are the programs'; only as root without bubblewrap."""
    stopping: threading.Event = field(default_factory=threading.Event, repr=False)
    """Set: whatever runs in it is to be ended, without a verdict."""
    _closed: bool = field(default=False, repr=False)

    def close(self) -> None:
        """Let go of the user namespace."""
        if self.user_namespace is not None and not self._closed:
            os.close(self.user_namespace)
        self._closed = True

    def user(self, slot: int) -> int | None:
        """The user id of the programs of one worker, as the supervisor must take it on or is started with."""
        if self.user_namespace is not None:
            return _FIRST_USER + slot
        return None if self.first_user is None else self.first_user + slot

    def command(self, *, control: int, info: int, filter_fd: int | None) -> list[str]:
        """The command line; all three are descriptors that it inherits."""
        python = [str(self.interpreter.path), *FLAGS, "-c", BOOT, str(control)]
        if self.isolation == "process":
            return python
        where = bubblewrap_arguments(
            binds=self.interpreter.binds(), packages=self.packages, folder_bytes=self.limits.folder_bytes
        )
        user = ["--unshare-user", "--uid", str(_FIRST_USER), "--gid", str(_FIRST_USER)]
        if self.user_namespace is not None:
            user = ["--userns2", str(self.user_namespace), "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        filtered = [] if filter_fd is None else ["--seccomp", str(filter_fd)]
        return [self.bwrap, "--cap-drop", "ALL", *user, *where, *filtered, "--info-fd", str(info), "--", *python]

    def settings(self, slot: int, folder: str, *, control: int, verdicts: int) -> Settings:
        """What the supervisor is told first."""
        limits = self.limits
        alone = self.isolation == "bubblewrap"
        mine = self.first_user is None and self.isolation == "process"
        return {
            "alone": int(alone),
            "control": control,
            "verdicts": verdicts,
            "uid": self.user(slot) if self.user_namespace is not None else None,
            "prctl": int(self.filter is None),
            "folder": _WORK if alone else folder,
            "packages": None if not self.packages else _PACKAGES if alone else f"{folder}/packages",
            "nproc": limits.processes + 1 + (_processes_of_user() if mine else 0),
            "test_seconds": limits.test_seconds,
            "cpu_seconds": limits.cpu_seconds,
            "memory_bytes": limits.memory_bytes,
            "open_files": limits.open_files,
            "file_bytes": limits.file_bytes,
            "folder_files": limits.folder_files,
            "output_bytes": limits.output_bytes,
        }


def bubblewrap_arguments(
    *, binds: Sequence[tuple[str, str]], packages: Mapping[str, Path], folder_bytes: int
) -> list[str]:
    """Namespaces and file system, as options of bubblewrap."""
    arguments = [f"--unshare-{kind}" for kind in ("pid", "net", "ipc", "uts", "cgroup-try")]
    arguments += ["--die-with-parent", "--as-pid-1", "--new-session", "--hostname", "sandbox", "--clearenv"]
    for name, value in ENVIRONMENT.items():
        arguments += ["--setenv", name, value]
    places = [path for _, path in binds] + [f"{_PACKAGES}/{name}" for name in packages] + ["/dev/null"]
    for parent in sorted({str(parent) for place in places for parent in Path(place).parents} - {"/"}):
        # Left to itself bubblewrap makes some of them readable by root only.
        arguments += ["--perms", "0755", "--dir", parent]
    for option, path in binds:
        arguments += [option, os.readlink(path) if option == "--symlink" else path, *([path] * (option != "--tmpfs"))]
    for name in _DEVICES:
        arguments += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    for name, folder in packages.items():
        arguments += ["--ro-bind", str(folder), f"{_PACKAGES}/{name}"]
    arguments += ["--symlink", f"{_WORK}/input", "/dev/stdin"]
    return [
        *arguments,
        "--perms",
        "0777",
        "--size",
        str(folder_bytes),
        "--tmpfs",
        _WORK,
        "--chdir",
        _WORK,
        "--remount-ro",
        "/",
    ]


def make_jail(isolation: Isolation, limits: Limits, packages: Sequence[str] = ()) -> Jail:
    """A jail that was tried once.

    Raises InputError: bubblewrap is missing or not allowed to work here, or isolation is no known word.
    """
    folders = {name: package_folder(name) for name in packages}
    if isolation == "process":
        root = root_of_machine()
        python = for_everyone() if root else current()
        return Jail(isolation, limits, python, folders, first_user=random_ids() if root else None)
    if isolation != "bubblewrap":
        raise InputError(f'there is no isolation {isolation!r}: it is "bubblewrap" or "process"')
    bwrap = shutil.which("bwrap", path=os.environ.get("PATH", os.defpath))
    if bwrap is None:
        raise InputError(f"programs are run in bubblewrap, which is not here: {_MEND}")
    python = current()
    namespace = new_user_namespace(python.path) if root_of_machine() else None
    jail = Jail(isolation, limits, python, folders, bwrap, filter_program(), namespace)
    try:
        _check(bwrap, namespace is not None)
    except InputError:
        jail.close()
        raise
    return jail


@cache
def _check(bwrap: str, as_root: bool) -> None:
    """Whether bubblewrap may make its namespaces here; asked once."""
    user = [] if as_root else ["--unshare-user"]
    kinds = [f"--unshare-{kind}" for kind in ("pid", "net", "ipc", "uts")]
    command = [
        bwrap,
        *user,
        *kinds,
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "--size",
        "4096",
        "--tmpfs",
        "/tmp",
        "/bin/true",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={}, check=False)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise InputError(
            f"bubblewrap cannot make namespaces here ({said}): allow them (sysctl user.max_user_namespaces above 0 and "
            "kernel.apparmor_restrict_unprivileged_userns=0, in a container its --privileged or a seccomp profile that "
            'permits them), or ask for isolation="process" by name'
        )


def _processes_of_user() -> int:
    """Threads that this user has now: the kernel's process limit counts all of them."""
    mine, found = os.getuid(), 0
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                if entry.stat().st_uid == mine:
                    found += len(os.listdir(f"/proc/{entry.name}/task"))
            except OSError:
                continue
    return found
