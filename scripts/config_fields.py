"""Prints how many fields the config sections have, by package, so that growth is a visible diff."""

import importlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ropewalk.config.schema import Section

ROOT = Path(__file__).resolve().parent.parent


def config_modules() -> Iterator[str]:
    """Every `config.py`, and the two that compose sections: recipes, and suites of evaluations."""
    package = ROOT / "ropewalk"
    for path in sorted(
        [
            *package.rglob("config.py"),
            package / "runtime" / "recipe.py",
            package / "runtime" / "evaluation" / "suite.py",
        ]
    ):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts)


def sections(parent: type[Section] = Section) -> Iterator[type[Section]]:
    for child in parent.__subclasses__():
        yield child
        yield from sections(child)


def main() -> int:
    for module in config_modules():
        importlib.import_module(module)
    fields: Counter[str] = Counter()
    for section in set(sections()):
        fields[section.__module__.split(".")[1]] += len(section.__annotations__)
    print(f"config fields: {fields.total()} ({', '.join(f'{name} {n}' for name, n in sorted(fields.items()))})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
