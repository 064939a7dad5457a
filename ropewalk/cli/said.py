"""Plain words on stdout: what a command found or made."""

from collections.abc import Iterable

import typer


def say(*lines: str) -> None:
    """Write lines as they are: never wrapped, never read as markup."""
    for line in lines:
        typer.echo(line)


def table(rows: Iterable[tuple[str, str]]) -> list[str]:
    """(what, about) pairs in two columns; further lines of `about` stand under its first."""
    pairs = list(rows)
    width = max((len(what) for what, _ in pairs), default=0)
    lines = []
    for what, about in pairs:
        first, *more = about.splitlines() or [""]
        lines.append(f"{what:<{width}}  {first}".rstrip())
        lines += [f"{'':<{width}}  {line}".rstrip() for line in more]
    return lines
