"""Commands of the small shell for files and folders: ls, find, pwd, cd, mkdir, touch, cp, mv, rm."""

import fnmatch
import os
from collections.abc import Callable

from ropewalk.tasks.environments.inside.given import Lines, files_below, options, reason, write_lines
from ropewalk.tasks.environments.inside.words import Trouble


def ls(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    given, names = options(arguments, "ls", "la1hRtrS")
    found: Lines = []
    for place in names or ["."]:
        if not os.path.lexists(place):
            raise Trouble(f"ls: {place}: no such file or folder")
        inner = sorted(os.listdir(place)) if os.path.isdir(place) else [place]
        if "R" in given and os.path.isdir(place):
            inner = list(files_below(place, folders=True))
            place = "." if place == "." else ""
        elif len(names) > 1 and os.path.isdir(place):
            found.append(f"{place}:")
        found += [_listed(place, name, long="l" in given) for name in inner if "a" in given or name[0] != "."]
    return found, True


def _listed(place: str, name: str, *, long: bool) -> str:
    path = os.path.join(place, name) if os.path.isdir(place) else name
    folder = os.path.isdir(path)
    shown = f"{name}/" if folder else name
    return f"{os.lstat(path).st_size:9} {shown}" if long else shown


def find(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    places, tests = [], list(arguments)
    while tests and not tests[0].startswith("-"):
        places.append(tests.pop(0))
    wanted = {"-name": "*", "-type": "", "-path": "*"}
    while tests:
        test = tests.pop(0)
        if test not in wanted or not tests:
            raise Trouble("find: tests are -name, -path and -type, each with a value")
        wanted[test] = tests.pop(0)
    found = []
    for place in places or ["."]:
        if not os.path.isdir(place):
            raise Trouble(f"find: {place}: no such folder")
        for path in ["", *files_below(place, folders=True)]:
            shown = place if not path else f"./{path}" if place == "." else path
            kind = "d" if os.path.isdir(shown) else "f"
            name = os.path.basename(shown.rstrip("/"))
            if fnmatch.fnmatchcase(name, wanted["-name"]) and fnmatch.fnmatchcase(shown, wanted["-path"]):
                found += [shown] if wanted["-type"] in ("", kind) else []
    return found, True


def pwd(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    return [os.getcwd()], True


def cd(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    return _done(os.chdir, arguments or ["."], "cd")


def mkdir(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    _, names = options(arguments, "mkdir", "p")
    return _done(lambda name: os.makedirs(name, exist_ok=True), names, "mkdir")


def touch(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    return _done(lambda name: write_lines(name, [], add=True), arguments, "touch")


def rm(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    given, names = options(arguments, "rm", "rRf")

    def remove(name: str) -> None:
        if os.path.isdir(name) and not os.path.islink(name):
            if "r" not in given and "R" not in given:
                raise Trouble(f"rm: {name}: is a folder (rm -r)")
            for inner in os.listdir(name):
                remove(os.path.join(name, inner))
            os.rmdir(name)
        elif os.path.lexists(name) or "f" not in given:
            os.unlink(name)

    return _done(remove, names, "rm")


def cp(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    _, names = options(arguments, "cp", "r")

    def copy(name: str) -> None:
        with open(name, "rb") as source, open(_target(name, names[-1]), "wb") as target:
            target.write(source.read())

    return _done(copy, _sources(names, "cp"), "cp")


def mv(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    _, names = options(arguments, "mv", "f")
    return _done(lambda name: os.replace(name, _target(name, names[-1])), _sources(names, "mv"), "mv")


def _sources(names: list[str], command: str) -> list[str]:
    if len(names) < 2 or (len(names) > 2 and not os.path.isdir(names[-1])):
        raise Trouble(f"{command}: give a file and where it goes; several files go to a folder")
    return names[:-1]


def _target(name: str, place: str) -> str:
    return os.path.join(place, os.path.basename(name)) if os.path.isdir(place) else place


def _done(act: "Callable[[str], object]", names: list[str], command: str) -> tuple[Lines, bool]:
    if not names:
        raise Trouble(f"{command}: name a file or a folder")
    for name in names:
        try:
            act(name)
        except (OSError, ValueError) as error:
            raise Trouble(f"{command}: {name}: {reason(error)}") from None
    return [], True
