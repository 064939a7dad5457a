"""Writes the annotated tree of docs/architecture.md: every module with the first sentence of its docstring.

python scripts/tree.py
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
BLOCK = re.compile(r"(<!-- tree -->\n```text\n).*?(```\n<!-- /tree -->)", re.DOTALL)
COLUMN = 30
FOLDERS = ("ropewalk", "scripts", "benchmarks")


def purpose(path: Path) -> str:
    """First sentence of a module's docstring, or of a recipe's leading comment."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        said = " ".join(line.lstrip("# ") for line in re.match(r"(#.*\n)*", text)[0].splitlines())  # type: ignore[index]
    else:
        said = " ".join((ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.?!])\s(?=[A-Z`])", said, maxsplit=1)[0].rstrip(".")


def listed(folder: Path) -> Iterator[Path]:
    """Files and folders of the tree, files first."""
    inside = [p for p in sorted(folder.iterdir()) if not p.name.startswith((".", "__"))]
    yield from (p for p in inside if p.suffix in (".py", ".toml"))
    yield from (p for p in inside if p.is_dir() and any(f.suffix in (".py", ".toml") for f in p.rglob("*")))


def lines(folder: Path, depth: int = 0) -> Iterator[str]:
    start = folder / "__init__.py"
    yield entry(depth, f"{folder.name}/", purpose(start) if start.exists() else "")
    for path in listed(folder):
        if path.is_dir():
            yield from lines(path, depth + 1)
        else:
            yield entry(depth + 1, path.name, purpose(path))


def entry(depth: int, name: str, said: str) -> str:
    return f"{'  ' * depth + name:<{COLUMN}} {said}".rstrip()


def tree() -> str:
    filled = [ROOT / name for name in FOLDERS if any((ROOT / name).rglob("*.py"))]
    return "".join(f"{line}\n" for folder in filled for line in lines(folder))


def refreshed(page: str) -> str:
    """The page with its tree block made anew."""
    return BLOCK.sub(lambda match: match[1] + tree() + match[2], page)


def main() -> int:
    PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
