"""A command line into words: quotes, operators, texts behind `<<`, and what there is none of here."""

import re
from collections.abc import Iterator


class Trouble(Exception):
    """A command cannot be carried out."""


class Word(str):
    """A word of a command line that was quoted: no pattern, no operator."""

    __slots__ = ()


def statements(text: str) -> Iterator[tuple[list[str], str]]:
    """Words of one pipeline each, and what joins it to the next; `<<` is followed by the text itself."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        while at < len(lines) and (line.endswith("\\") or _open(line)):
            line = line[:-1] + " " + lines[at] if line.endswith("\\") else f"{line}\n{lines[at]}"
            at += 1
        words = list(_words(line))
        for number, word in enumerate(words):
            if word == "<<" and not isinstance(word, Word):
                if number + 1 == len(words):
                    raise Trouble("<< needs the word that ends the text")
                end = next((i for i in range(at, len(lines)) if lines[i].strip() == words[number + 1]), None)
                if end is None:
                    raise Trouble(f"no line {words[number + 1]!r} ends the text behind <<")
                words[number + 1] = Word("".join(f"{each}\n" for each in lines[at:end]))
                at = end + 1
        yield from _parts(words)


def _parts(words: list[str]) -> Iterator[tuple[list[str], str]]:
    statement: list[str] = []
    for word in words:
        if word in ("&&", "||", ";") and not isinstance(word, Word):
            if not statement:
                raise Trouble(f"nothing stands before {word}")
            yield statement, str(word)
            statement = []
        else:
            statement.append(word)
    if statement:
        yield statement, ";"


def _open(line: str) -> bool:
    """Whether a quote is still open at the end of a line."""
    try:
        list(_words(line))
    except Trouble as error:
        return "quote" in str(error)
    return False


def _words(line: str) -> Iterator[str]:
    """Words and operators of a line."""
    at, end = 0, len(line)
    while at < end:
        if line[at].isspace():
            at += 1
        elif line[at] == "#":
            return
        elif found := re.compile(r"&&|\|\||>>|<<|[|;<>&]|2>(?:&1|/dev/null)").match(line, at):
            if found[0] == "&":
                raise Trouble("nothing runs in the background here")
            if not found[0].startswith("2>"):
                yield found[0]
            at = found.end()
        else:
            word, at = _word(line, at)
            yield word


def _word(line: str, at: int) -> tuple[str, int]:
    parts: list[str] = []
    quoted = False
    while at < len(line) and not (line[at].isspace() or line[at] in "|;<>&"):
        sign = line[at]
        if sign in "`$" and (sign == "`" or re.compile(r"\$[\w({]").match(line, at)):
            raise Trouble("there are no variables and no substitution here")
        if sign == "'":
            stop = line.find("'", at + 1)
            if stop < 0:
                raise Trouble("a quote is not closed")
            parts.append(line[at + 1 : stop])
            quoted, at = True, stop + 1
        elif sign == '"':
            inner, at = _double(line, at + 1)
            parts.append(inner)
            quoted = True
        elif sign == "\\" and at + 1 < len(line):
            parts.append(line[at + 1])
            quoted, at = True, at + 2
        else:
            parts.append(sign)
            at += 1
    text = "".join(parts)
    return (Word(text) if quoted else text), at


def _double(line: str, at: int) -> tuple[str, int]:
    parts = []
    while at < len(line) and line[at] != '"':
        if line[at] == "\\" and line[at + 1 : at + 2] in ('"', "\\", "$", "`"):
            at += 1
        elif line[at] == "`" or re.compile(r"\$[A-Za-z_({]").match(line, at):
            raise Trouble("there are no variables and no substitution here")
        parts.append(line[at])
        at += 1
    if at >= len(line):
        raise Trouble("a quote is not closed")
    return "".join(parts), at + 1
