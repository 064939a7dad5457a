"""Which Python runs the programs, what of the machine it needs to see, and the supervisor's code for it."""

import marshal
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ropewalk.records.errors import InputError

_INSIDE = ("wire", "program", "remote", "supervisor")
_PACKAGE = "ropewalk.tasks.scoring.sandbox.inside"
_LIBRARIES = ("/lib", "/lib64", "/usr/lib64")
_HIDDEN = ("site-packages", "dist-packages", "test")
FLAGS = ("-s", "-P", "-S", "-B", "-X", "utf8")
"""-I less -E: the environment is empty but for the hash seed, so that sets have one order and verdicts repeat."""

BOOT = """\
import marshal, os, sys
control = int(sys.argv[1])
def read(size, data=b""):
    while len(data) < size:
        more = os.read(control, size - len(data))
        if not more: os._exit(1)
        data += more
    return data
for name, code in marshal.loads(read(int.from_bytes(read(4), "big"))):
    module = sys.modules[name] = type(sys)(name)
    exec(code, module.__dict__)
module.main(control)
"""
"""Runs the modules that come in first on the descriptor named; the last one has main()."""

_COMPILE = """\
import marshal, sys
sources = marshal.loads(sys.stdin.buffer.read())
code = [(name, compile(text, name, "exec", dont_inherit=True)) for name, text in sources]
sys.stdout.buffer.write(marshal.dumps(code))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python and the folders it needs, all without site-packages."""

    path: Path
    stdlib: Path
    libraries: tuple[Path, ...]
    """Single shared libraries outside the system's folders."""
    bundle: bytes
    """The supervisor, compiled by this very interpreter."""

    def binds(self) -> list[tuple[str, str]]:
        """What bubblewrap must show: (option, path) pairs in order; `--symlink` has its target in the path."""
        found: list[tuple[str, str]] = []
        for name in _LIBRARIES:
            folder = Path(name)
            if folder.is_symlink():
                found.append(("--symlink", name))
            elif folder.is_dir():
                found.append(("--ro-bind", name))
        found += [("--ro-bind", str(path)) for path in (*_system_libraries(), self.stdlib, self.path, *self.libraries)]
        return found + [("--tmpfs", str(self.stdlib / name)) for name in _HIDDEN if (self.stdlib / name).is_dir()]


def _system_libraries() -> list[Path]:
    """The folder of the C library: one of a multiarch system, else all of /usr/lib."""
    arch = sysconfig.get_config_var("MULTIARCH")
    place = Path("/usr/lib") / arch if arch else Path("/usr/lib")
    return [place if place.is_dir() else Path("/usr/lib")]


@cache
def current() -> Interpreter:
    """The interpreter of this process, without its virtual environment."""
    path = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    return _interpreter(path, sysconfig.get_path("stdlib"), _shared_library(sysconfig.get_config_vars()))


@cache
def for_everyone() -> Interpreter:
    """An interpreter that any user of the machine can run: this one, else Debian's.

    Raises InputError if there is none.
    """
    mine = current()
    if all(_open_to_others(place) for place in (mine.path, mine.stdlib)):
        return mine
    other = Path("/usr/bin/python3")
    if not other.exists():
        raise InputError(
            f"programs would run as another user, who cannot read {mine.path}: "
            "install a Python for all users (Debian: python3), or bubblewrap"
        )
    ask = "import sysconfig; print(sysconfig.get_path('stdlib'))"
    done = subprocess.run([other, "-I", "-c", ask], capture_output=True, text=True, check=True)
    return _interpreter(other.resolve(), done.stdout.strip(), ())


def _open_to_others(place: Path) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in place.parents) and bool(place.stat().st_mode & 0o004)


def _shared_library(config: dict[str, object]) -> tuple[Path, ...]:
    library = Path(str(config.get("LIBDIR"))) / str(config.get("INSTSONAME"))
    inside = any(library.is_relative_to(folder) for folder in (*map(Path, _LIBRARIES), *_system_libraries()))
    return () if inside or not library.suffix or ".so" not in library.name or not library.is_file() else (library,)


def _interpreter(path: Path, stdlib: str, libraries: tuple[Path, ...]) -> Interpreter:
    folder = Path(__file__).parent / "inside"
    sources = [(f"{_PACKAGE}.{name}", (folder / f"{name}.py").read_text("utf-8")) for name in _INSIDE]
    done = subprocess.run(
        [path, "-I", "-S", "-c", _COMPILE], input=marshal.dumps(sources), capture_output=True, check=True, env={}
    )
    return Interpreter(path, Path(stdlib), libraries, done.stdout)


def package_folder(name: str) -> Path:
    """The folder of an importable package, to show it to programs. Raises InputError if it is not installed."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"programs should see the package {name}, which is not installed: pip install it first")
    return Path(os.path.realpath(next(iter(spec.submodule_search_locations))))
