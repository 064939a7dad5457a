"""Light packages stay light: nothing that only reads, plans or helps imports torch."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "transformers")
LIGHT_PACKAGES = ("config", "records", "plan", "data", "tasks", "monitors", "algorithms/methods")

IMPORT_EACH = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    heavy = [h for h in {heavy} if h in sys.modules]
    if heavy:
        sys.exit(f"{{name}} imports {{heavy}}")
"""
RUN_COMMAND = """
import sys
from ropewalk.cli.main import main
sys.argv = ["ropewalk", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    if end.code:
        raise
heavy = [h for h in {heavy} if h in sys.modules]
if heavy:
    sys.exit(f"imports {{heavy}}")
"""


def python(code: str, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code.format(heavy=HEAVY), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def light_modules() -> list[str]:
    package = ROOT / "ropewalk"
    paths = [p for name in LIGHT_PACKAGES for p in (package / name).rglob("*.py")]
    paths += [
        *package.rglob("config.py"),
        *(package / "runtime" / n for n in ("recipe.py", "evaluation/suite.py")),
        package / "__init__.py",
    ]
    dotted = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for p in paths}
    return sorted(dotted)


def test_light_modules_import_no_torch() -> None:
    done = python(IMPORT_EACH, light_modules())
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["train", "--help"],
        ["recipes"],
        ["train", "city-pretrain", "--dry-run"],
        ["score", "sums", "{rows}"],
    ],
    ids=" ".join,
)
def test_light_commands_import_no_torch(arguments: list[str], tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "1 + 1 =", "gold": "2", "completion": "2"}\n')
    done = python(RUN_COMMAND, [argument.replace("{rows}", str(rows)) for argument in arguments])
    assert done.returncode == 0, done.stdout + done.stderr
