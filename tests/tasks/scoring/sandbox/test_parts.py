"""The parts that decide, without a sandbox: limits, what an end means, the filter, removing folders, what is shown."""

import os
import stat
import struct
from pathlib import Path

import pytest

from ropewalk.records.errors import InputError
from ropewalk.tasks.scoring.sandbox import seccomp
from ropewalk.tasks.scoring.sandbox.inside.wire import encode
from ropewalk.tasks.scoring.sandbox.interpreter import current
from ropewalk.tasks.scoring.sandbox.jail import bubblewrap_arguments, make_jail
from ropewalk.tasks.scoring.sandbox.limits import Limits
from ropewalk.tasks.scoring.sandbox.pool import SandboxPool
from ropewalk.tasks.scoring.sandbox.program import finding_of_end, finding_of_reply, printable
from ropewalk.tasks.scoring.sandbox.remove import remove_tree

LIMITS = Limits()


@pytest.mark.parametrize("name", [name for name in Limits.__slots__ if name != "program_seconds"])
def test_no_limit_can_be_switched_off(name: str) -> None:
    with pytest.raises(InputError, match=name):
        Limits(**{name: 0})
    with pytest.raises(InputError, match=name):
        Limits(**{name: float("nan")})


def test_a_program_has_time_for_one_test() -> None:
    with pytest.raises(InputError, match="below test_seconds"):
        Limits(test_seconds=5, program_seconds=4)


@pytest.mark.parametrize(
    ("how", "number", "cpu_seconds", "script", "status"),
    [
        ("exit", 0, 0.1, True, "done"),
        ("exit", 0, 0.1, False, "raised"),
        ("exit", 1, 0.1, True, "raised"),
        ("exit", 1, 0.1, False, "raised"),
        ("signal", 11, 0.1, True, "crashed"),
        ("signal", 9, 0.1, True, "crashed"),
        ("signal", 24, 11.0, True, "timeout"),
        ("signal", 24, 7.0, True, "timeout"),
        ("signal", 9, 4.0, True, "crashed"),
        ("signal", 9, 12.0, False, "timeout"),
        ("timeout", 0, 5.0, True, "timeout"),
        ("files", 0, 1.0, True, "files"),
        ("oversize", 0, 1.0, False, "output"),
    ],
)
def test_what_an_end_means(how: str, number: int, cpu_seconds: float, script: bool, status: str) -> None:
    """Only a script may end by itself, and only with 0. Fault G9."""
    assert finding_of_end(how, number, LIMITS, cpu_seconds, script=script).status == status


def test_what_a_reply_means() -> None:
    assert finding_of_reply(encode(("value", [1]))).value == [1]
    assert finding_of_reply(encode(("raised", "ValueError", "x\ny\x1b[2J"))).detail == "ValueError: x y [2J"
    for reply in (b"", b"junk", encode(3), encode(("value",)), encode(("value", 1, 2)), encode(["value", 1]), None, 3):
        assert finding_of_reply(reply).status == "broken"


def test_a_programs_words_are_one_short_printable_line() -> None:
    assert printable("a\nb\x00\ud800" + "c" * 500) == ("a b ?" + "c" * 500)[:200]


def run_filter(program: bytes, number: int, architecture: int, argument: int = 0) -> int:
    """What the kernel would do: the value of the return instruction that is reached."""
    lines = [struct.unpack_from("=HBBI", program, 8 * n) for n in range(len(program) // 8)]
    data = struct.pack("=iIQ6Q", number, architecture, 0, argument, 0, 0, 0, 0, 0)
    register, place = 0, 0
    while True:
        code, true, false, value = lines[place]
        place += 1
        if code == 0x20:
            (register,) = struct.unpack_from("=I", data, value)
        elif code == 0x06:
            return value
        else:
            holds = {0x15: register == value, 0x35: register >= value, 0x45: bool(register & value)}[code]
            place += true if holds else false


MACHINES = {"x86_64": (0xC000003E, {"read": 0, "clone": 56, "fork": 57, "socketpair": 53, "ptrace": 101}),
            "aarch64": (0xC00000B7, {"read": 63, "clone": 220, "socketpair": 199, "ptrace": 117})}  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_refuses_what_it_names_and_nothing_else(machine: str) -> None:
    architecture, calls = MACHINES[machine]
    program = seccomp.filter_program(machine)
    assert program is not None and len(program) < 4096
    allow, refuse, absent, kill = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
    known = {**seccomp._MACHINES[machine][1], **seccomp._NEW}
    for name, number in known.items():
        if name != "clone":
            assert run_filter(program, number, architecture) == refuse, name
    assert run_filter(program, 435, architecture) == absent
    for name in set(calls) - {"ptrace"}:
        assert run_filter(program, calls[name], architecture, 0x00000011) == allow, name
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert run_filter(program, calls["clone"], architecture, flag | 17) == refuse
    threads = 0x003D0F00
    assert run_filter(program, calls["clone"], architecture, threads) == allow
    assert run_filter(program, calls["read"], 0x40000003) == kill
    if machine == "x86_64":
        assert run_filter(program, 0x40000000 | 1, architecture) == refuse
    refused = {n for n in range(500) if run_filter(program, n, architecture) != allow}
    assert refused == {number for name, number in known.items() if name != "clone"} | {435}


def test_an_unknown_machine_has_no_filter() -> None:
    assert seccomp.filter_program("vax") is None


def test_removing_a_folder_follows_no_link_and_minds_no_depth_or_permission(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    (folder / "loop").symlink_to(".")
    (folder / "dangling").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    place = os.open(folder, os.O_RDONLY)
    for depth in range(400):
        os.mkdir("d", dir_fd=place)
        os.symlink(outside, "away", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        if depth % 100 == 0:
            os.chmod("d", 0, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    remove_tree(str(folder))
    assert not folder.exists()
    assert (outside / "kept").read_text() == "x"
    remove_tree(str(folder))


def test_bubblewrap_shows_python_and_no_more() -> None:
    """Neither a home folder, nor site-packages, /etc, /proc, a shell, nor this repository is bound."""
    python = current()
    arguments = bubblewrap_arguments(binds=python.binds(), packages={}, folder_bytes=100)
    bound = [arguments[n + 1] for n, word in enumerate(arguments) if word in ("--ro-bind", "--bind", "--dev-bind")]
    allowed = (
        python.stdlib,
        python.path,
        *python.libraries,
        *(Path(f"/dev/{n}") for n in ("null", "zero", "random", "urandom")),
    )
    libraries = ("/lib", "/lib64", "/usr/lib")
    assert all(Path(place) in allowed or place.startswith(libraries) for place in bound)
    assert "--bind" not in arguments and "--proc" not in arguments and "--share-net" not in arguments
    hidden = [arguments[n + 1] for n, word in enumerate(arguments) if word == "--tmpfs"]
    assert str(python.stdlib / "site-packages") in hidden or not (python.stdlib / "site-packages").is_dir()
    assert arguments[-2:] == ["--remount-ro", "/"]
    assert {f"--unshare-{kind}" for kind in ("pid", "net", "ipc", "uts", "cgroup-try")} <= set(arguments)


def test_without_bubblewrap_the_pool_refuses_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InputError, match=r"bubblewrap, which is not here: install it with `make system`.*\"process\""):
        SandboxPool()


def test_where_namespaces_are_not_allowed_the_pool_says_so_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refusing = tmp_path / "bwrap"
    refusing.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    refusing.chmod(refusing.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(InputError) as told:
        SandboxPool()
    assert "cannot make namespaces here (bwrap: setting up uid map: Permission denied)" in str(told.value)
    assert "kernel.apparmor_restrict_unprivileged_userns=0" in str(told.value)


def test_wrong_words_are_refused() -> None:
    with pytest.raises(InputError, match="no isolation 'docker'"):
        make_jail("docker", LIMITS)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least one worker"):
        SandboxPool(0)
    with pytest.raises(InputError, match="no_such_package, which is not installed"):
        make_jail("process", LIMITS, ["no_such_package"])
