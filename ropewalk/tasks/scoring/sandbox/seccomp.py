"""The filter of system calls under bubblewrap: no sockets, no tracing, no new namespaces, no kernel side doors.

A classic BPF program, as <linux/seccomp.h> describes it: refused calls fail with EPERM. It keeps the program from
reading or steering the supervisor, which has the same user, and takes away what a network namespace does not cover
(AF_VSOCK, AF_ALG) and memory that no limit counts (memfd, System V). `clone` is refused for new namespaces only;
`clone3`, whose flags a filter cannot see, does not exist for it (ENOSYS), so that the C library falls back on `clone`.
"""

import platform
import struct
from collections.abc import Mapping

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWUSER, PID, NET, IPC, UTS, CGROUP and NS."""
_X32 = 0x40000000

_X86_64: Mapping[str, int] = {
    "socket": 41, "ptrace": 101, "syslog": 103, "personality": 135, "modify_ldt": 154, "pivot_root": 155,
    "chroot": 161, "acct": 163, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169,
    "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179, "kexec_load": 246,
    "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "kexec_file_load": 320, "bpf": 321,
    "userfaultfd": 323, "shmget": 29, "memfd_create": 319, "clone": 56,
}  # fmt: skip
_AARCH64: Mapping[str, int] = {
    "socket": 198, "ptrace": 117, "syslog": 116, "personality": 92, "pivot_root": 41, "chroot": 51, "acct": 89,
    "mount": 40, "umount2": 39, "swapon": 224, "swapoff": 225, "reboot": 142, "init_module": 105,
    "delete_module": 106, "quotactl": 60, "kexec_load": 104, "add_key": 217, "request_key": 218, "keyctl": 219,
    "unshare": 97, "perf_event_open": 241, "name_to_handle_at": 264, "open_by_handle_at": 265, "setns": 268,
    "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273, "kexec_file_load": 294,
    "bpf": 280, "userfaultfd": 282, "shmget": 194, "memfd_create": 279, "clone": 220,
}  # fmt: skip
_NEW: Mapping[str, int] = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438, "process_madvise": 440,
    "mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447,
}  # fmt: skip
"""Since Linux 5.1 a call has one number on all machines."""
_CLONE3 = 435
_MACHINES: Mapping[str, tuple[int, Mapping[str, int]]] = {
    "x86_64": (0xC000003E, _X86_64),
    "aarch64": (0xC00000B7, _AARCH64),
}


def filter_program(machine: str = "") -> bytes | None:
    """The filter for this machine (`platform.machine()`), or None where its numbers are not known here."""
    known = _MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    architecture, calls = known
    refused = sorted({**calls, **_NEW}.items())
    lines = [_line(_LOAD, _ARCHITECTURE), _line(_JUMP_EQUAL, architecture, 1, 0), _line(_RETURN, _KILL)]
    lines += [_line(_LOAD, _NUMBER), _line(_JUMP_ABOVE, _X32, 0, 1), _line(_RETURN, _ERRNO | _EPERM)]
    lines += [_line(_JUMP_EQUAL, _CLONE3, 0, 1), _line(_RETURN, _ERRNO | _ENOSYS)]
    for name, number in refused:
        if name != "clone":
            lines += [_line(_JUMP_EQUAL, number, 0, 1), _line(_RETURN, _ERRNO | _EPERM)]
    lines += [_line(_JUMP_EQUAL, calls["clone"], 1, 0), _line(_RETURN, _ALLOW)]
    lines += [_line(_LOAD, _FIRST_ARGUMENT), _line(_JUMP_BITS, _NEW_NAMESPACES, 1, 0), _line(_RETURN, _ALLOW)]
    lines += [_line(_RETURN, _ERRNO | _EPERM)]
    return b"".join(lines)


def _line(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, value)
