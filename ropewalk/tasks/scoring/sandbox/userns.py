"""As root, programs run as users that exist nowhere else: a user namespace whose ids begin far above all others.

The process limit of the kernel does not hold for root, nor does a namespace change that while it maps to root. So
root makes one namespace per pool, and bubblewrap moves each program into it once its file system stands.
"""

import os
import secrets
import subprocess
from pathlib import Path

from ropewalk.records.errors import InputError

IDS = 65_536
_LOW, _HIGH = 2**30, 2**31 - 2 * IDS
_UNSHARE = """\
import ctypes, sys
failed = ctypes.CDLL(None, use_errno=True).unshare(0x10000000)
print(ctypes.get_errno() if failed else 0, flush=True)
sys.stdin.read()
"""


def root_of_machine() -> bool:
    """Whether this process is root, and not merely root of a namespace with few ids."""
    return os.geteuid() == 0 and any(int(line.split()[2]) > _HIGH for line in _uid_map())


def _uid_map() -> list[str]:
    return Path("/proc/self/uid_map").read_text("ascii").splitlines()


def random_ids() -> int:
    """The first of `IDS` ids that nobody else uses."""
    return _LOW + IDS * secrets.randbelow((_HIGH - _LOW) // IDS)


def new_user_namespace(python: Path) -> int:
    """A descriptor of a new user namespace with ids 0 to 65,535 mapped far away; root only.

    Raises InputError where the kernel refuses.
    """
    first = random_ids()
    with subprocess.Popen(
        [python, "-I", "-S", "-c", _UNSHARE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}, cwd="/"
    ) as helper:
        assert helper.stdout is not None
        answer = helper.stdout.readline().strip()
        if answer != b"0":
            raise InputError(
                f"the kernel refuses user namespaces ({os.strerror(int(answer or 1))}): raise user.max_user_namespaces"
            )
        namespace = os.open(f"/proc/{helper.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        for kind in ("uid_map", "gid_map"):
            Path(f"/proc/{helper.pid}/{kind}").write_text(f"0 {first} {IDS}\n", "ascii")
    return namespace
