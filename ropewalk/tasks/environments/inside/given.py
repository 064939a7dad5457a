"""What the commands of the small shell share: their options, the lines they read and write, expressions."""

import os
import re
from collections.abc import Iterator

from ropewalk.tasks.environments.inside.words import Trouble

Lines = list[str]


def options(arguments: list[str], command: str, flags: str, valued: str = "") -> tuple[dict[str, str], list[str]]:
    """Options by letter, and the rest."""
    given: dict[str, str] = {}
    rest: list[str] = []
    at = 0
    while at < len(arguments):
        word = arguments[at]
        at += 1
        if word == "--":
            return given, rest + arguments[at:]
        if not re.fullmatch(r"-[A-Za-z0-9].*", word, re.DOTALL):
            rest.append(word)
        elif word[1:].isdecimal() and "n" in valued:
            given["n"] = word[1:]
        else:
            at = _letters(word[1:], arguments, at, (command, flags, valued), given)
    return given, rest


def _letters(letters: str, arguments: list[str], at: int, known: tuple[str, str, str], given: dict[str, str]) -> int:
    command, flags, valued = known
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter in valued:
            if not letters and at >= len(arguments):
                raise Trouble(f"{command}: -{letter} needs a value")
            given[letter] = (
                f"{given[letter]}\n{letters or arguments[at]}"
                if letter == "e" and letter in given
                else (letters or arguments[at])
            )
            return at if letters else at + 1
        if letter not in flags:
            raise Trouble(f"{command}: there is no option -{letter} here")
        given[letter] = ""
    return at


def whole(text: str, command: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,9}", text):
        raise Trouble(f"{command}: {text!r} is no number")
    return int(text)


def files_below(place: str, *, folders: bool = False) -> Iterator[str]:
    for folder, inner, names in os.walk(place):
        inner.sort()
        below = folder.removeprefix("./").removeprefix(".")
        for name in sorted([*names, *(inner if folders else [])]):
            yield f"{below}/{name}" if below else name


def lines_of(name: str) -> Lines:
    try:
        with open(name, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except IsADirectoryError:
        raise Trouble(f"{name}: is a folder") from None
    except (OSError, ValueError) as error:
        raise Trouble(f"{name}: {reason(error)}") from None
    lines = text.split("\n")
    return lines[:-1] if not lines[-1] else lines


def write_lines(name: str, lines: Lines, *, add: bool = False) -> None:
    if name == "/dev/null":
        return
    try:
        with open(name, "a" if add else "w", encoding="utf-8", errors="replace") as file:
            file.writelines(f"{line}\n" for line in lines)
    except (OSError, ValueError) as error:
        raise Trouble(f"{name}: {reason(error)}") from None


def reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def inputs(names: list[str], lines: "Lines | None", command: str) -> list[tuple[str, Lines]]:
    if names:
        return [("-", lines or []) if name == "-" else (name, lines_of(name)) for name in names]
    if lines is None:
        raise Trouble(f"{command}: name a file")
    return [("-", lines)]


def together(names: list[str], lines: "Lines | None", command: str) -> Lines:
    return [line for _, part in inputs(names, lines, command) for line in part]


_CLASSES = {"alpha": "A-Za-z", "digit": "0-9", "alnum": "A-Za-z0-9", "space": r"\s", "upper": "A-Z", "lower": "a-z",
            "punct": r"!-/:-@\[-`{-~"}  # fmt: skip


def expression(text: str, *, fixed: bool = False, ignore: bool = False, extended: bool = True) -> "re.Pattern[str]":
    if fixed:
        text = re.escape(text)
    elif not extended:
        # In basic expressions these are plain signs, and special behind a backslash.
        text = re.sub(r"\\([(){}|+?])|([(){}|+?])", lambda m: m[1] or f"\\{m[2]}", text)
    for name, signs in _CLASSES.items():
        text = text.replace(f"[:{name}:]", signs)
    try:
        return re.compile(text, re.IGNORECASE if ignore else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise Trouble(f"the expression {text[:60]!r} is malformed: {error}") from None
