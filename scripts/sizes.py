"""The size ratchet: files <= 500 lines, functions <= 60 lines and <= 7 parameters (tests: files only).

`size_exceptions.txt` lists what may be larger, one `where measure` a line; an entry must be exactly what is
measured and must still be needed, so that the list only shrinks.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXCEPTIONS = ROOT / "scripts" / "size_exceptions.txt"
FILE_LINES, FUNCTION_LINES, PARAMETERS = 500, 60, 7

Oversizes = dict[str, int]
"""What is too large -> how large: `path:lines`, `path:function:lines`, `path:function:parameters`."""


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function with its qualified name, nested ones and methods included."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        else:
            yield from functions(node, prefix)


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Number of parameters, `*args` and `**kwargs` one each; a leading `self` or `cls` is not counted."""
    arguments = node.args
    positional = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    bound = bool(positional) and positional[0] in ("self", "cls")
    star = (arguments.vararg is not None) + (arguments.kwarg is not None)
    return len(positional) - bound + len(arguments.kwonlyargs) + star


def oversizes(path: Path, name: str, functions_too: bool) -> Oversizes:
    """What in one file is over a limit."""
    text = path.read_text(encoding="utf-8")
    found = {f"{name}:lines": len(text.splitlines())} if len(text.splitlines()) > FILE_LINES else {}
    for function, node in functions(ast.parse(text)) if functions_too else ():
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES:
            found[f"{name}:{function}:lines"] = lines
        if parameters(node) > PARAMETERS:
            found[f"{name}:{function}:parameters"] = parameters(node)
    return found


def scan(root: Path) -> Oversizes:
    """Everything over a limit under `root`."""
    found: Oversizes = {}
    for folder in ("ropewalk", "scripts", "benchmarks", "tests"):
        for path in sorted((root / folder).rglob("*.py")):
            found |= oversizes(path, path.relative_to(root).as_posix(), functions_too=folder != "tests")
    return found


def read_exceptions(text: str) -> Oversizes:
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {where: int(measure) for where, measure in lines}


def problems(found: Oversizes, allowed: Oversizes) -> list[str]:
    """What to mend: growth that is not allowed, and exceptions that are no longer true."""
    grown = [f"{w} is {n}: split it" for w, n in found.items() if n > allowed.get(w, 0)]
    shrunk = [
        f"{w} is now {found[w]}: lower its exception of {n}" for w, n in allowed.items() if 0 < found.get(w, 0) < n
    ]
    needless = [f"{w} needs no exception any more: strike it out" for w in allowed if w not in found]
    return grown + shrunk + needless


def main() -> int:
    bad = problems(scan(ROOT), read_exceptions(EXCEPTIONS.read_text(encoding="utf-8")))
    print("\n".join(bad), end="\n" if bad else "")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
