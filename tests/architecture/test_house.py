"""House rules that need no tool: module names, bare `__init__.py` files, no traces of a machine, honest tests."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "ropewalk").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
JUNK_DRAWERS = {"utils", "util", "common", "core", "base", "api", "helpers", "misc"}

# Written in pieces, so that this file does not find itself.
MACHINE_PATH = re.compile(r"(?<![\w.~/-])/" + r"(work|home|root|Users|opt|mnt)/\w")
REGISTRY_HOST = re.compile(
    r"(?i)https?:" + r"//[\w.:-]*(pypi|registry|artifactory|nexus|mirror|index)|--(extra-)?index" + "-url"
)


def tracked_texts() -> Iterator[tuple[str, str]]:
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and b"\0" not in (raw := path.read_bytes()):
            yield name, raw.decode("utf-8")


def test_init_files_hold_a_docstring_only() -> None:
    starts = [path for path in MODULES if path.name == "__init__.py" and path.parent.name != "ropewalk"]
    full = [path for path in starts if len(ast.parse(path.read_text()).body) != 1]
    mute = [path for path in starts if not ast.get_docstring(ast.parse(path.read_text()))]
    assert starts and not full and not mute


def test_every_module_has_a_docstring() -> None:
    assert not [str(p) for p in MODULES if not ast.get_docstring(ast.parse(p.read_text()))]


def test_every_folder_of_modules_is_a_package() -> None:
    assert not [str(p) for p in MODULES if not (p.parent / "__init__.py").exists()]


def test_no_junk_drawers() -> None:
    names = {path.stem for path in MODULES} | {path.parent.name for path in MODULES}
    assert not names & JUNK_DRAWERS


def test_nothing_of_a_machine_or_a_registry_in_the_tree() -> None:
    for pattern in (MACHINE_PATH, REGISTRY_HOST):
        found = [f"{name}: {match[0]}" for name, text in tracked_texts() if (match := pattern.search(text))]
        assert not found


def unconditional_skips(text: str) -> Iterator[int]:
    """Lines that skip whatever happens: the mark `skip`, `skipif(True)`, or `pytest.skip()` outside any branch."""
    tree = ast.parse(text)
    branches = (ast.If, ast.IfExp, ast.Try, ast.ExceptHandler, ast.Match, ast.While, ast.For)
    sheltered = {id(inner) for node in ast.walk(tree) if isinstance(node, branches) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "skip" and ast.unparse(node.value).endswith("mark"):
            yield node.lineno
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called == "pytest.skip" and id(node) not in sheltered:
            yield node.lineno
        if called.endswith("mark.skipif") and node.args and isinstance(node.args[0], ast.Constant):
            yield node.lineno


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("@pytest.mark.skip\ndef test_a(): pass", [1]),
        ("pytestmark = pytest.mark.skip(reason='later')", [1]),
        ("def test_a():\n    pytest.skip('later')", [2]),
        ("@pytest.mark.skipif(True, reason='later')\ndef test_a(): pass", [1]),
        ("def test_a():\n    if missing():\n        pytest.skip('no model')", []),
        ("@pytest.mark.skipif(not gpu(), reason='no gpu')\ndef test_a(): pass", []),
    ],
)
def test_unconditional_skips_are_found(text: str, lines: list[int]) -> None:
    assert list(unconditional_skips(text)) == lines


def test_no_test_is_skipped_for_ever() -> None:
    assert not [f"{path}:{line}" for path in TESTS for line in unconditional_skips(path.read_text())]


def test_tests_mirror_the_package() -> None:
    packages = {path.name for path in (ROOT / "ropewalk").iterdir() if (path / "__init__.py").exists()}
    folders = {path.parent.name for path in TESTS if path.parent.parent == ROOT / "tests"}
    assert folders <= packages | {"architecture", "contracts", "parity", "scripts", "benchmarks", "oracle", "system"}
