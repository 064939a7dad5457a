"""The command sed: s, p, d, q and = on lines, ranges and expressions."""

import re

from ropewalk.tasks.environments.inside.given import Lines, expression, lines_of, options, together, write_lines
from ropewalk.tasks.environments.inside.words import Trouble

_MOST_LINES = 200_000


def sed(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    given, names = options(arguments, "sed", "nErisz", "e")
    if "e" not in given:
        if not names:
            raise Trouble("sed: a script is missing")
        given["e"], names = names[0], names[1:]
    extended = "E" in given or "r" in given
    steps = [_step(each, extended=extended) for each in re.split(r"\n|;(?=\s*(?:\d|\$|/|s\W|[pd]))", given["e"])
             if each.strip()]  # fmt: skip
    if "i" not in given:
        return _edited(together(names, lines, "sed"), steps, quiet="n" in given), True
    for name in names or [""]:
        write_lines(name, _edited(lines_of(name), steps, quiet="n" in given))
    return [], True


class Change:
    """What s works with: an expression, what replaces it, and the flags."""

    def __init__(self, test: "re.Pattern[str]", by: str, flags: str) -> None:
        self.test = test
        self.by = by
        self.flags = flags


Step = tuple[list[object], str, "Change | None"]
"""Addresses (none, one or two), the command's letter, and what s works with."""


def _step(text: str, *, extended: bool) -> Step:
    text = text.strip()
    addresses: list[object] = []
    found = re.match(r"(\d+|\$|/(?:\\.|[^/\\])*/)(?:,(\+?\d+|\$|/(?:\\.|[^/\\])*/))?\s*(!?)", text)
    if found:
        for each in (found[1], found[2]):
            if each is not None:
                is_expression = each.startswith("/")
                addresses.append(expression(each[1:-1], extended=extended) if is_expression else each)
        if found[3]:
            raise Trouble("sed: ! is not known here")
        text = text[found.end() :]
    letter = text[:1]
    if letter in ("p", "d", "q", "=") and not text[1:].strip():
        return addresses, letter, None
    if letter != "s" or len(text) < 4:
        raise Trouble("sed: commands are s/a/b/, p, d, q and =, with line numbers or /expressions/ before them")
    mark = re.escape(text[1])
    parts = re.fullmatch(rf"s{mark}((?:\\.|(?!{mark}).)*){mark}((?:\\.|(?!{mark}).)*){mark}([gpiI0-9]*)\s*", text)
    if parts is None:
        raise Trouble("sed: s is written s/what/by what/, with g, i, p or a number behind it")
    old = parts[1].replace(f"\\{text[1]}", text[1]) if text[1] not in ".*[]^$\\" else parts[1]
    by = re.sub(r"\\(.)|&", lambda m: r"\g<0>" if m[0] == "&" else _by(m[1], text[1]), parts[2])
    return addresses, "s", Change(expression(old, ignore="i" in parts[3].lower(), extended=extended), by, parts[3])


def _by(sign: str, mark: str) -> str:
    if sign.isdecimal():
        return f"\\g<{sign}>"
    return {"n": "\n", "t": "\t", "\\": "\\\\"}.get(sign, sign if sign in ("&", mark) else f"\\\\{sign}")


def _edited(lines: Lines, steps: list[Step], *, quiet: bool) -> Lines:
    found: Lines = []
    inside: dict[int, object] = {}
    for number, line in enumerate(lines, 1):
        todo = [
            step for which, step in enumerate(steps) if _addressed(step[0], inside, which, (number, len(lines), line))
        ]
        kept = _one(number, line, todo, found)
        if kept is not None and not quiet:
            found += kept.split("\n")
        if any(letter == "q" for _, letter, _ in todo) or len(found) > _MOST_LINES:
            break
    return found


def _one(number: int, line: str, steps: list[Step], found: Lines) -> "str | None":
    """The line when all steps have been taken; None: it was deleted. What is printed on the way goes to `found`."""
    for _, letter, change in steps:
        if letter == "d":
            return None
        if letter == "=":
            found.append(str(number))
        if letter == "p":
            found.append(line)
        if change is not None:
            line, changed = _replaced(line, change)
            if changed and "p" in change.flags:
                found.append(line)
    return line


def _addressed(addresses: "list[object]", inside: "dict[int, object]", which: int, where: tuple[int, int, str]) -> bool:
    """Whether a line is addressed; `inside` holds where each range that is open will end."""
    number, last, line = where
    if not addresses:
        return True
    if len(addresses) == 1:
        return _at(addresses[0], number, last, line)
    if which in inside:
        end = inside[which]
        if _at(end, number, last, line) or (isinstance(end, str) and end.isdecimal() and number >= int(end)):
            del inside[which]
        return True
    if not _at(addresses[0], number, last, line):
        return False
    end = addresses[1]
    if isinstance(end, str) and end.startswith("+"):
        end = str(number + int(end))
    if not (isinstance(end, str) and end.isdecimal() and int(end) <= number):
        inside[which] = end
    return True


def _at(address: object, number: int, last: int, line: str) -> bool:
    if isinstance(address, re.Pattern):
        return address.search(line) is not None
    return number == last if address == "$" else str(number) == address


def _replaced(line: str, change: Change) -> tuple[str, bool]:
    digits = "".join(sign for sign in change.flags if sign.isdecimal())
    everywhere = "g" in change.flags
    try:
        if not digits:
            new, count = change.test.subn(change.by, line, count=0 if everywhere else 1)
            return new, count > 0
        found = list(change.test.finditer(line))[int(digits) - 1 : None if everywhere else int(digits)]
        for match in reversed(found):
            line = line[: match.start()] + match.expand(change.by) + line[match.end() :]
    except (re.error, IndexError) as error:
        raise Trouble(f"sed: what it is replaced by is malformed: {error}") from None
    return line, bool(found)
