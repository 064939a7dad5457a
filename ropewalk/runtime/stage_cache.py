"""Finished stages kept in the user's cache, by a hash of all that decides their content.

A kept stage, and a stage taken from the cache, is whole or not there: both are copied beside their place and renamed.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import ropewalk
from ropewalk.config.schema import Section
from ropewalk.runtime.lock import NAME as LOCK_FILE
from ropewalk.runtime.recipe import Recipe, recipe_text


def cache_folder() -> Path:
    """Where finished stages are kept: $ROPEWALK_CACHE, else the user's cache folder."""
    base = os.environ.get("ROPEWALK_CACHE")
    return Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ropewalk"


def cache_key(recipe: Recipe) -> str:
    """Hash of the resolved recipe, of the files and folders it names (size and time), and of this package's code."""
    digest = hashlib.blake2b(recipe_text(recipe).encode(), digest_size=16)
    for path in sorted(path for text in _strings(recipe) for path in _files(text)):
        found = path.stat()
        digest.update(f"{path}\x1f{found.st_size}\x1f{found.st_mtime_ns}\x1e".encode())
    for path in sorted(Path(ropewalk.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def take(recipe: Recipe, place: Path) -> bool:
    """Copy a kept stage to its place; False if there is none, or the place is taken."""
    kept = cache_folder() / cache_key(recipe)
    if not (kept / "status.json").exists() or place.exists():
        return False
    _copy(kept, place, place.with_name(f".{place.name}.part"))
    return True


def keep(recipe: Recipe, place: Path) -> None:
    """Keep a finished stage; a cache that cannot be written costs only time."""
    kept = cache_folder() / cache_key(recipe)
    if kept.exists():
        return
    building = kept.with_name(f"{kept.name}.{os.getpid()}.tmp")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        _copy(place, kept, building)
    except OSError:
        shutil.rmtree(building, ignore_errors=True)


def _copy(source: Path, place: Path, building: Path) -> None:
    shutil.rmtree(building, ignore_errors=True)
    shutil.copytree(source, building, ignore=shutil.ignore_patterns(LOCK_FILE))
    building.rename(place)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Section):
        yield from _strings({name: getattr(value, name) for name in type(value).model_fields})
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)


def _files(text: str) -> Iterator[Path]:
    """The files a setting names, those inside a folder included; none if it names no path (as most do)."""
    path = Path(text)
    try:
        if path.is_file():
            yield path
        elif text not in ("", ".") and path.is_dir():
            yield from (inner for inner in path.rglob("*") if inner.is_file())
    except (OSError, ValueError):  # no path at all
        return
