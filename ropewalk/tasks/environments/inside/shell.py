"""A small shell over text files, for inside the sandbox: pipes, redirections, patterns, and commands that read text.

It is the same on every machine, and starts no other program. What it does not know (variables, substitution, control
flow, an option) is an error that says so. Lines are texts; bytes that are no UTF-8 are shown as �.
"""

import fnmatch
import os
import sys

from ropewalk.tasks.environments.inside.folders import cd, cp, find, ls, mkdir, mv, pwd, rm, touch
from ropewalk.tasks.environments.inside.given import Lines, files_below, lines_of, write_lines
from ropewalk.tasks.environments.inside.lines import cat, cut, echo, grep, head, sort, tail, tr, uniq, wc
from ropewalk.tasks.environments.inside.sed import sed
from ropewalk.tasks.environments.inside.words import Trouble, Word, statements


def start(line: str) -> None:
    """Carry a command line out in the working folder; the exit code is 1 if its last command failed."""
    os.chdir("../work")
    good = True
    try:
        good = _run(line)
    except Trouble as error:
        sys.stdout.flush()
        sys.stderr.write(f"shell: {error}\n")
        good = False
    sys.stdout.flush()
    if not good:
        raise SystemExit(1)


def _run(text: str) -> bool:
    good, join = True, ";"
    for statement, following in statements(text):
        if join == ";" or (join == "&&") == good:
            try:
                good = _pipeline(statement)
            except Trouble as error:
                sys.stdout.flush()
                sys.stderr.write(f"{error}\n")
                good = False
        join = following
    return good


def _pipeline(words: list[str]) -> bool:
    commands: list[list[str]] = [[]]
    for word in words:
        if word == "|" and not isinstance(word, Word):
            commands.append([])
        else:
            commands[-1].append(word)
    lines: Lines | None = None
    good = True
    for command in commands:
        lines, good, shown = _command(command, lines)
    if shown:
        for line in lines or []:
            sys.stdout.write(f"{line}\n")
    return good


def _command(words: list[str], lines: "Lines | None") -> tuple[Lines, bool, bool]:
    """What one command gives, whether it went well, and whether that is still to be shown."""
    rest, target, add = [], None, False
    each = iter(words)
    for word in each:
        if word in (">", ">>", "<", "<<") and not isinstance(word, Word):
            name = next(each, None)
            if name is None:
                raise Trouble(f"{word} needs a file")
            if word == "<<":
                lines = name.split("\n")[:-1]
            elif word == "<":
                lines = lines_of(name)
            else:
                target, add = name, word == ">>"
        else:
            rest.append(word)
    if not rest:
        raise Trouble("a command is missing")
    name, *arguments = rest
    if name not in COMMANDS:
        raise Trouble(f"{name}: not known here; commands: {', '.join(COMMANDS)}")
    found, good = COMMANDS[name]([part for word in arguments for part in _expanded(word)], lines)
    if target is None:
        return found, good, True
    write_lines(target, found, add=add)
    return [], good, False


def _expanded(word: str) -> list[str]:
    if isinstance(word, Word) or not any(sign in word for sign in "*?["):
        return [word]
    found = sorted(name for name in files_below(".", folders=True) if fnmatch.fnmatchcase(name, word.removeprefix("./"))
                   and name.count("/") == word.removeprefix("./").count("/"))  # fmt: skip
    return found or [word]


COMMANDS = {
    "ls": ls, "cat": cat, "head": head, "tail": tail, "grep": grep, "sed": sed, "wc": wc, "sort": sort,
    "uniq": uniq, "cut": cut, "tr": tr, "find": find, "echo": echo, "pwd": pwd, "cd": cd, "mkdir": mkdir,
    "touch": touch, "cp": cp, "mv": mv, "rm": rm,
}  # fmt: skip
