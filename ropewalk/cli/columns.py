"""Tables and sentences laid out for the width of the terminal: prose is folded, columns are not."""

import shutil
import textwrap
from collections.abc import Iterable, Sequence

LEAST, USUAL = 40, 100


def terminal_width() -> int:
    """Columns of the terminal (or of COLUMNS); 100 where there is none."""
    return max(LEAST, shutil.get_terminal_size((USUAL, 24)).columns)


def facts(rows: Iterable[tuple[str, str]], *, indent: int = 0) -> list[str]:
    """(what, about) pairs in two columns; `about` is folded under its first word."""
    pairs = list(rows)
    left = max((len(what) for what, _ in pairs), default=0) + 2
    return [line for what, about in pairs for line in _hanging(f"{what:<{left}}", about, indent)]


def grid(rows: Sequence[Sequence[str]], *, indent: int = 0, fold: bool = False) -> list[str]:
    """Columns as wide as their widest entry; `fold` folds the last one."""
    last = len(rows[0]) - 1 if rows else 0
    widths = [max(len(row[column]) for row in rows) for column in range(last)]
    lines = []
    for row in rows:
        left = "".join(f"{cell:<{width}}  " for cell, width in zip(row[:-1], widths, strict=True))
        if fold:
            lines += _hanging(left, row[-1], indent)
        else:
            lines.append(f"{'':<{indent}}{left}{row[-1]}".rstrip())
    return lines


def folded(text: str, *, indent: int = 0) -> list[str]:
    """One sentence over as many lines as it needs."""
    return _hanging("", text, indent)


def _hanging(left: str, text: str, indent: int) -> list[str]:
    room = max(LEAST // 2, terminal_width() - indent - len(left))
    first, *more = textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False) or [""]
    lines = [f"{left}{first}", *(f"{'':<{len(left)}}{line}" for line in more)]
    return [f"{'':<{indent}}{line}".rstrip() for line in lines]
